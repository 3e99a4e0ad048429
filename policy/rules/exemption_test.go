package rules

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

func TestImagePattern(t *testing.T) {
	const d = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, tt := range []struct {
		pattern  settings.ImagePattern
		yes, not []string
	}{
		{"*", []string{"quay.io/a:1", "nginx", "Not/Parsable"}, nil},
		{"quay.io", []string{"quay.io/a", "quay.io/a/b:1", "quay.io:443/a", "quay.io/a" + d}, []string{"quay.io.evil.com/a", "xquay.io/a", "a"}},
		{"quay.io/team", []string{"quay.io/team/a:1", "quay.io/team:1", "quay.io/team" + d}, []string{"quay.io/team2/a", "quay.io/teams:1"}},
		{"quay.io/team/a:1", []string{"quay.io/team/a:1"}, []string{"quay.io/team/a:12", "quay.io/team/a", "quay.io/team/a:1" + d, "quay.io/team/a/b:1"}},
		{"quay.io/team/a:latest", []string{"quay.io/team/a", "quay.io/team/a:latest"}, []string{"quay.io/team/a:1"}},
		{settings.ImagePattern("quay.io/a" + d), []string{"quay.io/a" + d, "quay.io/a:1" + d}, []string{"quay.io/a", "quay.io/a:1"}},
		{"docker.io/library/nginx", []string{"docker.io/nginx:1", "index.docker.io/nginx", "docker.io/library/nginx" + d}, []string{"nginx", "docker.io/team/nginx"}},
		{"registry-1.docker.io/library", []string{"docker.io/nginx:1"}, []string{"docker.io/team/nginx:1"}},
		{"Quay.io:443/a", []string{"quay.io/a/b:1", "quay.io:443/a"}, []string{"quay.io/ab", "quay.io:8443/a"}},
		{"quay.io:443", []string{"quay.io/a"}, []string{"quay.io:8443/a"}},
		{"index.docker.io", []string{"docker.io/nginx:1"}, []string{"quay.io/nginx"}},
		{"docker.io/nginx:1", []string{"docker.io/library/nginx:1", "index.docker.io/nginx:1"}, []string{"docker.io/library/nginx:2"}},
		{"*.example.com", []string{"a.example.com/x", "a.b.example.com:5000/x:1"}, []string{"example.com/x", "aexample.com/x", "quay.io/a.example.com"}},
		{"example.com:5000/x", []string{"example.com:5000/x/y"}, []string{"example.com/x/y"}},
	} {
		if !tt.pattern.Valid() {
			t.Errorf("%q is not valid", tt.pattern)
		}
		for _, ref := range tt.yes {
			if !tt.pattern.Matches(ref) {
				t.Errorf("%q does not match %s", tt.pattern, ref)
			}
		}
		for _, ref := range tt.not {
			if tt.pattern.Matches(ref) {
				t.Errorf("%q matches %s", tt.pattern, ref)
			}
		}
	}
	for _, p := range []settings.ImagePattern{"", "nginx", "team/nginx", "quay.io/", "quay.io/a*", "quay.*", "*.", "*.x/y", "**", "quay.io/A", "quay.io/a:b:c", "quay.io/a@sha256:b", "https://quay.io/a", "quay.io a", "@x", "quay.io@x"} {
		if p.Valid() {
			t.Errorf("%q is valid", p)
		}
	}
}

// used returns consumers in namespaces.
func used(namespaces ...string) []policy.Consumer {
	return convert.Each(namespaces, func(ns string) policy.Consumer {
		return policy.Consumer{Kind: "Deployment", Namespace: ns, Name: "d", Use: policy.Running}
	})
}

