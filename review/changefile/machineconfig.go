package changefile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

var machineConfigKind = schema.GroupKind{Group: mirrors.PinnedSetGVK.Group, Kind: mirrors.MachineConfigKind}

// machineConfig takes a MachineConfig with the files that tell nodes where to pull from and what to
// accept. One without such files may take away those that it had.
func (r *Reader) machineConfig(at origin, doc []byte) {
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(doc); err != nil {
		r.mistake(at, "%v", err)
		return
	}
	o := &mirrors.MachineConfig{}
	o.SetName(u.GetName())
	name := mirrors.NameOf(o)
	switch {
	case o.Name == "":
		r.mistake(at, "MachineConfig: metadata.name is empty")
		return
	case objects.IsGenerated(o.Name) && !r.Delete:
		r.leave("%s: %s is not judged: the Machine Config Operator writes it itself, from mirror objects and Image cluster", at.name, name)
		return
	}
	r.origins = append(r.origins, &objectOrigin{object: name, origin: at})
	if r.Delete {
		r.deleted = append(r.deleted, o)
		return
	}
	files, err := objects.DecodeFiles(doc)
	if err != nil {
		r.mistake(at, "%s: %v", name, err)
		return
	}
	if len(files) < laid(u) {
		r.mistake(at, "%s: contents of a file that says where nodes pull from are no data URL that can be read: the nodes would not start with it", name)
		return
	}
	o.Files = files
	for _, f := range files {
		if err := f.Unreadable(); err != nil {
			r.mistake(at, "%s: %s: nodes could not read it: %v", name, f.Path, err)
			return
		}
	}
	r.leaveRest(at, u, len(files))
	r.objects, r.read = append(r.objects, o), append(r.read, entry{origin: at, machineConfig: o})
}

// laid returns how many files of u count.
func laid(u unstructured.Unstructured) (n int) {
	all, _, _ := unstructured.NestedSlice(u.Object, "spec", "config", "storage", "files")
	for _, file := range all {
		fields, _ := file.(map[string]any)
		if path, _ := fields["path"].(string); mirrors.IsAppliedFile(path) {
			n++
		}
	}
	return n
}

// leaveRest notes what of a MachineConfig is not judged, beside its count of files that are.
func (r *Reader) leaveRest(at origin, u unstructured.Unstructured, files int) {
	name := "MachineConfig " + u.GetName()
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	all, _, _ := unstructured.NestedSlice(spec, "config", "storage", "files")
	unstructured.RemoveNestedField(spec, "config", "storage", "files")
	unstructured.RemoveNestedField(spec, "config", "ignition")
	switch more := len(all) - files; {
	case files > 0 && u.GetLabels()[objects.RoleLabel] == "":
		r.leave("%s: %s has no label %s: no pool takes it", at.name, name, objects.RoleLabel)
	case more > 0 || hasValue(spec):
		r.leave("%s: of %s, only files for registries.conf, policy.json and registries.d are judged (%d); what else it says is not, nor is it in the forecast", at.name, name, files)
	}
}

// hasValue reports whether anything in v says more than its absence.
func hasValue(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range v {
			if hasValue(field) {
				return true
			}
		}
		return false
	case []any:
		return len(v) > 0
	default:
		data, err := json.Marshal(v)
		return err != nil || !bytes.Contains([]byte(`null "" false`), data)
	}
}

// isOfMirrors reports whether o is more than a MachineConfig that may say nothing of mirrors.
func isOfMirrors(o mirrors.Object) bool {
	mc, ok := o.(*mirrors.MachineConfig)
	return !ok || len(mc.Files) > 0
}

func (r *Reader) leave(format string, args ...any) {
	r.unjudged = append(r.unjudged, text.Line(fmt.Sprintf(format, args...)))
}
