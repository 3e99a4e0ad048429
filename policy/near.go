package policy

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NearMisses look for the meaning of names that nothing uses: used names with the same last part elsewhere. Tenants
// name images, and strangers send changes: comparisons and results are bounded. The zero value is ready.
type NearMisses struct {
	byName map[string]*nearMiss
	byLast map[string][]*nearMiss
}

type nearMiss struct {
	name   string
	strict bool
	found  []string
}

const (
	// maxNear is how many names that may have been meant are told.
	maxNear = 3
	// maxAlike is how many names of one last part are compared with used ones.
	maxAlike = 16
)

// Want has Look look for the meaning of the name of a repository or a namespace. Strict asks for the last two names in
// common, or for the host and one.
func (n *NearMisses) Want(name string, strict bool) {
	i := strings.LastIndexByte(name, '/')
	if m := n.byName[name]; m != nil {
		m.strict = m.strict && strict
		return
	}
	if i <= 0 || len(n.byLast[name[i:]]) >= maxAlike {
		return
	}
	if n.byName == nil {
		n.byName, n.byLast = map[string]*nearMiss{}, map[string][]*nearMiss{}
	}
	m := &nearMiss{name: name, strict: strict}
	n.byName[name], n.byLast[name[i:]] = m, append(n.byLast[name[i:]], m)
}

// Look looks at a reference that is used, if counts holds, which is asked only where that matters.
func (n *NearMisses) Look(ref string, counts func() bool) {
	for used := range scopesOver(ref) {
		last := max(strings.LastIndexByte(used, '/'), 0)
		for _, m := range n.byLast[used[last:]] {
			if m.isNear(used) && counts() {
				m.found = append(m.found, used)
			}
		}
	}
}

// lookAt looks at the images for which counts holds.
func (n *NearMisses) lookAt(images Images, counts func(Image) bool) {
	if len(n.byName) == 0 {
		return
	}
	for img := range images.All() {
		n.Look(img.Ref, sync.OnceValue(func() bool { return counts(img) }))
	}
}

// Of returns what may have been meant by a name, three at most.
func (n *NearMisses) Of(name string) []string {
	if m := n.byName[name]; m != nil {
		return m.found
	}
	return nil
}

// isNear reports whether used, which has the last name of m, may have been meant, and is worth telling.
func (m *nearMiss) isNear(used string) bool {
	if len(m.found) >= maxNear || used == m.name || slices.Contains(m.found, used) {
		return false
	}
	x, y := strings.Split(m.name, "/"), strings.Split(used, "/")
	return !m.strict || x[0] == y[0] || len(x) > 2 && len(y) > 2 && x[len(x)-2] == y[len(y)-2]
}

// scopesOver returns the host, the namespaces and the repository of an image, the widest first; nothing for a
// short name.
func scopesOver(ref string) iter.Seq[string] {
	repository, _ := mirrors.Repository(ref)
	return func(yield func(string) bool) {
		for end := 0; end < len(repository); {
			next := strings.IndexByte(repository[end+1:], '/')
			if next < 0 {
				yield(repository)
				return
			}
			if end += 1 + next; !yield(repository[:end]) {
				return
			}
		}
	}
}
