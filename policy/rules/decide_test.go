package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
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

func newPlan(c policy.Change, known plan.Cluster, s settings.Settings) plan.ChangePlan {
	return plan.NewOutline(c, known, s).Plan()
}

func set(objects ...mirrors.Object) mirrors.Set { return mirrors.Set{Objects: objects} }

// searched has mirrors for the registries that nodes search by default.
func searched(first configv1.ImageMirror) mirrors.Set {
	return set(itms("a", "registry.access.redhat.com", allow, first), itms("b", "docker.io", allow, "b.local"))
}

// facts reads "REF presence" lines.
func facts(lines ...string) policy.Facts {
	f := policy.Facts{}
	for _, line := range lines {
		ref, word, _ := strings.Cut(line, " ")
		for p := policy.Unknown; p <= policy.Inconclusive; p++ {
			if p.String() == word {
				f[mirrors.Location{Ref: ref}] = &policy.Fact{Presence: p, AsNodes: true}
			}
		}
	}
	return f
}

// summary lists the findings of a verdict of any kind as "severity Rule".
func summary(v any) string {
	var j policy.Judgement
	switch v := v.(type) {
	case policy.Verdict:
		j = v.Judgement
	case policy.StandingVerdict:
		j = v.Judgement
	default:
		j = v.(policy.Judgement)
	}
	return strings.Join(convert.Each(j.Findings, func(f policy.Finding) string { return f.Severity.String() + " " + f.Rule }), ", ")
}

func refsOf(locs []mirrors.Location) []string {
	return convert.Each(locs, func(l mirrors.Location) string { return l.Ref })
}

var running = []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app", Use: policy.Running, Digest: "sha256:old"}}

