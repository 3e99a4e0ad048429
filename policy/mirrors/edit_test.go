package mirrors

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func tagSet(name, source string) *configv1.ImageTagMirrorSet {
	return &configv1.ImageTagMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: source, Mirrors: []configv1.ImageMirror{"mirror.local/quay"}},
		}},
	}
}

// TestHolds: whether an edit has been made is told by the spec.
func TestHolds(t *testing.T) {
	stored := tagSet("a", "quay.io")
	stored.UID, stored.ResourceVersion = "u", "7"
	blocking := func(host string) *configv1.Image {
		image := &configv1.Image{Spec: configv1.ImageSpec{RegistrySources: configv1.RegistrySources{BlockedRegistries: []string{host}}}}
		image.Name = "cluster"
		return image
	}
	trusting := func(image *configv1.Image, cas string) *configv1.Image {
		image.Spec.AdditionalTrustedCA.Name = cas
		return image
	}
	set := Set{Objects: []Object{stored}, Registries: configv1.RegistrySources{BlockedRegistries: []string{"bad.io"}}}
	marked := tagSet("going", "quay.io")
	marked.Finalizers, marked.DeletionTimestamp = []string{"example.com/held"}, new(metav1.Now())
	set.Objects = append(set.Objects, marked)
	other := tagSet("a", "other.io")
	digests := &configv1.ImageDigestMirrorSet{}
	digests.Name = "a"
	for name, tc := range map[string]struct {
		edit Edit
		want bool
	}{
		"stored":                 {Put(tagSet("a", "quay.io")), true},
		"what was there before":  {Put(other), false},
		"another name":           {Put(tagSet("b", "quay.io")), false},
		"another kind":           {Put(digests), false},
		"not deleted yet":        {Delete(stored), false},
		"deleted":                {Delete(digests), true},
		"marked, and held":       {Delete(marked), true},
		"held, and to be let go": {RemoveFinally(marked), false},
		"let go":                 {RemoveFinally(digests), true},
		"registries":             {Put(blocking("bad.io")), true},
		"other registries":       {Put(blocking("worse.io")), false},
		"other CAs":              {Put(trusting(blocking("bad.io"), "cas")), false},
		"registries, deleted":    {Delete(blocking("bad.io")), false},
	} {
		if got := set.Holds(tc.edit); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

// TestJoinHolds: of several steps for one object the last counts, and all have to be made.
func TestJoinHolds(t *testing.T) {
	set := Set{Objects: []Object{tagSet("a", "quay.io")}}
	for name, tc := range map[string]struct {
		edit Edit
		want bool
	}{
		"nothing":                  {Edit{}, true},
		"replaced later":           {Join(Put(tagSet("a", "other.io")), Put(tagSet("a", "quay.io"))), true},
		"put, and deleted again":   {Join(Put(tagSet("a", "quay.io")), Delete(tagSet("a", ""))), false},
		"another one is not there": {Join(Put(tagSet("a", "quay.io")), Put(tagSet("b", "quay.io"))), false},
		"with one that was there":  {Put(tagSet("a", "quay.io")).With(Delete(tagSet("b", ""))), true},
		"no object":                {Put(nil), false},
	} {
		if got := set.Holds(tc.edit); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

// TestApply: an edit changes no Set but the one that it returns, and the last step counts.
func TestApply(t *testing.T) {
	policies := &configv1.ClusterImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "signed"}}
	image := &configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	image.Spec.AdditionalTrustedCA.Name = "cas"
	other := &configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	before := Set{Objects: []Object{tagSet("a", "quay.io")}}
	edit := Join(Put(tagSet("b", "quay.io")), Put(policies), Put(image), Delete(other)).With(Delete(tagSet("a", "")), Put(tagSet("b", "old.io")))
	after := edit.Apply(before)
	if diff := cmp.Diff([]string{"ImageTagMirrorSet a"}, namesIn(before.Objects)); diff != "" {
		t.Errorf("the set before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Object{tagSet("b", "quay.io")}, after.Objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if len(after.Policies) != 1 || after.TrustedCA != "cas" {
		t.Errorf("got %d policies and CAs of %q", len(after.Policies), after.TrustedCA)
	}
	if gone := Join(Delete(image), Delete(policies)).Apply(after); gone.TrustedCA != "" || len(gone.Policies) != 0 {
		t.Errorf("after the deletion: %+v", gone)
	}
}

func namesIn(objects []Object) (names []string) {
	for _, o := range objects {
		names = append(names, NameOf(o))
	}
	return names
}

func TestSubject(t *testing.T) {
	a, b := tagSet("a", "quay.io"), tagSet("b", "quay.io")
	for want, edit := range map[string]Edit{
		"No change":                      {},
		"ImageTagMirrorSet a":            Put(a),
		"Deleting ImageTagMirrorSet a":   Delete(a),
		"Deleting ImageTagMirrorSet b":   RemoveFinally(b),
		"The change of 2 objects":        Join(Put(a), Delete(b)),
		"Deleting 2 objects":             Join(Delete(a), Delete(b)),
		"The change of no object":        Put(nil),
		"Deleting ImageTagMirrorSet a  ": Delete(tagSet("a  ", "")),

		"ImageTagMirrorSet a together with Deleting ImageTagMirrorSet b, ImageTagMirrorSet c, admitted a moment ago,": Put(a).With(Delete(b), Put(tagSet("c", ""))),
	} {
		if got := edit.Subject(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEditOfNoObject: what nobody can judge has an error, and does no harm.
func TestEditOfNoObject(t *testing.T) {
	set := Set{Objects: []Object{tagSet("a", "quay.io")}}
	for name, o := range map[string]Object{
		"nil": nil, "a nil pointer": (*configv1.ImageTagMirrorSet)(nil), "a nil Image": (*configv1.Image)(nil),
		"a nil policy": (*configv1.ImagePolicy)(nil), "a stranger": &corev1.Pod{},
	} {
		for _, e := range []Edit{Put(o), Delete(o), RemoveFinally(o), Join(Put(tagSet("a", "quay.io")), Put(o)), Put(tagSet("a", "quay.io")).With(Delete(o))} {
			if e.Err() == nil {
				t.Errorf("%s: %s has no error", name, e.Subject())
			}
			if diff := cmp.Diff(set, e.Apply(set)); diff != "" {
				t.Errorf("%s: it changes the set (-want +got):\n%s", name, diff)
			}
			if set.Holds(e) || e.Overlaps(Put(o)) {
				t.Errorf("%s: it is held to be made, or to be about an object", name)
			}
		}
	}
	if err := Put(tagSet("a", "")).Err(); err != nil {
		t.Error(err)
	}
}

// TestMachineConfigs: one that is put counts as if it had been there, takes the place of its namesake, and is gone without a trace.
func TestMachineConfigs(t *testing.T) {
	file := func(name, contents string) File {
		return File{MachineConfig: name, Role: workerPool, Path: "/etc/containers/registries.conf.d/" + name + ".conf", Contents: []byte(contents)}
	}
	mc := func(name string, files ...File) *MachineConfig {
		return &MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}, Files: files}
	}
	const toA, toB = "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'a.example.com'\n", "[[registry]]\nlocation = 'quay.io'\nblocked = true\n"
	other := Set{Files: []File{file("other", toA)}}
	put := Put(mc("own", file("own", toB)))
	for reason, tt := range map[string]struct{ got, want Set }{
		"put":      {put.Apply(other), Set{Files: []File{file("other", toA), file("own", toB)}}},
		"replaced": {Put(mc("own")).Apply(put.Apply(other)), other},
		"deleted":  {Delete(mc("own")).Apply(put.Apply(other)), other},
	} {
		if !tt.got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", reason, tt.got.Files, tt.want.Files)
		}
	}
	if other.Holds(put) || !put.Apply(other).Holds(put) || put.Err() != nil || put.Subject() != "MachineConfig own" {
		t.Errorf("%v", put)
	}
}
