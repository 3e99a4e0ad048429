package mirrors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
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
			"the longest source counts for builds and imports, each that covers it for the registry, digests first, by name",
			Set{Objects: []Object{
				tagEntries("wide", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"wide.io/q"}}),
				tagEntries("narrow", configv1.ImageTagMirrors{Source: "q.io/a", Mirrors: []configv1.ImageMirror{"narrow.io"}}),
				digestEntries("digests", configv1.ImageDigestMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"digests.io"}}),
			}},
			"q.io/a/x:1",
			map[Puller][]string{
				Builds:      {"narrow.io/x:1", "q.io/a/x:1"},
				Imports:     {"narrow.io/x:1", "q.io/a/x:1"},
				PullThrough: {"digests.io/a/x:1", "narrow.io/x:1", "wide.io/q/a/x:1", "q.io/a/x:1"},
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
			"a host does not cover its ports for imports and the registry",
			Set{Objects: []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"m.io"}})}},
			"q.io:8443/x:1",
			map[Puller][]string{Builds: {"m.io:8443/x:1", "q.io:8443/x:1"}, Imports: {"q.io:8443/x:1"}, PullThrough: {"q.io:8443/x:1"}},
		},
		{
			"a wildcard blocks a registry that is listed for something else",
			Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"*.io"}, InsecureRegistries: []string{"q.io"}}},
			"q.io/x:1",
			map[Puller][]string{Builds: {"!q.io/x:1"}, Imports: {"!q.io/x:1"}, PullThrough: {"q.io/x:1"}},
		},
		{
			"and not one that is not listed",
			Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"*.io"}}},
			"q.io/x:1",
			map[Puller][]string{Builds: {"!q.io/x:1"}, Imports: {"q.io/x:1"}, PullThrough: {"q.io/x:1"}},
		},
		{
			"a mirror that is blocked keeps builds from it",
			Set{
				Objects:    []Object{tagEntries("a", configv1.ImageTagMirrors{Source: "q.io", Mirrors: []configv1.ImageMirror{"m.io"}})},
				Registries: configv1.RegistrySources{BlockedRegistries: []string{"m.io"}},
			},
			"q.io/x:1",
			map[Puller][]string{Builds: {"!m.io/x:1", "q.io/x:1"}, Imports: {"m.io/x:1", "q.io/x:1"}, PullThrough: {"m.io/x:1", "q.io/x:1"}},
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
// comes of the objects all the same: see TestGeneratorErrors.
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
		Registries: configv1.RegistrySources{InsecureRegistries: []string{"x.q.io", "r.io/below"}},
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
	if route, _ := table.Route("r.io/below/x:1", ""); !slices.Equal(placesOf(route), []string{"r.io/below/x:1"}) {
		t.Errorf("below an entry that inherits nothing, as the generator has failed: got %q", placesOf(route))
	}
}

// TestGeneratorErrors: which objects the generator that MCO, openshift-apiserver and builds share fails for. That two of them
// contradict each other is not among it: MCO finds that out itself, before.
func TestGeneratorErrors(t *testing.T) {
	tags := func(source string, policy configv1.MirrorSourcePolicy, mirrors ...configv1.ImageMirror) Object {
		return tagEntries(source, configv1.ImageTagMirrors{Source: source, Mirrors: mirrors, MirrorSourcePolicy: policy})
	}
	digests := func(source string, policy configv1.MirrorSourcePolicy, mirrors ...configv1.ImageMirror) Object {
		return digestEntries(source, configv1.ImageDigestMirrors{Source: source, Mirrors: mirrors, MirrorSourcePolicy: policy})
	}
	const allow, never = configv1.AllowContactingSource, configv1.NeverContactSource
	insecure := func(list ...string) configv1.RegistrySources {
		return configv1.RegistrySources{InsecureRegistries: list}
	}
	blocked := func(list ...string) configv1.RegistrySources {
		return configv1.RegistrySources{BlockedRegistries: list}
	}
	for _, tt := range []struct {
		reason          string
		set             Set
		fails, rejected bool // the generator, and by MCO
	}{
		{"policies that contradict", Set{Objects: []Object{tags("q.io", allow, "a.io"), tags("q.io", never, "b.io")}}, false, true},
		{"policies for digests that contradict", Set{Objects: []Object{digests("q.io", allow, "a.io"), digests("q.io", never, "b.io")}}, false, true},
		{"of digests and of tags", Set{Objects: []Object{digests("q.io", allow, "a.io"), tags("q.io", never, "b.io")}}, false, true},
		{"orders that contradict", Set{Objects: []Object{tags("q.io", allow, "a.io", "b.io"), tags("q.io", allow, "b.io", "a.io")}}, false, false},
		{"scopes in each other, with other policies", Set{Objects: []Object{tags("q.io", never, "a.io"), tags("q.io/a", allow, "b.io")}}, false, false},
		{"a source that is its own mirror", Set{Objects: []Object{tags("q.io", allow, "q.io", "a.io")}}, false, false},
		{"entries of lists below a source", Set{Objects: []Object{tags("q.io", allow, "a.io")}, Registries: insecure("q.io/a", "*.io")}, false, false},
		{"a wildcard", Set{Objects: []Object{tags("*.q.io", allow, "a.io")}}, false, false},
		{"a wildcard over a source", Set{Objects: []Object{tags("*.q.io", allow, "a.io"), tags("x.q.io", never, "b.io")}}, false, false},
		{"a wildcard over an insecure registry", Set{Objects: []Object{tags("*.q.io", allow, "a.io")}, Registries: insecure("x.q.io")}, true, true},
		{"a wildcard over a blocked one", Set{Objects: []Object{digests("*.q.io", allow, "a.io")}, Registries: blocked("x.q.io")}, true, true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if _, err := generate(tt.set, tt.set.Registries.BlockedRegistries); (err != nil) != tt.fails {
				t.Errorf("the generator says %v", err)
			}
			if _, err := Resolve(tt.set); (err != nil) != tt.rejected {
				t.Errorf("MCO says %v", err)
			}
		})
	}
}