// TestExemptions: an exemption makes a warning of a denial where it certainly holds, and
// nowhere else.
func TestExemptions(t *testing.T) {
	mirrored := func() mirrors.Object { return itms("a", "quay.io", allow, "m.local") }
	lost := facts("m.local/x:1 absent", "quay.io/x:1 present")
	blocked := set()
	blocked.Registries.BlockedRegistries = []string{"other.io"}
	for _, tt := range []struct {
		reason     string
		exemptions []settings.Exemption
		consumers  []policy.Consumer
		by         settings.Requester
		before     mirrors.Set
		after      []mirrors.Object
		want       string // the names of the exemptions, "" for a denial
	}{
		{"of everything", []settings.Exemption{{Name: "all"}}, used("shop"), settings.Requester{}, set(), nil, "all"},
		{"of another image", []settings.Exemption{{Name: "e", Images: []string{"quay.io/y"}}}, used("shop"), settings.Requester{}, set(), nil, ""},
		{"of this image and another", []settings.Exemption{{Name: "e", Images: []string{"quay.io/y", "quay.io/x"}}}, used("shop"), settings.Requester{}, set(), nil, "e"},
		{"the first one is named", []settings.Exemption{{Name: "no", Namespaces: []string{"x"}}, {Name: "one"}, {Name: "two"}}, used("shop"), settings.Requester{}, set(), nil, "one"},
		{"of a namespace", []settings.Exemption{{Name: "e", Namespaces: []string{"sh*"}}}, used("shop"), settings.Requester{}, set(), nil, "e"},
		{"of one namespace of two", []settings.Exemption{{Name: "e", Namespaces: []string{"shop"}}}, used("shop", "crm"), settings.Requester{}, set(), nil, ""},
		{"of both, by two", []settings.Exemption{{Name: "e", Namespaces: []string{"shop"}}, {Name: "f", Namespaces: []string{"crm"}}}, used("shop", "crm"), settings.Requester{}, set(), nil, "e f"},
		{"what would only warn needs none", []settings.Exemption{{Name: "e", Namespaces: []string{"shop"}}}, append(used("shop"), policy.Consumer{Namespace: "crm", Use: policy.History}), settings.Requester{}, set(), nil, "e"},
		{"image and namespace, of which one holds", []settings.Exemption{{Name: "e", Images: []string{"quay.io/x"}, Namespaces: []string{"crm"}}}, used("shop"), settings.Requester{}, set(), nil, ""},
		{"a protected namespace that is named, but not as one", []settings.Exemption{{Name: "e", Namespaces: []string{"openshift-ingress"}}}, used("openshift-ingress"), settings.Requester{}, set(), nil, ""},
		{"a protected one that is", []settings.Exemption{{Name: "e", Namespaces: []string{"openshift-*"}, Protected: true}}, used("openshift-ingress"), settings.Requester{}, set(), nil, "e"},
		{"a protected one beside another", []settings.Exemption{{Name: "e"}}, used("shop", "openshift-ingress"), settings.Requester{}, set(), nil, ""},
		{"the cluster itself", []settings.Exemption{{Name: "e"}}, used(""), settings.Requester{}, set(), nil, ""},
		{"no namespace matches it", []settings.Exemption{{Name: "e", Namespaces: []string{"*"}, Protected: true}}, used(""), settings.Requester{}, set(), nil, ""},
		{"the cluster itself, said so", []settings.Exemption{{Name: "e", Protected: true}}, used(""), settings.Requester{}, set(), nil, "e"},
		{"nobody is known to use it", []settings.Exemption{{Name: "e", Images: []string{"quay.io/x"}}}, nil, settings.Requester{}, set(), nil, ""},

		{"a mirror set by its name", []settings.Exemption{{Name: "e", MirrorSets: []string{"a*"}}}, used("shop"), settings.Requester{}, set(), nil, "e"},
		{"another mirror set", []settings.Exemption{{Name: "e", MirrorSets: []string{"b"}}}, used("shop"), settings.Requester{}, set(), nil, ""},
		{"two, of which one is exempt", []settings.Exemption{{Name: "e", MirrorSets: []string{"a"}}}, used("shop"), settings.Requester{}, set(), []mirrors.Object{mirrored(), itms("b", "other.io", allow, "m.local")}, ""},
		{"two, and both are", []settings.Exemption{{Name: "e", MirrorSets: []string{"a", "b"}}}, used("shop"), settings.Requester{}, set(), []mirrors.Object{mirrored(), itms("b", "other.io", allow, "m.local")}, "e"},
		{"one beside what stays", []settings.Exemption{{Name: "e", MirrorSets: []string{"a"}}}, used("shop"), settings.Requester{}, set(itms("b", "other.io", allow, "m.local")), []mirrors.Object{mirrored(), itms("b", "other.io", allow, "m.local")}, "e"},
		{"the CAs too", []settings.Exemption{{Name: "e", MirrorSets: []string{"a"}}}, used("shop"), settings.Requester{}, trusting(set(), "old"), nil, ""},
		{"the registry lists too", []settings.Exemption{{Name: "e", MirrorSets: []string{"a"}}}, used("shop"), settings.Requester{}, blocked, nil, ""},

		{"a user", []settings.Exemption{{Name: "e", Users: []string{"eve", "ann"}}}, used("shop"), settings.Requester{User: "ann"}, set(), nil, "e"},
		{"another user", []settings.Exemption{{Name: "e", Users: []string{"eve"}}}, used("shop"), settings.Requester{User: "ann"}, set(), nil, ""},
		{"nobody knows who", []settings.Exemption{{Name: "e", Users: []string{"*"}}}, used("shop"), settings.Requester{}, set(), nil, ""},
		{"a group", []settings.Exemption{{Name: "e", Users: []string{"eve"}, Groups: []string{"op*"}}}, used("shop"), settings.Requester{User: "ann", Groups: []string{"x", "ops"}}, set(), nil, "e"},
		{"a user for another image", []settings.Exemption{{Name: "e", Users: []string{"ann"}, Images: []string{"quay.io/y"}}}, used("shop"), settings.Requester{User: "ann"}, set(), nil, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			after := tt.after
			if after == nil {
				after = []mirrors.Object{mirrored()}
			}
			s := settings.Settings{Exemptions: tt.exemptions}.For(tt.by)
			v := Decide(shallow(policy.Change{Before: tt.before, After: set(after...)}, []policy.Image{{Ref: tag, Consumers: tt.consumers}}, s), lost)
			want := "warn NotFullySynced"
			if tt.want == "" {
				want = "deny NotFullySynced"
			}
			got := strings.Join(words.Exemptions(v), " ")
			if first, _, _ := strings.Cut(summary(v), ","); !strings.Contains(first, want[:4]) || got != tt.want {
				t.Errorf("%s by %q, want %s by %q", summary(v), got, want[:4], tt.want)
			}
		})
	}
}

