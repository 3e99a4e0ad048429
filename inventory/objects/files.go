package objects

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// RoleLabel is the label by which pools select MachineConfigs.
const RoleLabel = "machineconfiguration.openshift.io/role"

// filesIn returns the files of a MachineConfig that say where nodes pull from and what they
// require of images, other than those that MCO generates or merges from others. It leaves out undecodable files, as
// nodes of that role could not start with them.
func filesIn(mc machineConfig) []mirrors.File {
	name := mc.Metadata.Name
	if IsGenerated(name) {
		return nil
	}
	var files []mirrors.File
	for _, f := range mc.Spec.Config.Storage.Files {
		if !mirrors.IsAppliedFile(f.Path) {
			continue
		}
		if text, err := f.Contents.decode(); err == nil {
			files = append(files, mirrors.File{MachineConfig: name, Role: mc.Metadata.Labels[RoleLabel], Path: f.Path, Contents: text})
		}
	}
	return files
}

// IsGenerated reports whether MCO generates the MachineConfig of that name for its registries' files, or merges it from
// others.
func IsGenerated(name string) bool {
	return strings.HasPrefix(name, RenderedPrefix) || strings.HasPrefix(name, "99-") && strings.HasSuffix(name, "-generated-registries")
}

// FilesOf is DecodeFiles for a MachineConfig that has been decoded. It converts only the files that
// matter, as all may be a megabyte.
func FilesOf(u *unstructured.Unstructured) []mirrors.File {
	var mc machineConfig
	mc.Metadata.Name, mc.Metadata.Labels = u.GetName(), u.GetLabels()
	files, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "config", "storage", "files")
	list, _ := files.([]any)
	for _, entry := range list {
		file, _ := entry.(map[string]any)
		path, _ := file["path"].(string)
		if !mirrors.IsAppliedFile(path) {
			continue
		}
		source, _, _ := unstructured.NestedString(file, "contents", "source")
		compression, _, _ := unstructured.NestedString(file, "contents", "compression")
		mc.Spec.Config.Storage.Files = append(mc.Spec.Config.Storage.Files, ignitionFile{path, ignitionContents{source, compression}})
	}
	return filesIn(mc)
}

// DecodeFiles returns the files of a MachineConfig, as JSON, that say where nodes pull from and
// what they require of images, other than those that MCO generates.
func DecodeFiles(data []byte) ([]mirrors.File, error) {
	var mc machineConfig
	if err := json.Unmarshal(data, &mc); err != nil {
		return nil, err
	}
	return filesIn(mc), nil
}

// EncodeFiles is the inverse of DecodeFiles for files of one MachineConfig. It writes only the parts
// that DecodeFiles reads.
func EncodeFiles(files []mirrors.File) any {
	var mc machineConfig
	for _, f := range files {
		mc.Metadata.Name, mc.Metadata.Labels = f.MachineConfig, map[string]string{RoleLabel: f.Role}
		mc.Spec.Config.Storage.Files = append(mc.Spec.Config.Storage.Files, encodedFile(f.Path, f.Contents))
	}
	return mc
}