// imported is where openshift-apiserver asks for an image, as it is written there (Create in rest.go, and
// blockedRegistry, findRegistryConfiguration and getPullSources in importer.go).
func imported(t *testing.T, s Set, image string) []string {
	t.Helper()
	conf, _ := generate(s, s.Registries.BlockedRegistries) // the error is logged
	for i, r := range conf.Registries {
		conf.Registries[i].Prefix = r.Location
	}
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(ref.Name(), "/")
	for _, r := range conf.Registries {
		if len(r.Mirrors) == 0 && r.Location == host {
			if r.Blocked {
				return []string{"!" + image}
			}
			break
		}
	}
	var best *sysregistriesv2.Registry
	for i := range conf.Registries {
		r := &conf.Registries[i]
		rest, below := strings.CutPrefix(ref.Name(), r.Prefix)
		if below && (rest == "" || rest[0] == '/') && (best == nil || len(r.Prefix) > len(best.Prefix)) {
			best = r
		}
	}
	if best == nil {
		return []string{image}
	}
	pulls, err := best.PullSourcesFromReference(ref)
	if err != nil {
		return []string{image}
	}
	return convert.Each(pulls, func(p sysregistriesv2.PullSource) string { return p.Reference.String() })
}

// pulledThrough is where the integrated registry asks for an image, as it is written there (FirstRequest and
// alternativeImageSources in simplelookupicsp.go), but for what pullThroughTable leaves out.
func pulledThrough(s Set, image string) []string {
	name, version := cutRepository(image)
	var places []string
	for _, kind := range []string{ContentPolicyGVK.Kind, DigestMirrorSetGVK.Kind, TagMirrorSetGVK.Kind} {
		for _, e := range s.Entries() {
			suffix, below := strings.CutPrefix(name, e.Source)
			if KindOf(e.Object) != kind || !below || suffix != "" && suffix[0] != '/' {
				continue
			}
			for _, m := range e.Mirrors {
				if place := m + suffix + version; !slices.Contains(places, place) {
					places = append(places, place)
				}
			}
		}
	}
	return append(places, image)
}

func imageMirrors(of []string) []configv1.ImageMirror {
	return convert.Each(of, func(m string) configv1.ImageMirror { return configv1.ImageMirror(m) })
}

// TestImportsAreTheImporters holds the routes of imports and of pull-through to the code that asks, for random objects.
func TestImportsAreTheImporters(t *testing.T) {
	r := rand.New(rand.NewPCG(28, 11))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	source := func() string {
		return pick("q.io", "q.io/a", "q.io/a/b", "q.io:5000", "q.io:5000/a", "x.q.io", "*.q.io", "*.io", "m.io", "r.io/a")
	}
	list := func() []string {
		var all []string
		for range r.IntN(4) {
			all = append(all, source())
		}
		return all
	}
	blocked, failed, mirrored := 0, 0, 0
	for range 3000 {
		var s Set
		for i := range r.IntN(4) {
			tags, digests, legacy := &configv1.ImageTagMirrorSet{}, &configv1.ImageDigestMirrorSet{}, &operatorv1alpha1.ImageContentSourcePolicy{}
			for range 1 + r.IntN(2) {
				from, policy, to := source(), configv1.MirrorSourcePolicy(pick("", "NeverContactSource")), []string{pick("m.io/m", "m.io/a"), pick("n.io:5000/x", "q.io/a")}[:1+r.IntN(2)]
				tags.Spec.ImageTagMirrors = append(tags.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: from, Mirrors: imageMirrors(to), MirrorSourcePolicy: policy})
				digests.Spec.ImageDigestMirrors = append(digests.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: from, Mirrors: imageMirrors(to), MirrorSourcePolicy: policy})
				legacy.Spec.RepositoryDigestMirrors = append(legacy.Spec.RepositoryDigestMirrors, operatorv1alpha1.RepositoryDigestMirrors{Source: from, Mirrors: to})
			}
			o := []Object{tags, digests, legacy}[r.IntN(3)]
			o.SetName(fmt.Sprint(i))
			s.Objects = append(s.Objects, o)
		}
		s.Registries.InsecureRegistries, s.Registries.BlockedRegistries = list(), list()
		image := pick("q.io", "q.io:5000", "x.q.io", "m.io", "r.io") + pick("/a", "/a/b", "/a/b/c", "/z") + pick(":1", "@sha256:"+strings.Repeat("a", 64))
		want := imported(t, s, image)
		for p, want := range map[Puller][]string{Imports: want, PullThrough: pulledThrough(s, image)} {
			table, err := ResolveFor(p, s)
			if err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
			route, err := table.Route(image, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := placesOf(route); !slices.Equal(got, want) {
				t.Fatalf("%s, %s: got %q, want %q; insecure %q, blocked %q, entries %+v", p, image, got, want, s.Registries.InsecureRegistries, s.Registries.BlockedRegistries, s.Entries())
			}
		}
		if _, err := generate(s, s.Registries.BlockedRegistries); err != nil {
			failed++
		}
		if len(want) > 1 {
			mirrored++
		}
		if want[0][0] == '!' {
			blocked++
		}
	}
	if blocked < 50 || failed < 50 || mirrored < 50 {
		t.Errorf("only %d are blocked, %d have mirrors, and the generator fails for %d", blocked, mirrored, failed)
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
