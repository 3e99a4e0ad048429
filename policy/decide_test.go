package policy

import (
	"fmt"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	never   = configv1.NeverContactSource
	allow   = configv1.AllowContactingSource
	digestA = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func mirrorOf(s string) configv1.ImageMirror { return configv1.ImageMirror(s) }

func itms(name, source string, policy configv1.MirrorSourcePolicy, locations ...configv1.ImageMirror) mirrors.Object {
	o := &configv1.ImageTagMirrorSet{}
	o.Name = name
	o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: source, Mirrors: locations, MirrorSourcePolicy: policy}}
	return o
}

func idms(name, source string, policy configv1.MirrorSourcePolicy, locations ...configv1.ImageMirror) mirrors.Object {
	o := &configv1.ImageDigestMirrorSet{}
	o.Name = name
	o.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: source, Mirrors: locations, MirrorSourcePolicy: policy}}
	return o
}

func set(objects ...mirrors.Object) mirrors.Set { return mirrors.Set{Objects: objects} }

// facts reads "REF presence" lines.
func facts(lines ...string) Facts {
	f := Facts{}
	for _, line := range lines {
		ref, word, _ := strings.Cut(line, " ")
		for p := Unknown; p <= Inconclusive; p++ {
			if p.String() == word {
				f[mirrors.Location{Ref: ref}] = &Fact{Presence: p, AsNodes: true}
			}
		}
	}
	return f
}

// summary lists findings as "severity Rule".
func summary(v Verdict) string {
	var parts []string
	for _, f := range v.Findings {
		parts = append(parts, f.Severity.String()+" "+f.Rule)
	}
	return strings.Join(parts, ", ")
}

var running = []Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app", Use: Running, Digest: "sha256:old"}}

// A decision is what becomes of one image, with the reason for it in its name.
type decision struct {
	name          string
	before, after mirrors.Set
	image         string
	facts         Facts
	settings      Settings
	want          string // findings as "severity Rule"
}

const tag, dig = "quay.io/x:1", "quay.io/x" + digestA

func testDecisions(t *testing.T, decisions []decision) {
	t.Helper()
	for _, tt := range decisions {
		t.Run(tt.name, func(t *testing.T) {
			plan := shallow(Change{tt.before, tt.after}, []Image{{tt.image, running}}, tt.settings)
			verdict := plan.Decide(tt.facts)
			if got := summary(verdict); got != tt.want {
				t.Errorf("findings: %s\nwant:     %s\n%s", got, tt.want, verdict.Report("it"))
			}
			if verdict.Allowed == strings.Contains(tt.want, "deny") {
				t.Errorf("allowed = %v with %s", verdict.Allowed, tt.want)
			}
		})
	}
}

