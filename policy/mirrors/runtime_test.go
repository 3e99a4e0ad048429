package mirrors

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// The tests in this file hold Route to the code that CRI-O runs, reading the
// file that MCO would have written.

// vocabulary makes names that nest, collide and differ by a port or a wildcard.
var (
	hosts  = []string{"quay.io", "quay.io:443", "reg.local", "reg.local:5000", "a.b.example.com", "b.example.com", "example.com", "example.com:5000", "x.b.example.com.b.example.com", "localhost", "localhost:5000", "registry", "docker.io", "index.docker.io", "Quay.io", "[::1]:5000", "image-registry.openshift-image-registry.svc:5000"}
	paths  = []string{"", "/team", "/team/app", "/team/app/deep", "/te", "/openshift-release-dev", "/openshift-release-dev/ocp-v4.0-art-dev", "/library", "/library/nginx"}
	wilds  = []string{"*.example.com", "*.b.example.com", "*.io", "*.svc", "*.com"}
	images = []string{"nginx", "nginx:1.27", "library/nginx", "team/app:v1"}
	tails  = []string{"", ":v1", ":v1.2.3-rc.1", "@" + digestA, ":v1@" + digestA}
)

const digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

type gen struct{ *rand.Rand }

func pick[T any](g gen, from []T) T { return from[g.IntN(len(from))] }

func (g gen) chance(percent int) bool { return g.IntN(100) < percent }

func (g gen) scope() string {
	if g.chance(12) {
		return pick(g, wilds)
	}
	return pick(g, hosts) + pick(g, paths)
}

func (g gen) policy() configv1.MirrorSourcePolicy {
	switch {
	case g.chance(20):
		return configv1.NeverContactSource
	case g.chance(50):
		return configv1.AllowContactingSource
	default:
		return ""
	}
}

func (g gen) mirrors() []configv1.ImageMirror {
	var out []configv1.ImageMirror
	for range g.IntN(4) {
		out = append(out, configv1.ImageMirror(pick(g, []string{"m.local", "m.local:8443", "mirror", "other.local"})+pick(g, []string{"", "/x", "/team", "/team/app"})))
	}
	if g.chance(5) {
		out = append(out, configv1.ImageMirror(g.scope()))
	}
	return out
}

func (g gen) set() Set {
	var s Set
	for i := range g.IntN(4) {
		o := &configv1.ImageTagMirrorSet{}
		o.Name = fmt.Sprint("itms", i)
		for range 1 + g.IntN(3) {
			o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: g.scope(), Mirrors: g.mirrors(), MirrorSourcePolicy: g.policy()})
		}
		s.Objects = append(s.Objects, o)
	}
	for i := range g.IntN(4) {
		o := &configv1.ImageDigestMirrorSet{}
		o.Name = fmt.Sprint("idms", i)
		for range 1 + g.IntN(3) {
			o.Spec.ImageDigestMirrors = append(o.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: g.scope(), Mirrors: g.mirrors(), MirrorSourcePolicy: g.policy()})
		}
		s.Objects = append(s.Objects, o)
	}
	if g.chance(30) {
		o := &operatorv1alpha1.ImageContentSourcePolicy{}
		o.Name = "icsp"
		for range 1 + g.IntN(2) {
			o.Spec.RepositoryDigestMirrors = append(o.Spec.RepositoryDigestMirrors, operatorv1alpha1.RepositoryDigestMirrors{Source: g.scope(), Mirrors: texts(g.mirrors())})
		}
		s.Objects = append(s.Objects, o)
	}
	for _, list := range []*[]string{&s.Registries.BlockedRegistries, &s.Registries.InsecureRegistries} {
		for range g.IntN(3) {
			if g.chance(50) {
				*list = append(*list, g.scope())
			} else {
				*list = append(*list, pick(g, []string{"m.local", "m.local:8443", "m.local/team", "other.local"}))
			}
		}
	}
	if g.chance(10) {
		s.Registries.ContainerRuntimeSearchRegistries = []string{"quay.io", "example.com:5000"}
	}
	return s
}

// image makes a reference, four times out of five one below a source of s.
func (g gen) image(s Set) string {
	scopes := slices.Concat(s.Registries.BlockedRegistries, s.Registries.InsecureRegistries)
	for _, e := range s.Entries() {
		scopes = append(scopes, e.Source)
	}
	if len(scopes) > 0 && g.chance(80) {
		scope := strings.Replace(pick(g, scopes), "*.", pick(g, []string{"x.", "x.y.", ""}), 1)
		if !strings.Contains(scope, "/") {
			scope += pick(g, []string{"", "", ":5000"}) + pick(g, paths[1:])
		}
		return scope + pick(g, []string{"", "/app", "/x/y"}) + pick(g, tails)
	}
	if g.chance(15) {
		return pick(g, images)
	}
	host := pick(g, hosts)
	if g.chance(10) {
		host = "deep.b.example.com"
	}
	return host + pick(g, paths[1:]) + pick(g, []string{"", "/app", "/x/y"}) + pick(g, tails)
}

