package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A dump may hold an object more than once: a must-gather has pods one by one and in lists, and a folder may have
// the dumps of two days. The one with the greater resourceVersion counts.

// An identity is the hash of what names an object. A hundred thousand of them are 2 MB.
type identity [sha256.Size / 2]byte

func identityOf(kind schema.GroupKind, namespace, name string) (id identity) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", kind, namespace, name))
	copy(id[:], sum[:])
	return id
}

// An edition is the one of an object's copies that counts so far.
type edition struct {
	version uint64 // metadata.resourceVersion; 0 for none
	at      *Problem
}

// errTwice is wrapped by errors about an object that the dump has twice.
var errTwice = errors.New("no resourceVersion tells which is newer")

// counts reports whether an object counts besides the copies of it that came before. The error says that
// nothing tells.
func (r *reader) counts(kind schema.GroupKind, h header) (bool, error) {
	if h.name == "" {
		return true, nil // which is an error of its own
	}
	id, now := identityOf(kind, h.namespace, h.name), edition{at: r.place}
	now.version, _ = strconv.ParseUint(h.resourceVersion, 10, 64)
	before, twice := r.editions[id]
	switch {
	case twice && (now.version == 0 || before.version == 0):
		return false, twiceError(kind.Kind, h.namespace, h.name, before.at)
	case twice && now.version <= before.version:
		return false, nil
	default:
		r.editions[id] = now
		return true, nil
	}
}

func twiceError(kind, namespace, name string, at *Problem) error {
	full := types.NamespacedName{Namespace: namespace, Name: name}.String()
	return fmt.Errorf("%s %s is in %s too: %w", kind, strings.TrimPrefix(full, "/"), at.String(), errTwice)
}
