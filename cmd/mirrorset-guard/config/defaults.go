package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// Default returns the Configuration of a file that sets nothing. The caller owns it.
func Default() Configuration {
	quay := wire.DefaultRates["quay.io"]
	return Configuration{GuardConfiguration: v1alpha1.GuardConfiguration{
		APIVersion:          v1alpha1.APIVersion,
		Kind:                v1alpha1.Kind,
		Mode:                "enforce",
		ProtectedNamespaces: slices.Clone(policy.DefaultProtected),
		Severities:          map[string]v1alpha1.Severity{},
		NamespaceSeverities: []v1alpha1.NamespaceSeverity{},
		VerifyBlobs:         "protected",
		Exemptions:          []v1alpha1.Exemption{},
		FactLifetime:        v1alpha1.Duration(5 * time.Minute),
		Registries:          []v1alpha1.Registry{{Host: "quay.io", RequestsPerSecond: &quay}},
		Caches:              []string{},
		AuditLog:            auditlog.Stdout,
		Updates:             v1alpha1.UpdatesOff,
	}}
}

// YAML returns c as a file, with the fields in the order of the types.
func (c Configuration) YAML() ([]byte, error) {
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
