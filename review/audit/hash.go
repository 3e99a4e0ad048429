package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// SpecHash returns the SHA-256 of the canonical spec of o: "sha256:" and 64 digits.
func SpecHash(o mirrors.Object) (string, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", mirrors.NameOf(o), err)
	}
	var fields struct {
		Spec any `json:"spec"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(withoutNothing(fields.Spec))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// withoutNothing returns a copy of decoded JSON without fields that are null or an empty list, which
// means for an API server that they are not set (equality.Semantic of k8s.io/apimachinery).
func withoutNothing(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, field := range v {
			if list, ok := field.([]any); field != nil && (!ok || len(list) > 0) {
				kept[name] = withoutNothing(field)
			}
		}
		return kept
	case []any:
		return convert.Each(v, withoutNothing)
	default:
		return value
	}
}