// runtime is sysregistriesv2 with the file that MCO would have written.
type runtime struct {
	sys  *types.SystemContext
	conf sysregistriesv2.V2RegistriesConf // that MCO writes
}

// newRuntime returns an error where the generator or the reader gives one.
func newRuntime(t testing.TB, dir string, s Set) (runtime, error) {
	var (
		tags    []*configv1.ImageTagMirrorSet
		digests []*configv1.ImageDigestMirrorSet
		legacy  []*operatorv1alpha1.ImageContentSourcePolicy
	)
	for _, o := range s.Objects {
		switch o := o.(type) {
		case *configv1.ImageTagMirrorSet:
			tags = append(tags, o)
		case *configv1.ImageDigestMirrorSet:
			digests = append(digests, o)
		case *operatorv1alpha1.ImageContentSourcePolicy:
			legacy = append(legacy, o)
		}
	}
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: []string{"registry.access.redhat.com", "docker.io"}}
	if search := s.Registries.ContainerRuntimeSearchRegistries; len(search) > 0 {
		conf.UnqualifiedSearchRegistries = search
	}
	if err := registries.EditRegistriesConfig(&conf, s.Registries.InsecureRegistries, s.Registries.BlockedRegistries, legacy, digests, tags); err != nil {
		return runtime{}, err
	}
	var file bytes.Buffer
	if err := toml.NewEncoder(&file).Encode(conf); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "registries.conf")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	sys := &types.SystemContext{SystemRegistriesConfPath: path, SystemRegistriesConfDirPath: filepath.Join(dir, "none")}
	sysregistriesv2.InvalidateCache()
	_, err := sysregistriesv2.TryUpdatingCache(sys)
	return runtime{sys, conf}, err
}

