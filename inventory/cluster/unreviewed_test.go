package cluster

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestFileSink: a MachineConfig is told of when its files are no longer what they were, and not when it
// is first read or read again.
func TestFileSink(t *testing.T) {
	var told []string
	s := fileSink{Table: new(follow.Table[[]mirrors.File]), tell: func(object string) { told = append(told, object) }}
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
		{"listed", func() { s.Replace([]*follow.Object{files("a", "1"), files("b", "1"), files("none", "")}, nil) }, nil},
		{"the same again", func() { s.Put(files("a", "1")) }, nil},
		{"without such files", func() { s.Put(files("none", "")) }, nil},
		{"changed", func() { s.Put(files("a", "2")) }, []string{"MachineConfig a"}},
		{"a new one", func() { s.Put(files("c", "1")) }, []string{"MachineConfig c"}},
		{"deleted", func() { s.Remove("", "c") }, []string{"MachineConfig c"}},
		{"listed again, after what was not seen", func() { s.Replace([]*follow.Object{files("a", "2"), files("d", "1")}, nil) }, []string{"MachineConfig b", "MachineConfig d"}},
		{"not served any more", func() { s.Replace(nil, errors.New("not found")) }, nil},
		{"served again", func() { s.Replace([]*follow.Object{files("a", "3")}, nil) }, nil},
	} {
		told = nil
		if step.do(); !slices.Equal(told, step.want) {
			t.Errorf("%s: told %q, want %q", step.what, told, step.want)
		}
	}
}

// TestDefinitionSink: a CRD is told of when it serves something else, or all of its objects go.
func TestDefinitionSink(t *testing.T) {
	told := 0
	history := definitionHistory{name: "x", tell: func(object string) {
		if told++; object != "CustomResourceDefinition x" {
			t.Errorf("told of %s", object)
		}
	}}
	s := follow.One(history.update)
	crd := func(version string, more ...func(*unstructured.Unstructured)) []*follow.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": []any{version}}, "status": map[string]any{"n": int64(told)}}}
		for _, change := range more {
			change(o)
		}
		return []*follow.Object{{Name: "x", Value: trimDefinition(o)}}
	}
	ending := func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Now())) }
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"first read", func() { s.Replace(crd("v1"), nil) }, 0},
		{"read again", func() { s.Replace(crd("v1"), nil) }, 0},
		{"another status", func() { s.Put(crd("v1")[0]) }, 0},
		{"changed", func() { s.Put(crd("v2")[0]) }, 1},
		{"its objects are being deleted", func() { s.Put(crd("v2", ending)[0]) }, 2},
		{"gone", func() { s.Remove("", "x") }, 3},
		{"still gone", func() { s.Replace(nil, nil) }, 3},
		{"there again, while nobody looked", func() { s.Replace(crd("v2"), nil) }, 4},
		{"may not be read", func() { s.Replace(nil, errors.New("forbidden")) }, 4},
		{"may be read", func() { s.Replace(crd("v3"), nil) }, 4},
	} {
		if step.do(); told != step.want {
			t.Errorf("%s: told %d times, want %d", step.what, told, step.want)
		}
	}
}

// TestPullSecretIsTold: the pull secret is told of when it has changed, and not when it is first read, or may not be.
func TestPullSecretIsTold(t *testing.T) {
	told := 0
	history := secretHistory{tell: func([]byte, error) {}, changed: func(string) { told++ }}
	s := follow.One(history.update)
	forbidden := func(verb string) error {
		return apierrors.NewForbidden(corev1.Resource("secrets"), pullSecretName, errors.New("cannot "+verb))
	}
	secret := func(data string) *follow.Object { return &follow.Object{Value: secretContent{data: []byte(data)}} }
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { s.Replace([]*follow.Object{secret("a")}, nil) }, 0},
		{func() { s.Put(secret("a")) }, 0},
		{func() { s.Put(secret("b")) }, 1},
		{func() { s.Remove("", "") }, 2},
		{func() { s.Replace(nil, forbidden("watch")) }, 2},
		{func() { s.Replace(nil, forbidden("list")) }, 2},
		{func() { s.Replace(nil, nil) }, 2},
		{func() { s.Replace([]*follow.Object{secret("b")}, nil) }, 3},
	} {
		if step.do(); told != step.want {
			t.Errorf("step %d: told %d times, want %d", i, told, step.want)
		}
	}
}
