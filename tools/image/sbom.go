package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// sbom is a CycloneDX 1.6 document, with the fields that build info can fill.
type sbom struct {
	BOMFormat    string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// readSBOM returns the SBOM of a binary, as JSON.
func readSBOM(binary, version string, created time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(newSBOM(info, version, created), "", "  ")
}

// newSBOM lists the modules that a binary was built from, and the standard library. Build info does
// not say which of them needs which.
func newSBOM(info *debug.BuildInfo, version string, created time.Time) sbom {
	main := newComponent("application", info.Main.Path, version, "")
	all := []component{newComponent("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		all = append(all, newComponent("library", module.Path, module.Version, module.Sum))
	}
	needs := dependency{Ref: main.Ref}
	for _, c := range all {
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	return sbom{
		BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{Timestamp: created.Format(time.RFC3339), Component: main},
		Components: all, Dependencies: []dependency{needs},
	}
}

// newComponent returns the component of a module. Its sum, as go.sum has it, is a SHA-256.
func newComponent(kind, path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	c := component{Ref: purl, Type: kind, Name: path, Version: version, PURL: purl}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) > 0 {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
	}
	return c
}