// TestAdmitted has the changes about which no rule has anything to say.
func TestAdmitted(t *testing.T) {
	testDecisions(t, []decision{
		{"mirror holds it", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 present"), settings.Settings{}, ""},
		{"one of two mirrors holds it", set(), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 absent", "n.local/x:1 present"), settings.Settings{}, ""},
		{"wrong content after the image was found", set(), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 present", "n.local/x:1 mismatch"), settings.Settings{}, ""},
		{"never, held", set(), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 present"), settings.Settings{}, ""},
		{"delete, source serves", set(itms("a", "quay.io", allow, "m.local")), set(), tag, facts("m.local/x:1 present", "quay.io/x:1 present"), settings.Settings{}, ""},
		{"delete what never worked: the way back stays open", set(itms("a", "quay.io", never, "m.local")), set(), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{}, ""},
		{"no effect on any route", set(), set(itms("a", "other.io", never, "m.local")), tag, nil, settings.Settings{}, ""},
		{"the same tag", set(), set(itms("a", "quay.io", allow, "m.local")), tag, policy.Facts{{Ref: "m.local/x:1"}: {Presence: policy.Present, Digest: "sha256:old"}}, settings.Settings{}, ""},
		{"what runs is a part of the index", set(), set(itms("a", "quay.io", allow, "m.local")), tag, policy.Facts{{Ref: "m.local/x:1"}: {Presence: policy.Present, Digest: "sha256:index", MediaType: policy.IndexTypes[0], Children: []string{"sha256:old"}}}, settings.Settings{}, ""},
		{"an index nobody has read proves nothing", set(), set(itms("a", "quay.io", allow, "m.local")), tag, policy.Facts{{Ref: "m.local/x:1"}: {Presence: policy.Present, Digest: "sha256:index", MediaType: policy.IndexTypes[0]}}, settings.Settings{}, ""},
		{"an idle entry that was there before is old news", set(itms("a", "nginx", allow, "m.local")), set(itms("a", "nginx", allow, "m.local"), itms("b", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 present"), settings.Settings{}, ""},
	})
}

// TestNarrow: the fewest scopes that cover what the mirror holds.
func TestNarrow(t *testing.T) {
	var images []policy.Image
	f := policy.Facts{}
	for _, line := range []string{
		"shop/cart:v1 +", "shop/cart:v2 +", "shop/web:v1 +", "team/a:v1 +", "team/b:v1 -", "team/b:v2 +", "other/deep/x:v1 +", "other/deep/y:v1 +", "other/z:v1 -",
	} {
		ref, mark, _ := strings.Cut(line, " ")
		images = append(images, policy.Image{Ref: "quay.io/" + ref})
		f[mirrors.Location{Ref: "m.local/q/" + ref}] = &policy.Fact{Presence: map[string]policy.Presence{"+": policy.Present, "-": policy.Absent}[mark]}
	}
	images = append(images, policy.Image{Ref: "quay.io/shop/cart" + digestA}) // not for a tag mirror
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local/q"))}, images, settings.Settings{})
	got := convert.Each(Narrow(plan.Plan, f, plan.Added[0]), func(e mirrors.Entry) string {
		return e.Source + " -> " + strings.Join(e.Mirrors, ",") + " " + string(e.Policy)
	})
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
	router := []policy.Consumer{{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router-default", Container: "router", Use: policy.Running}}
	past := []policy.Consumer{{Kind: "ClusterVersion", Name: "version", Container: "history", Use: policy.History}}
	tests := []struct {
		name      string
		consumers []policy.Consumer
		set       map[string]policy.Severity
		want      policy.Severity
	}{
		{"weakened", running, map[string]policy.Severity{"ImageMissing": policy.Warn}, policy.Warn},
		{"protected: not weakened by mistake", router, map[string]policy.Severity{"ImageMissing": policy.Warn}, policy.Deny},
		{"protected: weakened on purpose", router, map[string]policy.Severity{"ImageMissing@protected": policy.Warn}, policy.Warn},
		{"history only is reported", past, nil, policy.Warn},
		{"no users at all is no excuse", nil, nil, policy.Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, []policy.Image{{Ref: "quay.io/x:1", Consumers: tt.consumers}}, settings.Settings{Severities: tt.set})
			v := Decide(plan, facts("m.local/x:1 absent", "quay.io/x:1 present"))
			if len(v.Findings) != 1 || v.Findings[0].Severity != tt.want {
				t.Errorf("findings %s, want one that says %s", summary(v), tt.want)
			}
		})
	}
}

// TestLookups: protected images first, mirrors before the rest, and the rest
// only where no mirror holds the image.
func TestLookups(t *testing.T) {
	images := []policy.Image{
		{Ref: "quay.io/a:1", Consumers: running},
		{Ref: "quay.io/b:1", Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router"}}},
		{Ref: "quay.io/c:1", Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "openshift-dns", Name: "dns", Use: policy.Running}}},
	}
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, images, settings.Settings{})
	f := policy.Facts{}
	refs := func() []string { return refsOf(plan.Lookups(f)) }
	if diff := cmp.Diff([]string{"m.local/b:1", "m.local/c:1", "m.local/a:1"}, refs()); diff != "" {
		t.Errorf("first round (-want +got):\n%s", diff)
	}
	f[mirrors.Location{Ref: "m.local/a:1"}] = &policy.Fact{Presence: policy.Present}
	f[mirrors.Location{Ref: "m.local/b:1"}] = &policy.Fact{} // asked, no answer
	f[mirrors.Location{Ref: "m.local/c:1"}] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
	if diff := cmp.Diff([]string{"quay.io/b:1", "quay.io/c:1"}, refs()); diff != "" {
		t.Errorf("second round (-want +got):\n%s", diff)
	}
	f[mirrors.Location{Ref: "quay.io/b:1"}], f[mirrors.Location{Ref: "quay.io/c:1"}] = &policy.Fact{}, &policy.Fact{}
	if rest := refs(); len(rest) > 0 {
		t.Errorf("third round: %q", rest)
	}
	plan = shallow(policy.Change{Before: searched("n.local"), After: searched("m.local")}, []policy.Image{{Ref: "x/y:1"}}, settings.Settings{})
	f = facts("m.local/x/y:1 absent", "registry.access.redhat.com/x/y:1 absent", "b.local/x/y:1 present")
	if today := refs(); len(today) == 0 || today[0] != "n.local/x/y:1" {
		t.Errorf("of a short name that may move to another registry: %q", today)
	}
}
