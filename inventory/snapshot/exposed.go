package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// exposedKind is that of objects.Exposed in a dump.
var exposedKind = ownVersion.WithKind("Exposed")

func (r *reader) exposedObject(data []byte) error {
	var o objects.Exposed
	if err := strictjson.Unmarshal(data, &o); err != nil {
		return err
	}
	kind, name, _ := strings.Cut(o.Object, " ")
	i := slices.IndexFunc(objects.Kinds(), func(k objects.Kind) bool { return k.Kind == kind && k.Role.Has(objects.Exposes) })
	if i < 0 {
		return fmt.Errorf("object %q: %w", o.Object, errLater)
	}
	if o.Name = name; strings.Contains(name, "/") {
		o.Namespace, o.Name, _ = strings.Cut(name, "/")
	}
	r.kept.Put(objects.Kinds()[i], &o)
	return nil
}