// testText holds the findings of a decision to their exact text.
func testText(t *testing.T, tt decision, want string) {
	t.Helper()
	plan := shallow(Change{tt.before, tt.after}, []Image{{tt.image, running}}, tt.settings)
	got := plan.Decide(tt.facts).Report("ImageTagMirrorSet a")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestAdmitted has the changes about which no rule has anything to say.
func TestAdmitted(t *testing.T) {
	testDecisions(t, []decision{
		{"mirror holds it", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 present"), Settings{}, ""},
		{"one of two mirrors holds it", set(), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 absent", "n.local/x:1 present"), Settings{}, ""},
		{"wrong content after the image was found", set(), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 present", "n.local/x:1 mismatch"), Settings{}, ""},
		{"never, held", set(), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 present"), Settings{}, ""},
		{"delete, source serves", set(itms("a", "quay.io", allow, "m.local")), set(), tag, facts("m.local/x:1 present", "quay.io/x:1 present"), Settings{}, ""},
		{"delete what never worked: the way back stays open", set(itms("a", "quay.io", never, "m.local")), set(), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, ""},
		{"no effect on any route", set(), set(itms("a", "other.io", never, "m.local")), tag, nil, Settings{}, ""},
		{"the same tag", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Digest: "sha256:old"}}, Settings{}, ""},
		{"what runs is a part of the index", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Digest: "sha256:index", MediaType: indexTypes[0], Children: []string{"sha256:old"}}}, Settings{}, ""},
		{"an index nobody has read proves nothing", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Digest: "sha256:index", MediaType: indexTypes[0]}}, Settings{}, ""},
		{"an idle entry that was there before is old news", set(itms("a", "nginx", allow, "m.local")), set(itms("a", "nginx", allow, "m.local"), itms("b", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 present"), Settings{}, ""},
	})
}

// TestNarrow: the fewest scopes that cover what the mirror holds.
func TestNarrow(t *testing.T) {
	var images []Image
	f := Facts{}
	for _, line := range []string{
		"shop/cart:v1 +", "shop/cart:v2 +", "shop/web:v1 +", "team/a:v1 +", "team/b:v1 -", "team/b:v2 +", "other/deep/x:v1 +", "other/deep/y:v1 +", "other/z:v1 -",
	} {
		ref, mark, _ := strings.Cut(line, " ")
		images = append(images, Image{Ref: "quay.io/" + ref})
		f[mirrors.Location{Ref: "m.local/q/" + ref}] = &Fact{Presence: map[string]Presence{"+": Present, "-": Absent}[mark]}
	}
	images = append(images, Image{Ref: "quay.io/shop/cart" + digestA}) // not for a tag mirror
	plan := shallow(Change{set(), set(itms("a", "quay.io", never, "m.local/q"))}, images, Settings{})
	var got []string
	for _, e := range Narrow(plan, f, plan.Added[0]) {
		got = append(got, e.Source+" -> "+strings.Join(e.Mirrors, ",")+" "+string(e.Policy))
	}
	want := []string{
		"quay.io/other/deep -> m.local/q/other/deep NeverContactSource",
		"quay.io/shop -> m.local/q/shop NeverContactSource",
		"quay.io/team/a -> m.local/q/team/a NeverContactSource",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("narrowed (-want +got):\n%s", diff)
	}
}

func TestSeverities(t *testing.T) {
	router := []Consumer{{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router-default", Container: "router", Use: Running}}
	past := []Consumer{{Kind: "ClusterVersion", Name: "version", Container: "history", Use: History}}
	tests := []struct {
		name      string
		consumers []Consumer
		set       map[string]Severity
		want      Severity
	}{
		{"weakened", running, map[string]Severity{"ImageMissing": Warn}, Warn},
		{"protected: not weakened by mistake", router, map[string]Severity{"ImageMissing": Warn}, Deny},
		{"protected: weakened on purpose", router, map[string]Severity{"ImageMissing@protected": Warn}, Warn},
		{"history only is reported", past, nil, Warn},
		{"no users at all is no excuse", nil, nil, Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := shallow(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, []Image{{"quay.io/x:1", tt.consumers}}, Settings{Severities: tt.set})
			v := plan.Decide(facts("m.local/x:1 absent", "quay.io/x:1 present"))
			if len(v.Findings) != 1 || v.Findings[0].Severity != tt.want {
				t.Errorf("findings %s, want one that says %s", summary(v), tt.want)
			}
		})
	}
}

// TestLookups: protected images first, mirrors before the rest, and the rest
// only where no mirror holds the image.
func TestLookups(t *testing.T) {
	images := []Image{
		{"quay.io/a:1", running},
		{"quay.io/b:1", []Consumer{{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router"}}},
		{"quay.io/c:1", []Consumer{{Kind: "Pod", Namespace: "openshift-dns", Name: "dns", Use: Running}}},
	}
	plan := shallow(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, images, Settings{})
	f := Facts{}
	refs := func() (out []string) {
		for _, l := range plan.Lookups(f) {
			out = append(out, l.Ref)
		}
		return out
	}
	if diff := cmp.Diff([]string{"m.local/b:1", "m.local/c:1", "m.local/a:1"}, refs()); diff != "" {
		t.Errorf("first round (-want +got):\n%s", diff)
	}
	f[mirrors.Location{Ref: "m.local/a:1"}] = &Fact{Presence: Present}
	f[mirrors.Location{Ref: "m.local/b:1"}] = &Fact{} // asked, no answer
	f[mirrors.Location{Ref: "m.local/c:1"}] = &Fact{Presence: Absent, AsNodes: true}
	if diff := cmp.Diff([]string{"quay.io/b:1", "quay.io/c:1"}, refs()); diff != "" {
		t.Errorf("second round (-want +got):\n%s", diff)
	}
	f[mirrors.Location{Ref: "quay.io/b:1"}], f[mirrors.Location{Ref: "quay.io/c:1"}] = &Fact{}, &Fact{}
	if rest := refs(); len(rest) > 0 {
		t.Errorf("third round: %q", rest)
	}
}

// TestUnknownNeverAdmits: whatever the change, a route that moved to places
// nobody has looked at is not admitted.
func TestUnknownNeverAdmits(t *testing.T) {
	f := func(neverContact, byDigest bool) bool {
		policy, image := allow, "quay.io/x:1"
		if neverContact {
			policy = never
		}
		object := itms("a", "quay.io", policy, "m.local")
		if byDigest {
			image, object = "quay.io/x"+digestA, idms("a", "quay.io", policy, "m.local")
		}
		return !shallow(Change{set(), set(object)}, []Image{{Ref: image}}, Settings{}).Decide(nil).Allowed
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

func TestMessage(t *testing.T) {
	images := []Image{
		{"quay.io/ingress/router" + digestA, []Consumer{
			{Kind: "Pod", Namespace: "openshift-ingress", Name: "router-default-5d8f-abc", Container: "router", Use: Running},
			{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router-default", Container: "router"},
			{Kind: "ReplicaSet", Namespace: "openshift-ingress", Name: "router-default-5d8f", Container: "router"},
			{Kind: "Pod", Namespace: "openshift-ingress", Name: "router-default-5d8f-xyz", Container: "router", Use: Running},
		}},
		{"quay.io/shop/cart:1", running},
	}
	plan := shallow(Change{set(), set(itms("everything", "quay.io", never, "m.local"))}, images, Settings{})
	v := plan.Decide(facts("m.local/shop/cart:1 absent", "quay.io/shop/cart:1 present", "quay.io/ingress/router"+digestA+" present"))
	want := `ImageTagMirrorSet everything is refused: both images it reroutes could not be pulled safely afterwards.

1. quay.io/ingress/router@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
   used by Deployment openshift-ingress/router-default (router), ReplicaSet openshift-ingress/router-default-5d8f (router), Pod openshift-ingress/router-default-5d8f-abc (router) and 1 more
   NoRoute: NeverContactSource blocks pulls by digest too, and they have no mirror there
   - quay.io/ingress/router@sha256:aaaaaaaaaaaa: blocked by the entry quay.io
   To do: use AllowContactingSource in ImageTagMirrorSet everything, or give quay.io mirrors in an ImageDigestMirrorSet first

2. quay.io/shop/cart:1
   used by Deployment shop/cart (app)
   NotFullySynced: the source may not be contacted, and no mirror has the image
   - m.local/shop/cart:1: not found
   - quay.io/shop/cart:1: blocked by the entry quay.io
   To do: skopeo copy --all --preserve-digests docker://quay.io/shop/cart:1 docker://m.local/shop/cart:1

Nothing was changed. For the full list: mirrorset-guard check -f FILE`
	if diff := cmp.Diff(want, v.Message("ImageTagMirrorSet everything")); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// TestManyFindings: a denial of 3,000 findings is short, and still says all.
func TestManyFindings(t *testing.T) {
	var images []Image
	for i := range 3000 {
		images = append(images, Image{fmt.Sprintf("quay.io/app%04d:1", i), []Consumer{{Kind: "Deployment", Namespace: fmt.Sprintf("team-%d", i%7), Name: "app", Container: "app"}}})
	}
	plan := shallow(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, images, Settings{})
	f := Facts{}
	for i, img := range images {
		suffix := strings.TrimPrefix(img.Ref, "quay.io")
		f[mirrors.Location{Ref: "quay.io" + suffix}] = &Fact{Presence: Present}
		if i%3 > 0 {
			f[mirrors.Location{Ref: "m.local" + suffix}] = &Fact{Presence: Absent, AsNodes: true}
		}
	}
	v := plan.Decide(f)
	got := v.Message("ImageTagMirrorSet a")
	if len(got) > 4096 {
		t.Errorf("message has %d bytes", len(got))
	}
	want := `
And 2,997 more:
- ImageMissing: 1,997 images (team-5 285, team-0 286, team-1 285, 4 more namespaces)
- Unverified: 1,000 images (team-0 143, team-3 143, team-6 143, 4 more namespaces)

To copy to the mirrors what they lack: mirrorset-guard sync -f FILE

2,000 of 3,000 looked up when time was up; the others follow. Apply again in 10 s.

Only images in namespaces team-0, team-1, team-2 and 4 more block this; if one of them should not, set namespaceSeverities in the guard's configuration: {namespace: NAMESPACE, severity: warn}.

Nothing was changed. For the full list: mirrorset-guard check -f FILE`
	if !strings.HasSuffix(got, want) {
		t.Errorf("message ends with:\n%s\nwant:\n%s", got[max(0, len(got)-len(want)-100):], want)
	}
}

func TestWarnings(t *testing.T) {
	long := "quay.io/" + strings.Repeat("very-long-name/", 10) + "app:1"
	images := []Image{{"quay.io/a:1", running}, {"quay.io/b:1", running}, {long, running}, {"Bad:Ref:x", running}, {"other.io/c:1", running}}
	plan := shallow(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, images, Settings{})
	f := facts("m.local/a:1 present", "m.local/b:1 absent", "quay.io/b:1 absent", "m.local"+strings.TrimPrefix(long, "quay.io")+" absent", long+" absent")
	want := []string{
		"ImageTagMirrorSet a reroutes 3 of 5 images: 1 verified",
		"ImageMissing: 2 images: no place on its new route has the image; first quay.io/b:1",
		"MalformedReference: 1 image: no node can parse the reference; first Bad:Ref:x",
		"BroadSource: quay.io covers 3 images of 3 repositories in 1 namespace",
	}
	got := plan.Decide(f).Warnings("ImageTagMirrorSet a")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestWarningsAreCut(t *testing.T) {
	f := func(s string) bool { return utf8.RuneCountInString(cut(s)) <= maxWarning }
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
	if got := cut(strings.Repeat("é", 200)); utf8.RuneCountInString(got) != maxWarning || !utf8.ValidString(got) {
		t.Errorf("cut to %d runes", utf8.RuneCountInString(got))
	}
}