// TestExemptionOfWhatIsGone: an exemption covers what the exempt object does, not what counts once it is
// gone.
func TestExemptionOfWhatIsGone(t *testing.T) {
	wide, own := itms("wide", "quay.io", never, "m.local"), itms("own", "quay.io/x", allow, "n.local/x")
	exempt := settings.Settings{Exemptions: []settings.Exemption{{Name: "e", MirrorSets: []string{"own"}, Protected: true}}}
	lost := facts("m.local/x:1 absent", "n.local/x:1 absent", "quay.io/x:1 present")
	for _, tc := range []struct {
		name   string
		change policy.Change
		want   string
	}{
		{"what it does", policy.Change{Before: set(), After: set(itms("own", "quay.io/x", never, "m.local/x"))}, "warn NotFullySynced"},
		{"its deletion has a wider one count", policy.Change{Before: set(wide, own), After: set(wide)}, "deny NotFullySynced"},
		{"its entry goes", policy.Change{Before: set(wide, own), After: set(wide, itms("own", "quay.io/y", allow, "n.local/y"))}, "deny NotFullySynced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := Decide(shallow(tc.change, []policy.Image{{Ref: tag, Consumers: used("shop")}}, exempt), lost)
			if first, _, _ := strings.Cut(summary(v), ","); first != tc.want {
				t.Errorf("got %s, want %s", summary(v), tc.want)
			}
		})
	}
	shared := shallow(policy.Change{Before: set(wide), After: set(wide, itms("own", "quay.io", never, "n.local", "m.local"))}, []policy.Image{{Ref: tag, Consumers: used("shop")}}, exempt)
	if got := summary(Decide(shared, facts("n.local/x:1 mismatch", "m.local/x:1 present"))); got != "deny ContentMismatch" {
		t.Errorf("a source that another set rules as well: %s", got)
	}
	gaps := []policy.Gap{{Source: "pods", Kind: "Pod"}}
	stale := func(c policy.Change) string {
		return summary(Decide(newPlan(c, plan.Cluster{Gaps: gaps}, exempt), nil))
	}
	if got := stale(policy.Change{Before: set(wide, own), After: set(wide)}); !strings.Contains(got, "deny InventoryStale") {
		t.Errorf("images that nobody knows, of a deletion: %s", got)
	}
	if got := stale(policy.Change{Before: set(), After: set(itms("own", "quay.io/x", never, "m.local/x"))}); !strings.Contains(got, "warn InventoryStale") {
		t.Errorf("images that nobody knows, of what it does: %s", got)
	}
}

// TestExemptionsAreForWhoIsKnown: without For, no exemption of a user holds, and none holds for
// the standing verification that depends on a change.
func TestExemptionsAreForWhoIsKnown(t *testing.T) {
	personal := settings.Settings{Exemptions: []settings.Exemption{{Name: "e", Users: []string{"*"}}}}
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	lost := facts("m.local/x:1 absent", "quay.io/x:1 present")
	if v := Decide(shallow(change, []policy.Image{{Ref: tag, Consumers: running}}, personal), lost); v.Allowed {
		t.Error("admitted for nobody")
	}
	if left := (settings.Settings{Exemptions: []settings.Exemption{{Name: "a", MirrorSets: []string{"*"}}, {Name: "b"}}}).ForNoChange().Exemptions; len(left) != 1 || left[0].Name != "b" {
		t.Errorf("left %v", left)
	}
}

// TestExemptionsOfTheWhole: what stops MCO harms the whole cluster.
func TestExemptionsOfTheWhole(t *testing.T) {
	good, bad := idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")
	ok := facts("m.local/x:1 present", "quay.io/x:1 present")
	exempt := func(e settings.Exemption) settings.Settings {
		e.Name = "e"
		return settings.Settings{Exemptions: []settings.Exemption{e}}
	}
	testDecisions(t, []decision{
		{"without a word about it", set(good), set(good, bad), tag, ok, exempt(settings.Exemption{}), "deny RejectedByMCO"},
		{"of images", set(good), set(good, bad), tag, ok, exempt(settings.Exemption{Protected: true, Images: []string{"*"}}), "deny RejectedByMCO"},
		{"of namespaces", set(good), set(good, bad), tag, ok, exempt(settings.Exemption{Protected: true, Namespaces: []string{"*"}}), "deny RejectedByMCO"},
		{"of the mirror set, in so many words", set(good), set(good, bad), tag, ok, exempt(settings.Exemption{Protected: true, MirrorSets: []string{"b"}}), "warn RejectedByMCO"},
		{"it goes on to say what would come of it", set(good), set(good, bad), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), exempt(settings.Exemption{Protected: true, MirrorSets: []string{"b"}}), "warn RejectedByMCO, warn NotFullySynced"},
	})
}
