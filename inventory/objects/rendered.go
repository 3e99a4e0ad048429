package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// RenderedPrefix begins the name of a MachineConfig that MCO rendered for a pool.
const RenderedPrefix = "rendered-"

// A renderedConfig holds the parts of a MachineConfig that a rollout depends on.
type renderedConfig struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		OSImageURL      string   `json:"osImageURL"`
		ExtensionsImage string   `json:"baseOSExtensionsContainerImage"`
		KernelType      string   `json:"kernelType"`
		KernelArguments []string `json:"kernelArguments"`
		Extensions      []string `json:"extensions"`
		FIPS            bool     `json:"fips"`
		Config          struct {
			Storage struct {
				Files []json.RawMessage `json:"files"`
			} `json:"storage"`
			Systemd struct {
				Units []json.RawMessage `json:"units"`
			} `json:"systemd"`
			Passwd json.RawMessage `json:"passwd"`
		} `json:"config"`
	} `json:"spec"`
}

// DecodeRendered reads a MachineConfig, as JSON, that MCO rendered for a pool. It keeps a hash of
// units, and of files that do not say where nodes pull from. The error names the unreadable file.
func DecodeRendered(data []byte) (*rollout.Rendered, error) {
	var mc renderedConfig
	if err := json.Unmarshal(data, &mc); err != nil {
		return nil, fmt.Errorf("reading the MachineConfig: %w", err)
	}
	spec := &mc.Spec
	r := &rollout.Rendered{
		Name: mc.Metadata.Name, Files: rollout.Files{}, Units: map[string]string{},
		OSImage: spec.OSImageURL, ExtensionsImage: spec.ExtensionsImage,
		KernelType: spec.KernelType, KernelArguments: spec.KernelArguments, Extensions: spec.Extensions, FIPS: spec.FIPS,
	}
	if len(spec.Config.Passwd) > 0 {
		r.Users = hashOf(spec.Config.Passwd)
	}
	for _, data := range spec.Config.Storage.Files {
		if err := putFile(r.Files, data); err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", r.Name, err)
		}
	}
	for _, data := range spec.Config.Systemd.Units {
		var unit struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(data, &unit); err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", r.Name, err)
		}
		r.Units[unit.Name] = hashOf(data)
	}
	return r, nil
}

// putFile enters a file of an Ignition configuration: with its content if it is one that
// decides on pulls, else with a hash of all that is said of it.
func putFile(files rollout.Files, data []byte) error {
	var file ignitionFile
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	if !mirrors.IsAppliedFile(path.Clean(file.Path)) {
		files[file.Path] = []byte(hashOf(data))
		return nil
	}
	text, err := file.Contents.decode()
	if err != nil {
		return fmt.Errorf("%s: %w", file.Path, err)
	}
	files[file.Path] = text
	return nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
