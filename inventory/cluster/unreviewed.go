package cluster

import (
	"bytes"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A fileSink keeps the files of MachineConfigs that decide where nodes pull from, and reports when those
// of one change: no webhook sees that.
type fileSink struct {
	*follow.Table[[]mirrors.File]
	tell func(object string) // may be nil
	// listed is set once all are known: files that arrive before are not a change.
	listed bool
}

func (s *fileSink) Put(o *follow.Object) { s.comparing(func() { s.Table.Put(o) }, o.Name) }

func (s *fileSink) Remove(namespace, name string) {
	s.comparing(func() { s.Table.Remove(namespace, name) }, name)
}

func (s *fileSink) Replace(all []*follow.Object, lacking error) {
	if lacking != nil {
		s.Table.Replace(nil, lacking)
		s.listed = false
		return
	}
	names := map[string]bool{}
	for _, o := range all {
		names[o.Name] = true
	}
	for _, files := range s.All() {
		names[nameOfFiles(files)] = true
	}
	s.comparing(func() { s.Table.Replace(all, nil) }, slices.Sorted(maps.Keys(names))...)
	s.listed = true
}

// comparing makes a change of MachineConfigs of these names.
func (s *fileSink) comparing(change func(), names ...string) {
	before := map[string][]mirrors.File{}
	for _, name := range names {
		before[name] = s.Named(name)
	}
	change()
	if s.tell == nil || !s.listed {
		return
	}
	for _, name := range names {
		if !slices.EqualFunc(before[name], s.Named(name), sameFile) {
			s.tell("MachineConfig " + name)
		}
	}
}

func sameFile(a, b mirrors.File) bool {
	return a.MachineConfig == b.MachineConfig && a.Role == b.Role && a.Path == b.Path && bytes.Equal(a.Contents, b.Contents)
}