// sources is what containers/image's docker transport does with a reference.
func (r runtime) sources(t testing.TB, ref reference.Named) ([]PullSource, error) {
	reg, err := sysregistriesv2.FindRegistry(r.sys, ref.Name())
	if err != nil {
		t.Fatal(err)
	}
	if reg == nil {
		return []PullSource{{Location: Location{Ref: ref.String()}}}, nil
	}
	pulls, err := reg.PullSourcesFromReference(ref)
	if err != nil {
		return nil, err
	}
	var sources []PullSource
	for i, p := range pulls {
		covering, err := sysregistriesv2.FindRegistry(r.sys, p.Reference.Name())
		if err != nil {
			t.Fatal(err)
		}
		s := PullSource{
			Location: Location{Ref: p.Reference.String(), Insecure: p.Endpoint.Insecure},
			Mirror:   i < len(pulls)-1 && p.Reference.Name() != ref.Name(), // a source among its own mirrors is none
		}
		if covering != nil && covering.Blocked {
			s.Blocked, s.BlockedBy = true, covering.Prefix
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// expected is the whole route: short names try each search registry in turn.
func (r runtime) expected(t testing.TB, image string) ([]PullSource, bool) {
	search, err := sysregistriesv2.UnqualifiedSearchRegistries(r.sys)
	if err != nil {
		t.Fatal(err)
	}
	candidates := []string{image}
	if first, _, found := strings.Cut(image, "/"); !found || !strings.ContainsAny(first, ".:") && first != "localhost" {
		candidates = nil
		for _, s := range search {
			candidates = append(candidates, s+"/"+image)
		}
	}
	var all []PullSource
	for n, c := range candidates {
		ref, err := reference.ParseDockerRef(c)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		sources, err := r.sources(t, ref)
		for i := range sources {
			sources[i].Candidate = n
		}
		if err == nil {
			all = append(all, sources...)
		}
	}
	return all, len(all) > 0
}

// compare resolves one random set and routes some images, and returns how many
// routes were compared and how many of them an entry covered.
func compare(t testing.TB, dir string, g gen) (compared, covered int) {
	set := g.set()
	table, ourErr := ResolveUnchecked(set)
	rt, theirErr := newRuntime(t, dir, set)
	if (ourErr == nil) != (theirErr == nil) {
		t.Fatalf("set %s\nour error: %v\ntheir error: %v", dump(set), ourErr, theirErr)
	}
	if ourErr != nil {
		return 0, 0
	}
	none, err := Resolve(Set{})
	if err != nil {
		t.Fatal(err)
	}
	compareRendered(t, Resolution{set, table}, none, rt.conf)
	for range 8 {
		image := g.image(set)
		got, err := table.Route(image, "")
		compareTables(t, none, table, image)
		if err != nil {
			continue // upper case in the path and the like; TestRoute has those
		}
		compared++
		if got.Entry != "" {
			covered++
		}
		want, ok := rt.expected(t, image)
		if !ok {
			if got.Err == nil {
				t.Errorf("%s: route %v, but the runtime cannot rewrite\n%s", image, got.Sources, dump(set))
			}
			continue
		}
		if got.Err != nil {
			t.Errorf("%s: %v, but the runtime can rewrite\n%s", image, got.Err, dump(set))
		}
		if diff := cmp.Diff(want, got.Sources, cmpopts.IgnoreFields(PullSource{}, "Refused")); diff != "" {
			t.Errorf("%s: route differs from the runtime's (-want +got):\n%s%s", image, diff, dump(set))
		}
	}
	return compared, covered
}

// compareRendered holds the file that is shown, which leaves the table as it is, to the one that MCO writes, whose order means nothing, and
// Differences to whether there are any.
func compareRendered(t testing.TB, r Resolution, none *Table, theirs sysregistriesv2.V2RegistriesConf) {
	t.Helper()
	before := encoded(t, r.Config())
	text, err := r.RegistriesConf()
	if err != nil || !bytes.Equal(encoded(t, r.Config()), before) {
		t.Fatal(err, string(before))
	}
	if _, after, found := strings.Cut(text, SearchDropInPath+".\n"); found {
		text = after
	}
	// Wildcards have a prefix, all others a location.
	slices.SortFunc(theirs.Registries, func(a, b sysregistriesv2.Registry) int {
		return strings.Compare(a.Prefix+a.Location, b.Prefix+b.Location)
	})
	if want := string(encoded(t, theirs)); text != want {
		t.Errorf("rendered is\n%s\nand MCO writes\n%s", text, want)
	}
	if d := Differences(r.Config(), theirs); len(d) > 0 {
		t.Errorf("there are no differences but %v:\n%s", d, text)
	}
	if plain := string(encoded(t, none.Config())); (len(Differences(none.Config(), r.Config())) > 0) != (plain != text) {
		t.Errorf("what differs from no objects is not said:\n%s", text)
	}
}

func dump(s Set) string {
	var b strings.Builder
	for _, e := range s.Entries() {
		fmt.Fprintf(&b, "  %s: %s -> %v %s\n", NameOf(e.Object), e.Source, e.Mirrors, e.Policy)
	}
	fmt.Fprintf(&b, "  blocked %v insecure %v search %v\n", s.Registries.BlockedRegistries, s.Registries.InsecureRegistries, s.Registries.ContainerRuntimeSearchRegistries)
	return b.String()
}

func TestRouteIsTheRuntimes(t *testing.T) {
	sets, compared, covered := campaign.Times(200, 1000), 0, 0
	dir := t.TempDir()
	for seed := range uint64(sets) {
		c, v := compare(t, dir, gen{rand.New(rand.NewPCG(seed, 1))})
		compared, covered = compared+c, covered+v
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d sets, %d routes compared, %d %% of them covered by an entry", sets, compared, 100*covered/max(compared, 1))
	if covered*2 < compared || compared < sets*4 {
		t.Errorf("too few of the inputs were meaningful")
	}
}

func FuzzRouteIsTheRuntimes(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed, seed*7919)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, a, b uint64) { compare(t, dir, gen{rand.New(rand.NewPCG(a, b))}) })
}

// FuzzFind holds the index to sysregistriesv2.FindRegistry for arbitrary
// scopes, not only those of the vocabulary.
func FuzzFind(f *testing.F) {
	f.Add("quay.io", "quay.io/team", "*.io", "quay.io/team/app")
	f.Add("example.com", "*.example.com", "a.example.com", "a.example.com:5000/x")
	f.Add("*.b.com", "*.com", "x.b.com.b.com", "x.b.com.b.com/y")
	f.Add("[::1]:5000", "[::1]", "*.1", "[::1]:5000/x")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, a, b, c, name string) {
		ref, err := reference.ParseNamed(name)
		if err != nil || strings.ContainsAny(a+b+c, "\x00\n\"\\'") {
			return
		}
		set := Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{a, b}, InsecureRegistries: []string{c}}}
		if len(validate(set)) > 0 || !printable(a+b+c) {
			return
		}
		table, ourErr := Resolve(set)
		rt, theirErr := newRuntime(t, dir, set)
		if (ourErr == nil) != (theirErr == nil) {
			t.Fatalf("our error: %v, their error: %v", ourErr, theirErr)
		}
		if ourErr != nil {
			return
		}
		want, err := sysregistriesv2.FindRegistry(rt.sys, ref.Name())
		if err != nil {
			t.Fatal(err)
		}
		got := table.index.find(ref.Name())
		switch {
		case want == nil && got == nil:
		case want == nil || got == nil || want.Prefix != got.Prefix || want.Blocked != got.Blocked || want.Insecure != got.Insecure:
			t.Errorf("%s: found %+v, the runtime %+v", ref.Name(), got, want)
		}
	})
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// compareTables holds Compare to two calls of Route.
func compareTables(t testing.TB, from, to *Table, image string) {
	before, errBefore := from.Route(image, "")
	after, errAfter := to.Route(image, "")
	gotBefore, gotAfter, changed, err := Compare(from, to, image, "")
	if (err == nil) != (errAfter == nil) {
		t.Fatalf("%s: Compare says %v, Route %v", image, err, errAfter)
	}
	if err != nil || errBefore != nil {
		return
	}
	if changed == before.Equal(after) {
		t.Errorf("%s: changed = %v", image, changed)
	}
	if changed && (!gotBefore.Equal(before) || !gotAfter.Equal(after)) {
		t.Errorf("%s: Compare and Route differ", image)
	}
}
