package objects

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A machineConfig holds the files in the Ignition configuration of a MachineConfig.
// Versions 2 and 3 of Ignition agree on these fields.
type machineConfig struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Config struct {
			Storage struct {
				Files []ignitionFile `json:"files"`
			} `json:"storage"`
		} `json:"config"`
	} `json:"spec"`
}

type ignitionFile struct {
	Path     string           `json:"path"`
	Contents ignitionContents `json:"contents"`
}

type ignitionContents struct {
	Source      string `json:"source"`
	Compression string `json:"compression,omitempty"`
}

// ErrNotApplied is returned if there is no MachineConfig that would show what nodes have.
// Test with errors.Is.
var ErrNotApplied = errors.New("no MachineConfig " + mirrors.GeneratedRegistries)

// DecodeApplied reads MachineConfig mirrors.GeneratedRegistries, as JSON. The error names
// the file that could not be read.
func DecodeApplied(data []byte) (*mirrors.Applied, error) {
	var mc machineConfig
	if err := json.Unmarshal(data, &mc); err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", mirrors.GeneratedRegistries, err)
	}
	applied := &mirrors.Applied{Files: map[string][]byte{}}
	for _, f := range mc.Spec.Config.Storage.Files {
		file := path.Clean(f.Path)
		if !mirrors.IsAppliedFile(file) {
			continue
		}
		text, err := f.Contents.decode()
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %s: %w", mirrors.GeneratedRegistries, f.Path, err)
		}
		applied.Files[file] = text
	}
	return applied, nil
}

// EncodeApplied is the inverse of DecodeApplied. It writes only the parts that DecodeApplied reads.
func EncodeApplied(applied mirrors.Applied) any {
	var mc machineConfig
	mc.Metadata.Name = mirrors.GeneratedRegistries
	for _, file := range slices.Sorted(maps.Keys(applied.Files)) {
		mc.Spec.Config.Storage.Files = append(mc.Spec.Config.Storage.Files, encodedFile(file, applied.Files[file]))
	}
	return mc
}

func encodedFile(path string, text []byte) ignitionFile {
	return ignitionFile{path, ignitionContents{
		Source: "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(text),
	}}
}

// decode returns the content of a file, which Ignition has as a data URL (RFC 2397).
func (c ignitionContents) decode() ([]byte, error) {
	rest, ok := strings.CutPrefix(c.Source, "data:")
	meta, data, found := strings.Cut(rest, ",")
	if !ok || !found {
		return nil, errors.New("its contents are not a data URL")
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		return nil, err
	}
	content := []byte(plain)
	if strings.HasSuffix(meta, ";base64") {
		if content, err = base64.StdEncoding.DecodeString(plain); err != nil {
			return nil, err
		}
	}
	switch c.Compression {
	case "":
		return content, nil
	case "gzip":
		return unzip(content)
	default:
		return nil, fmt.Errorf("its compression %q is unknown", c.Compression)
	}
}

// maxUnzipped is many times the size that a MachineConfig may have (1,572,864 bytes).
const maxUnzipped = 64 << 20

func unzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnzipped+1))
	if len(text) > maxUnzipped {
		return nil, fmt.Errorf("larger than %d MiB", maxUnzipped>>20)
	}
	return text, err
}
