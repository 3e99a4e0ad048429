package cluster

import (
	"errors"
	"slices"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestFileSink: a MachineConfig is told of when its files are no longer what they were, and not when it
// is first read or read again.
func TestFileSink(t *testing.T) {
	var told []string
	s := fileSink{table: new(table[[]mirrors.File]), tell: func(object string) { told = append(told, object) }}
	files := func(name, contents string) *follow.Object {
		o := &follow.Object{Name: name, Value: []mirrors.File(nil)}
		if contents != "" {
			o.Value = []mirrors.File{{MachineConfig: name, Path: "/etc/containers/registries.conf", Contents: []byte(contents)}}
		}
		return o
	}
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"listed", func() { s.Replace([]*follow.Object{files("a", "1"), files("b", "1"), files("none", "")}) }, nil},
		{"the same again", func() { s.Put(files("a", "1")) }, nil},
		{"without such files", func() { s.Put(files("none", "")) }, nil},
		{"changed", func() { s.Put(files("a", "2")) }, []string{"MachineConfig a"}},
		{"a new one", func() { s.Put(files("c", "1")) }, []string{"MachineConfig c"}},
		{"deleted", func() { s.Remove("", "c") }, []string{"MachineConfig c"}},
		{"listed again, after what was not seen", func() { s.Replace([]*follow.Object{files("a", "2"), files("d", "1")}) }, []string{"MachineConfig b", "MachineConfig d"}},
		{"not served any more", func() { s.None(errors.New("not found")) }, nil},
		{"served again", func() { s.Replace([]*follow.Object{files("a", "3")}) }, nil},
	} {
		told = nil
		if step.do(); !slices.Equal(told, step.want) {
			t.Errorf("%s: told %q, want %q", step.what, told, step.want)
		}
	}
}

// TestPullSecretIsTold: the pull secret is told of when it has changed, and not when it is first read.
func TestPullSecretIsTold(t *testing.T) {
	told := 0
	s := secretSink{tell: func([]byte, error) {}, changed: func(string) { told++ }}
	secret := func(data string) *follow.Object { return &follow.Object{Value: secretContent{data: []byte(data)}} }
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { s.Replace([]*follow.Object{secret("a")}) }, 0},
		{func() { s.Put(secret("a")) }, 0},
		{func() { s.Put(secret("b")) }, 1},
		{func() { s.Remove("", "") }, 2},
	} {
		if step.do(); told != step.want {
			t.Errorf("step %d: told %d times, want %d", i, told, step.want)
		}
	}
}
