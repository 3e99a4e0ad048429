package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// machineConfigBelow looks for a MachineConfig in a dump: a file, or a folder of
// files. It returns nil if there is none. Package snapshot keeps no raw objects.
func machineConfigBelow(dump, name string) ([]byte, error) {
	var found []byte
	err := filepath.WalkDir(dump, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || file != dump && !isManifest(file) {
			return err
		}
		if found, err = machineConfigInFile(file, name); found != nil {
			return fs.SkipAll
		}
		return err
	})
	return found, err
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

func machineConfigInFile(file, name string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return machineConfigIn(f, name)
}

// machineConfigIn looks for a MachineConfig in a stream: documents, or a tar
// archive of such files, either of them compressed with gzip or not.
func machineConfigIn(stream io.Reader, name string) ([]byte, error) {
	buffered := bufio.NewReader(stream)
	if head, _ := buffered.Peek(2); string(head) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		buffered = bufio.NewReader(unzipped)
	}
	if head, _ := buffered.Peek(262); !bytes.HasSuffix(head, []byte("ustar")) {
		text, err := io.ReadAll(buffered)
		return machineConfigInText(text, name), err
	}
	for archive := tar.NewReader(buffered); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !isManifest(entry.Name) {
			continue
		}
		text, err := io.ReadAll(archive)
		if found := machineConfigInText(text, name); found != nil || err != nil {
			return found, err
		}
	}
}

// machineConfigInText looks for a MachineConfig in documents. Nothing is parsed
// that does not have its name in it, and the items of YAML lists are looked at one
// by one first: parsing a list of 30 MB as a whole takes 1 GB of memory.
func machineConfigInText(text []byte, name string) []byte {
	if !bytes.Contains(text, []byte(name)) {
		return nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return machineConfigInJSON(text, name)
	}
	for item := range bytes.SplitSeq(text, []byte("\n- ")) {
		if found := machineConfigInYAML(firstItem(item), name); found != nil {
			return found
		}
	}
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		if found := machineConfigInYAML(document, name); found != nil {
			return found
		}
	}
	return nil
}

// firstItem returns what follows "- " in the first column as a document, without
// what comes after the list.
func firstItem(text []byte) []byte {
	item := []byte("  ")
	for line := range bytes.Lines(text) {
		if len(item) > len("  ") && line[0] != ' ' && line[0] != '\n' {
			break
		}
		item = append(item, line...)
	}
	return item
}

// machineConfigInYAML looks at one document. What cannot be parsed has been told
// of when the dump was read.
func machineConfigInYAML(text []byte, name string) []byte {
	if !bytes.Contains(text, []byte(name)) {
		return nil
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil
	}
	return machineConfigInJSON(data, name)
}

// machineConfigInJSON looks at a stream of objects and lists of them.
func machineConfigInJSON(text []byte, name string) []byte {
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var data json.RawMessage
		if err := decoder.Decode(&data); err != nil {
			return nil
		}
		var o struct {
			machineConfig
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &o); err != nil {
			continue // an object of another shape
		}
		if o.Kind == "MachineConfig" && o.Metadata.Name == name {
			return data
		}
		for _, item := range o.Items {
			if found := machineConfigInJSON(item, name); found != nil {
				return found
			}
		}
	}
}
