package mirrors

import (
	"slices"
	"testing"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func tagEntries(name string, entries ...configv1.ImageTagMirrors) Object {
	return &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: entries}}
}

func digestEntries(name string, entries ...configv1.ImageDigestMirrors) Object {
	return &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: entries}}
}

// TestResolveFor: where builds, imports and the integrated registry ask for the same image under the same
// objects.
func TestResolveFor(t *testing.T) {
	const never = configv1.NeverContactSource
	digest := "@sha256:" + string(slices.Repeat([]byte("a"), 64))
	tests := []struct {
		reason string
		set    Set
		image  string
		want   map[Puller][]string // "!" is put before a place that is blocked
	}{
		{
			"a policy keeps builds from the source, and nobody else",
			Set{Objects: []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io/a", Mirrors: []configv1.ImageMirror{"m.io/a"}, MirrorSourcePolicy: never})}},
			"q.io/a/x:1",
			map[Puller][]string{
				Builds:      {"m.io/a/x:1", "!q.io/a/x:1"},
				Imports:     {"m.io/a/x:1", "q.io/a/x:1"},
				PullThrough: {"m.io/a/x:1", "q.io/a/x:1"},
			},
		},
		{
			"the longest source counts for builds and imports, each that covers it for the registry, digests first",
			Set{Objects: []Object{
				tagEntries("wide", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"wide.io/q"}}),
				tagEntries("narrow", configv1.ImageTagMirrors{Source: "q.io/a", Mirrors: []configv1.ImageMirror{"narrow.io"}}),
				digestEntries("digests", configv1.ImageDigestMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"digests.io"}}),
			}},
			"q.io/a/x:1",
			map[Puller][]string{
				Builds:      {"narrow.io/x:1", "q.io/a/x:1"},
				Imports:     {"narrow.io/x:1", "q.io/a/x:1"},
				PullThrough: {"digests.io/a/x:1", "wide.io/q/a/x:1", "narrow.io/x:1", "q.io/a/x:1"},
			},
		},
		{
			"mirrors for tags serve no digest, but in the registry",
			Set{Objects: []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"m.io"}})}},
			"q.io/a" + digest,
			map[Puller][]string{Builds: {"q.io/a" + digest}, Imports: {"q.io/a" + digest}, PullThrough: {"m.io/a" + digest, "q.io/a" + digest}},
		},
		{
			"a wildcard counts for builds",
			Set{Objects: []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "*.q.io", Mirrors: []configv1.ImageMirror{"m.io"}})}},
			"x.q.io/a:1",
			map[Puller][]string{Builds: {"m.io/a:1", "x.q.io/a:1"}, Imports: {"x.q.io/a:1"}, PullThrough: {"x.q.io/a:1"}},
		},
		{
			"imports are blocked for a registry without mirrors of its own, mirrors below it or not",
			Set{
				Objects:    []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io/a", Mirrors: []configv1.ImageMirror{"m.io/a"}})},
				Registries: configv1.RegistrySources{BlockedRegistries: []string{"q.io"}},
			},
			"q.io/a/x:1",
			map[Puller][]string{Builds: {"!m.io/a/x:1", "!q.io/a/x:1"}, Imports: {"!q.io/a/x:1"}, PullThrough: {"m.io/a/x:1", "q.io/a/x:1"}},
		},
		{
			"with mirrors of its own, nothing blocks them",
			Set{
				Objects:    []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"m.io"}})},
				Registries: configv1.RegistrySources{BlockedRegistries: []string{"q.io"}},
			},
			"q.io/x:1",
			map[Puller][]string{Builds: {"!m.io/x:1", "!q.io/x:1"}, Imports: {"m.io/x:1", "q.io/x:1"}, PullThrough: {"m.io/x:1", "q.io/x:1"}},
		},
		{
			"where the name at a mirror is none, imports and the registry have the source left",
			Set{Objects: []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"m.io:5000/p"}})}},
			"q.io:8443/x:1",
			map[Puller][]string{Builds: nil, Imports: {"q.io:8443/x:1"}, PullThrough: {"q.io:8443/x:1"}},
		},
		{
			"short names",
			Set{},
			"app:1",
			map[Puller][]string{
				Builds:  {"registry.redhat.io/app:1", "registry.access.redhat.com/app:1", "quay.io/app:1", "docker.io/library/app:1"},
				Imports: {"docker.io/library/app:1"},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			for p, want := range test.want {
				table, err := ResolveFor(p, test.set)
				if err != nil {
					t.Fatal(err)
				}
				route, err := table.Route(test.image, "")
				if err != nil {
					t.Fatal(err)
				}
				if got := placesOf(route); !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", p, got, want)
				}
			}
		})
	}
}

