package mirrors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

const (
	never = configv1.NeverContactSource
	allow = configv1.AllowContactingSource
)

func itms(name, source string, policy configv1.MirrorSourcePolicy, mirrors ...configv1.ImageMirror) Object {
	o := &configv1.ImageTagMirrorSet{}
	o.Name = name
	o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: source, Mirrors: mirrors, MirrorSourcePolicy: policy}}
	return o
}

func idms(name, source string, policy configv1.MirrorSourcePolicy, mirrors ...configv1.ImageMirror) Object {
	o := &configv1.ImageDigestMirrorSet{}
	o.Name = name
	o.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: source, Mirrors: mirrors, MirrorSourcePolicy: policy}}
	return o
}

func icsp(name, source string, mirrors ...string) Object {
	o := &operatorv1alpha1.ImageContentSourcePolicy{}
	o.Name = name
	o.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: source, Mirrors: mirrors}}
	return o
}

// written returns a route as one line, blocked places in brackets.
func written(r Route) string {
	if r.Err != nil {
		return "error"
	}
	var parts []string
	for _, s := range r.Sources {
		part := s.Ref
		if s.Insecure {
			part += "(insecure)"
		}
		if s.Blocked {
			part = "[" + part + "]"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func TestRoute(t *testing.T) {
	const d = "@" + digestA
	tests := []struct {
		name       string
		set        Set
		image      string
		want, note string
	}{
		{"tag mirror, tag", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, "quay.io/x/y:1", "m.local/x/y:1 quay.io/x/y:1", "the mirror first, then the source"},
		{"tag mirror, digest", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, "quay.io/x/y" + d, "quay.io/x/y" + d, "an ITMS leaves digests alone"},
		{"tag mirror, tag and digest", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, "quay.io/x/y:1" + d, "quay.io/x/y" + d, "CRI-O drops the tag"},
		{"tag mirror never, digest", Set{Objects: []Object{itms("a", "quay.io", never, "m.local")}}, "quay.io/x/y" + d, "[quay.io/x/y" + d + "]", "the block is for digests too"},
		{"tag mirror never, tag", Set{Objects: []Object{itms("a", "quay.io", never, "m.local")}}, "quay.io/x/y:1", "m.local/x/y:1 [quay.io/x/y:1]", ""},
		{"digest mirror never, tag", Set{Objects: []Object{idms("a", "quay.io", never, "m.local")}}, "quay.io/x/y:1", "[quay.io/x/y:1]", "and the other way round"},
		{"no tag", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, "quay.io/x/y", "m.local/x/y:latest quay.io/x/y:latest", ""},
		{
			"narrow ITMS hides wide IDMS",
			Set{Objects: []Object{idms("a", "quay.io/openshift-release-dev", allow, "m.local/ocp"), itms("b", "quay.io/openshift-release-dev/ocp-v4.0-art-dev", allow, "m.local/ocp")}},
			"quay.io/openshift-release-dev/ocp-v4.0-art-dev" + d, "quay.io/openshift-release-dev/ocp-v4.0-art-dev" + d, "an entry with mirrors of its own inherits none",
		},
		{
			"narrow IDMS hides wide ITMS",
			Set{Objects: []Object{itms("a", "quay.io", allow, "m.local"), idms("b", "quay.io/foo", allow, "m.local/foo")}},
			"quay.io/foo/x:1", "quay.io/foo/x:1", "",
		},
		{
			"narrow allow lifts wide never",
			Set{Objects: []Object{idms("a", "quay.io", never, "m.local"), itms("b", "quay.io/app", allow, "m.local/app")}},
			"quay.io/app" + d, "quay.io/app" + d, "only the longest entry counts, block included",
		},
		{
			"insecure child inherits mirrors, not the block",
			Set{Objects: []Object{itms("a", "quay.io", never, "m.local")}, Registries: configv1.RegistrySources{InsecureRegistries: []string{"quay.io/foo"}}},
			"quay.io/foo/x:1", "m.local/foo/x:1 quay.io/foo/x:1(insecure)", "",
		},
		{"never without mirrors", Set{Objects: []Object{itms("a", "quay.io", never)}}, "quay.io/x:1", "quay.io/x:1", "no rule at all"},
		{"allow with only itself", Set{Objects: []Object{itms("a", "quay.io", allow, "quay.io")}}, "quay.io/x:1", "quay.io/x:1", "no rule at all"},
		{"source without port, mirror with port", Set{Objects: []Object{itms("a", "reg.local", allow, "m.local:8443")}}, "reg.local:5000/x:1", "error", "m.local:8443:5000"},
		{"source without port, mirror with path", Set{Objects: []Object{itms("a", "reg.local", allow, "m.local/p")}}, "reg.local:5000/x:1", "error", "m.local/p:5000/x"},
		{"wildcard to a path, host with port", Set{Objects: []Object{itms("a", "*.svc", allow, "m.local/p")}}, "image-registry.openshift-image-registry.svc:5000/x/y:1", "error", "the internal registry"},
		{"mirror host without dot or port", Set{Objects: []Object{itms("a", "quay.io", allow, "registry/x")}}, "quay.io/y:1", "error", "docker.io/registry/x is not what it parses to"},
		{"mirror index.docker.io", Set{Objects: []Object{itms("a", "quay.io", allow, "index.docker.io/x")}}, "quay.io/y:1", "error", "not canonical"},
		{"exact repository to a bare host", Set{Objects: []Object{itms("a", "quay.io/x/y", allow, "m.local")}}, "quay.io/x/y:1", "error", "m.local:1 has no repository"},
		{"wildcard drops the host", Set{Objects: []Object{itms("a", "*.example.com", allow, "m.local/x")}}, "a.example.com/y:1", "m.local/x/y:1 a.example.com/y:1", ""},
		{"wildcard is not the bare domain", Set{Objects: []Object{itms("a", "*.example.com", allow, "m.local/x")}}, "example.com/y:1", "example.com/y:1", ""},
		{"mirror under a blocked source", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local"), idms("b", "m.local", never, "other.local")}}, "quay.io/y:1", "[m.local/y:1] quay.io/y:1", "each endpoint by the entry that covers it"},
		{"blocked mirror", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}, Registries: configv1.RegistrySources{BlockedRegistries: []string{"m.local"}}}, "quay.io/y:1", "[m.local/y:1] quay.io/y:1", ""},
		{"insecure mirror", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local/x")}, Registries: configv1.RegistrySources{InsecureRegistries: []string{"m.local"}}}, "quay.io/y:1", "m.local/x/y:1(insecure) quay.io/y:1", ""},
		{"source index.docker.io", Set{Objects: []Object{itms("a", "index.docker.io", allow, "m.local")}}, "docker.io/library/nginx:1", "docker.io/library/nginx:1", "never matches"},
		{"source in upper case", Set{Objects: []Object{itms("a", "Quay.io", allow, "m.local")}}, "quay.io/x:1", "quay.io/x:1", "never matches"},
		{"short name", Set{Objects: []Object{itms("a", "docker.io/library", allow, "m.local")}}, "nginx", "registry.access.redhat.com/nginx:latest m.local/nginx:latest docker.io/library/nginx:latest", "each search registry in turn"},
		{"two objects, overlapping mirrors", Set{Objects: []Object{itms("z", "quay.io", allow, "b.local", "c.local"), itms("a", "quay.io", allow, "a.local", "b.local")}}, "quay.io/x:1", "a.local/x:1 b.local/x:1 c.local/x:1 quay.io/x:1", "topological merge"},
		{"ICSP is a digest mirror", Set{Objects: []Object{icsp("a", "quay.io", "m.local")}}, "quay.io/x" + d, "m.local/x" + d + " quay.io/x" + d, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := Resolve(tt.set)
			if err != nil {
				t.Fatal(err)
			}
			route, err := table.Route(tt.image, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := written(route); got != tt.want {
				t.Errorf("route of %s:\n got %s\nwant %s\n%s", tt.image, got, tt.want, tt.note)
			}
		})
	}
}

// TestRejected restates what MCO refuses, from the facts of its validation.
func TestRejected(t *testing.T) {
	noFormat := idms("a", "quay.io/", allow, "m.local")
	tests := []struct {
		name string
		set  Set
		want []string // nil: accepted
	}{
		{
			"both policies across kinds",
			Set{Objects: []Object{itms("a", "quay.io", never, "m.local"), idms("b", "quay.io", allow, "m.local")}},
			[]string{`source "quay.io" is NeverContactSource in ImageTagMirrorSet a but AllowContactingSource in ImageDigestMirrorSet b`},
		},
		{
			"empty counts as allow",
			Set{Objects: []Object{itms("a", "quay.io", never, "m.local"), itms("b", "quay.io", "", "m.local")}},
			[]string{`source "quay.io" is NeverContactSource in ImageTagMirrorSet a but AllowContactingSource in ImageTagMirrorSet b`},
		},
		{
			"ICSP counts as allow",
			Set{Objects: []Object{idms("a", "quay.io", never, "m.local"), icsp("b", "quay.io", "m.local")}},
			[]string{`source "quay.io" is NeverContactSource in ImageDigestMirrorSet a but AllowContactingSource in ImageContentSourcePolicy b`},
		},
		{
			"an entry without mirrors counts",
			Set{Objects: []Object{itms("a", "quay.io", never, "m.local"), itms("b", "quay.io", allow)}},
			[]string{`source "quay.io" is NeverContactSource in ImageTagMirrorSet a but AllowContactingSource in ImageTagMirrorSet b`},
		},
		{
			"never with itself as mirror",
			Set{Objects: []Object{itms("a", "quay.io", never, "m.local", "quay.io")}},
			[]string{`source "quay.io" of ImageTagMirrorSet a is NeverContactSource and among its own mirrors`},
		},
		{"nested sources may differ", Set{Objects: []Object{itms("a", "quay.io", never, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")}}, nil},
		{"source format", Set{Objects: []Object{noFormat}}, []string{`invalid format for source "quay.io/" in ImageDigestMirrorSet a`}},
		{
			"ICSP wildcard mirror",
			Set{Objects: []Object{icsp("a", "quay.io", "*.m.local")}},
			[]string{`invalid format for mirror "*.m.local" of source "quay.io" in ImageContentSourcePolicy a`},
		},
		{
			"wildcard with a nested entry without mirrors",
			Set{Objects: []Object{itms("a", "*.example.com", allow, "m.local")}, Registries: configv1.RegistrySources{InsecureRegistries: []string{"a.example.com"}}},
			[]string{`registries.conf cannot express that a.example.com in the registry lists of Image cluster inherits the mirrors of wildcard source "*.example.com" in ImageTagMirrorSet a`},
		},
		{
			"blocked wildcard with a path",
			Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"*.example.com/x"}}},
			[]string{`invalid entry "*.example.com/x" in blockedRegistries of Image cluster`},
		},
		{
			"blocked with a scheme",
			Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"https://quay.io"}}},
			[]string{`nodes could not read the generated file: location "https://quay.io" has a URI scheme`},
		},
		{
			"one registry twice, with and without a slash",
			Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"quay.io/"}, InsecureRegistries: []string{"quay.io"}}},
			[]string{`nodes could not read the generated file: registry "quay.io" is defined twice with conflicting settings`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Resolve(tt.set)
			var rejected *Rejection
			if errors.As(err, &rejected) != (tt.want != nil) {
				t.Fatalf("error %v, want reasons %q", err, tt.want)
			}
			if rejected != nil {
				if diff := cmp.Diff(tt.want, convert.Each(rejected.Reasons, Reason.String)); diff != "" {
					t.Errorf("reasons (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestTooMuch: what would take minutes to judge is refused, in few words.
func TestTooMuch(t *testing.T) {
	long := "m.local/" + strings.Repeat("x", 1<<20)
	many := make([]configv1.ImageMirror, MaxMirrors)
	for i := range many {
		many[i] = configv1.ImageMirror(fmt.Sprintf("m%d.local", i))
	}
	for _, tt := range []struct {
		reason  string
		entries []configv1.ImageTagMirrors
		want    string
	}{
		{"many entries", make([]configv1.ImageTagMirrors, MaxEntries+1), "10001 entries in all mirror objects together are more than can be judged (10000)"},
		{"as many as may be", []configv1.ImageTagMirrors{{Source: "quay.io", Mirrors: many}}, ""},
		{
			"one more, in another entry",
			[]configv1.ImageTagMirrors{{Source: "quay.io", Mirrors: many}, {Source: "quay.io", Mirrors: many[:1]}},
			`source "quay.io" has 257 mirrors, more than can be judged (256)`,
		},
		{
			"a long mirror",
			[]configv1.ImageTagMirrors{{Source: "quay.io", Mirrors: []configv1.ImageMirror{configv1.ImageMirror(long)}}},
			`a source or mirror of ImageTagMirrorSet apps is longer than any name of a repository: "` + long[:64] + `"... has 1048584 bytes`,
		},
		{
			"a long source",
			[]configv1.ImageTagMirrors{{Source: long, Mirrors: many[:1]}},
			`a source or mirror of ImageTagMirrorSet apps is longer than any name of a repository: "` + long[:64] + `"... has 1048584 bytes`,
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			o := &configv1.ImageTagMirrorSet{}
			o.Name, o.Spec.ImageTagMirrors = "apps", tt.entries
			for _, resolve := range []func(Set) (*Table, error){Resolve, ResolveUnchecked} {
				got := ""
				if _, err := resolve(Set{Objects: []Object{o}}); err != nil {
					got = err.Error()
				}
				if got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestUnparsable(t *testing.T) {
	table, err := Resolve(Set{})
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"", "Quay.io/Team/App", "quay.io/x:", "quay.io/x@sha256:short", "a b", "://", strings.Repeat("a", 300) + "/x"} {
		if route, err := table.Route(image, ""); err == nil {
			t.Errorf("Route(%q) = %v, want an error", image, route)
		}
	}
}

// TestEditsLeaveTheirArgument: two reviews may share one Set.
func TestEditsLeaveTheirArgument(t *testing.T) {
	a, b := itms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")
	set := Set{Objects: []Object{a, b}}
	edit := Join(Delete(a), Put(itms("b", "quay.io/y", allow, "m.local/y")), Put(idms("a", "quay.io", allow, "m.local")))
	names := func(s Set) (out []string) {
		for _, o := range s.Objects {
			out = append(out, NameOf(o)+" "+entriesOf(o)[0].Source)
		}
		return out
	}
	after := names(edit.Apply(set))
	if want := []string{"ImageTagMirrorSet b quay.io/y", "ImageDigestMirrorSet a quay.io"}; !slices.Equal(after, want) {
		t.Errorf("after: %q, want %q", after, want)
	}
	if want := []string{"ImageTagMirrorSet a quay.io", "ImageTagMirrorSet b quay.io/x"}; !slices.Equal(names(set), want) {
		t.Errorf("the argument has changed: %q", names(set))
	}
}

func TestParse(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"yaml", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: x}", "ImageTagMirrorSet x"},
		{"json", `{"apiVersion":"operator.openshift.io/v1alpha1","kind":"ImageContentSourcePolicy","metadata":{"name":"x"}}`, "ImageContentSourcePolicy x"},
		{"other kind", "apiVersion: v1\nkind: Pod", "error: v1 Pod: not a mirror object"},
		{"no kind", "{}", "error: (no kind): not a mirror object"},
		{"wrong type", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nspec: {imageTagMirrors: quay.io}", "error: reading ImageTagMirrorSet: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field ImageTagMirrorSetSpec.spec.imageTagMirrors of type []v1.ImageTagMirrors"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Parse([]byte(tt.in))
			got := ""
			if err != nil {
				got = "error: " + err.Error()
			} else {
				got = NameOf(o)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nspec: {imageTagMirrors: [{source: quay.io, mirrors: [m.local]}]}"), "quay.io/x:1")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		o, err := Parse(data)
		if err != nil {
			return
		}
		if table, err := Resolve(Put(o).Apply(Set{})); err == nil {
			_, _ = table.Route(image, "") // must not panic
		}
	})
}
