package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Defaults returns the configuration of a file that sets nothing. The caller owns it.
func Defaults() GuardConfiguration {
	quay := registry.DefaultRates["quay.io"]
	return GuardConfiguration{
		APIVersion:          APIVersion,
		Kind:                Kind,
		Mode:                "enforce",
		ProtectedNamespaces: slices.Clone(policy.DefaultProtected),
		Severities:          map[string]Severity{},
		NamespaceSeverities: []NamespaceSeverity{},
		Guesses:             "warn",
		VerifyBlobs:         "protected",
		Exemptions:          []Exemption{},
		Lifetimes: Lifetimes{
			Found: Duration(5 * time.Minute), FoundByTag: Duration(2 * time.Minute),
			Recalled: Duration(90 * time.Second), Trouble: Duration(10 * time.Second),
		},
		Registries: []Registry{{Host: "quay.io", RequestsPerSecond: &quay}},
		Audit: Audit{
			Destination: "stdout", Changes: true, Facts: 100,
			File: AuditFile{MaxSizeMiB: 100, MaxFiles: 10, MaxAgeDays: 0, Compress: true},
		},
	}
}

// YAML returns c as a file, with the fields in the order of the types.
func (c GuardConfiguration) YAML() ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	var b bytes.Buffer
	if err := writeFields(&b, decoder); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeFields writes the object that decoder is at the beginning of, a field at a time, as
// package yaml would sort them.
func writeFields(b *bytes.Buffer, decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		field, err := yaml.Marshal(map[string]json.RawMessage{key.(string): value})
		if err != nil {
			return err
		}
		b.Write(field)
	}
	return nil
}