func placesOf(r Route) []string {
	var places []string
	for _, s := range r.Sources {
		if s.Tried() {
			places = append(places, s.Ref)
		} else {
			places = append(places, "!"+s.Ref)
		}
	}
	return places
}

// TestContradictions: MCO rejects these objects, and nodes keep what they have. What builds and imports use
// comes of the objects all the same.
func TestContradictions(t *testing.T) {
	set := Set{Objects: []Object{
		tagEntries("a", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"a.io"}}),
		tagEntries("b", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"b.io"}, MirrorSourcePolicy: configv1.NeverContactSource}),
	}}
	if _, err := Resolve(set); err == nil {
		t.Fatal("MCO would apply it")
	}
	for p, want := range map[Puller][]string{
		Builds: {"a.io/x:1", "b.io/x:1", "!q.io/x:1"}, Imports: {"a.io/x:1", "b.io/x:1", "q.io/x:1"}, PullThrough: {"a.io/x:1", "b.io/x:1", "q.io/x:1"},
	} {
		table, err := ResolveFor(p, set)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if route, _ := table.Route("q.io/x:1", ""); !slices.Equal(placesOf(route), want) {
			t.Errorf("%s: got %q, want %q", p, placesOf(route), want)
		}
	}
}

// TestGeneratorFails: where registries.conf cannot be generated, builds keep what they had, and imports use
// what has been made of it so far.
func TestGeneratorFails(t *testing.T) {
	set := Set{
		Objects: []Object{
			tagEntries("wildcard", configv1.ImageTagMirrors{Source: "*.q.io", Mirrors: []configv1.ImageMirror{"m.io"}}),
			tagEntries("plain", configv1.ImageTagMirrors{Source: "r.io", Mirrors: []configv1.ImageMirror{"m.io"}}),
		},
		Registries: configv1.RegistrySources{InsecureRegistries: []string{"x.q.io"}},
	}
	conf, err := generate(set, nil)
	if err == nil {
		t.Fatal("the generator makes something of it")
	}
	if !slices.ContainsFunc(conf.Registries, func(r sysregistriesv2.Registry) bool { return r.Location == "r.io" && len(r.Mirrors) == 1 }) {
		t.Error("the generator leaves nothing where it fails, which imports are said to use")
	}
	if _, err := ResolveFor(Builds, set); err == nil {
		t.Error("builds have a configuration of it")
	}
	table, err := ResolveFor(Imports, set)
	if err != nil {
		t.Fatal(err)
	}
	if route, _ := table.Route("r.io/x:1", ""); !slices.Equal(placesOf(route), []string{"m.io/x:1", "r.io/x:1"}) {
		t.Errorf("got %q", placesOf(route))
	}
}

// TestResolveForTooMuch: nobody waits for what takes minutes.
func TestResolveForTooMuch(t *testing.T) {
	entries := make([]configv1.ImageTagMirrors, MaxEntries+1)
	for _, p := range OtherPullers {
		if _, err := ResolveFor(p, Set{Objects: []Object{tagEntries("a", entries...)}}); err == nil {
			t.Errorf("%s: computed", p)
		}
	}
}
