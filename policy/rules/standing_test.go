package rules

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

var history = []policy.Consumer{{Kind: "ReplicaSet", Namespace: "shop", Name: "cart-old", Use: policy.History}}

// standingText is "Works", "Unsure" or "Fails Rule on Kind name, Kind name".
func standingText(s Standing) string {
	if s.Outcome != evidence.Fails {
		return map[evidence.Outcome]string{evidence.Works: "Works at " + s.At.Ref, evidence.Unsure: "Unsure"}[s.Outcome]
	}
	return "Fails " + s.Finding.Rule + " on " + strings.Join(convert.Each(s.Objects, mirrors.NameOf), ", ")
}

func TestStandings(t *testing.T) {
	const m1, m2 = "m1.example.com/x:1", "m2.example.com/x:1"
	two := set(itms("apps", "quay.io", allow, "m1.example.com", "m2.example.com"))
	only := set(itms("apps", "quay.io", never, "m1.example.com"))
	cut := set(itms("apps", "quay.io", never, "m1.example.com"), idms("platform", "quay.io/team", allow, "m2.example.com/team"))
	insecure := set(itms("apps", "quay.io", allow, "m1.example.com"))
	insecure.Registries = configv1.RegistrySources{InsecureRegistries: []string{"quay.io/x"}}
	redHat := set(itms("apps", "registry.access.redhat.com", allow, "m1.example.com"))
	elsewhere := facts("m1.example.com/busybox:1 absent", "registry.access.redhat.com/busybox:1 absent", "docker.io/library/busybox:1 present")
	elsewhere[mirrors.Location{Ref: "docker.io/library/busybox:1"}].Digest = "sha256:new"
	laid := set(idms("platform", "quay.io", allow, "m1.example.com"))
	laid.Files = asFiles(only.Objects, "worker", "master")
	sparse := func(f policy.Facts, ref string) policy.Facts {
		fact := f[mirrors.Location{Ref: ref}]
		fact.Missing = []string{"linux/arm64"}
		f[mirrors.Location{Ref: ref}] = fact
		return f
	}
	for _, tt := range []struct {
		name      string
		set       mirrors.Set
		image     string
		consumers []policy.Consumer
		facts     policy.Facts
		settings  settings.Settings
		want      string // "" for an image that is none of its business
	}{
		{"one mirror of two is enough", two, tag, running, facts(m1+" absent", m2+" present"), settings.Settings{}, "Works at " + m2},
		{"the source does not count", two, tag, running, facts(m1+" absent", m2+" absent", tag+" present"), settings.Settings{}, "Fails ImageMissing on ImageTagMirrorSet apps"},
		{"nor whether it is lost as well", two, tag, running, facts(m1+" absent", m2+" absent", tag+" absent"), settings.Settings{}, "Fails ImageMissing on ImageTagMirrorSet apps"},
		{"nor whether it answers", two, tag, running, facts(m1+" absent", m2+" absent", tag+" unreachable"), settings.Settings{}, "Fails ImageMissing on ImageTagMirrorSet apps"},
		{"a mirror that does not answer may have it", two, tag, running, facts(m1+" absent", m2+" unreachable", tag+" present"), settings.Settings{}, "Unsure"},
		{"so may one that nobody has asked", two, tag, running, facts(m1 + " absent"), settings.Settings{}, "Unsure"},
		{"an unreachable mirror has lost nothing", only, tag, running, facts(m1 + " unreachable"), settings.Settings{}, "Unsure"},
		{"nothing but the mirror", only, tag, running, facts(m1 + " absent"), settings.Settings{}, "Fails NotFullySynced on ImageTagMirrorSet apps"},
		{"the mirror does not let nodes in", two, tag, running, facts(m1+" denied", m2+" denied", tag+" present"), settings.Settings{}, "Fails CredentialsMissing on ImageTagMirrorSet apps"},
		{"the mirror serves something else", only, tag, running, facts(m1 + " mismatch"), settings.Settings{}, "Fails NotFullySynced on ImageTagMirrorSet apps"},
		{"the first mirror has lost layers, so that nodes never get to the second", two, tag, running, facts(m1+" incomplete", m2+" present"), settings.Settings{}, "Fails BlobsMissing on ImageTagMirrorSet apps"},
		{"a part is missing", only, tag, running, sparse(facts(m1+" present"), m1), settings.Settings{}, "Fails PlatformMissing on ImageTagMirrorSet apps"},
		{"the one that does not answer may have the part", two, tag, running, sparse(facts(m1+" unreachable", m2+" present"), m2), settings.Settings{}, "Unsure"},
		{"a tag mirror cuts pulls by digest off", only, dig, running, facts(), settings.Settings{}, "Fails NoRoute on ImageTagMirrorSet apps"},
		{"the narrower entry is to blame", cut, "quay.io/team/x" + digestA, running, facts("m2.example.com/team/x"+digestA+" absent", "quay.io/team/x"+digestA+" absent"), settings.Settings{}, "Fails ImageMissing on ImageDigestMirrorSet platform"},
		{"inherited mirrors are those of the wider entry", insecure, tag, running, facts(m1 + " absent"), settings.Settings{}, "Fails ImageMissing on ImageTagMirrorSet apps"},
		{"no object is to blame for a drop-in", laid, tag, running, facts(m1 + " absent"), settings.Settings{}, "Fails NotFullySynced on "},
		{"no mirror", two, "docker.io/library/x:1", running, facts(), settings.Settings{}, ""},
		{"a short name of a registry without mirrors", redHat, "busybox:1", consumers(runs("sha256:new")), elsewhere, settings.Settings{}, ""},
		{"or of one that has another image than the one that runs", redHat, "busybox:1", running, elsewhere, settings.Settings{}, "Unsure"},
		{"or than the one that ran", redHat, "busybox:1", consumers(), elsewhere, settings.Settings{}, "Unsure"},
		{"nothing pulls it", two, tag, history, facts(m1+" absent", m2+" absent", tag+" present"), settings.Settings{}, ""},
		{"nobody wants to know", two, tag, running, facts(m1+" absent", m2+" absent", tag+" present"), settings.Settings{Severities: map[string]policy.Severity{"ImageMissing": policy.Info}}, "Unsure"},
		{"a warning is worth an alarm", two, tag, running, facts(m1+" absent", m2+" absent", tag+" present"), settings.Settings{AllowSourceFallback: true}, "Fails ImageMissing on ImageTagMirrorSet apps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := shallower(plan.NewStanding(tt.set, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tt.image, Consumers: tt.consumers}}...)}, tt.settings))
			got := ""
			for _, s := range Standings(plan, tt.facts) {
				got += standingText(s)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestStandingOfRejected: what MCO does not apply is verified all the same, and said.
func TestStandingOfRejected(t *testing.T) {
	s := set(itms("apps", "quay.io", allow, "m1.example.com"), itms("conflict", "quay.io", never, "m1.example.com"))
	plan := shallower(plan.NewStanding(s, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: running}}...)}, settings.Settings{}))
	if got := summary(DecideStanding(plan, facts("m1.example.com/x:1 present"))); got != "warn RejectedByMCO" {
		t.Errorf("got %q", got)
	}
	if got := Standings(plan, facts("m1.example.com/x:1 present")); len(got) != 1 || got[0].Outcome != evidence.Works || len(got[0].Objects) != 2 {
		t.Errorf("got %+v, want one image that two objects send to its mirror", got)
	}
}

// TestStandingLookups: the source is asked about what the mirrors are known to lack.
func TestStandingLookups(t *testing.T) {
	plan := shallower(plan.NewStanding(set(itms("apps", "quay.io", allow, "m1.example.com")), plan.Cluster{Images: policy.NewImages([]policy.Image{
		{Ref: "quay.io/a:1", Consumers: running}, {Ref: "quay.io/b:1", Consumers: running}, {Ref: "quay.io/c:1", Consumers: running},
	}...)}, settings.Settings{}))
	refs := func(locs []mirrors.Location) string { return strings.Join(refsOf(locs), " ") }
	if got := refs(plan.Lookups(policy.Facts{})); got != "m1.example.com/a:1 m1.example.com/b:1 m1.example.com/c:1" {
		t.Errorf("first %q", got)
	}
	known := facts("m1.example.com/a:1 present", "m1.example.com/b:1 absent", "m1.example.com/c:1 unknown")
	if got := refs(plan.Lookups(known)); got != "quay.io/b:1" {
		t.Errorf("then %q", got)
	}
	if len(plan.Reroutes) != 3 {
		t.Errorf("the plan has %d reroutes left", len(plan.Reroutes))
	}
}

// TestStandingSignatures: a mirror that has lost a signature that nodes require has lost the image.
func TestStandingSignatures(t *testing.T) {
	signed := withPolicies(signedBy(release, "quay.io/x"), itms("a", "quay.io", allow, "m.local"))
	source := []string{"quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1"}
	for _, tt := range []struct{ name, found, want string }{
		{"it is there", "signed quay.io/x:1", "Works"},
		{"it is gone", "absent", "Fails SignatureMissing"},
		{"another has come in its place", "signed m.local/x:1", "Fails SignatureRejected"},
		{"the registry is ill", "unreachable", "Unsure"},
		{"nodes may not read it", "denied", "Unsure"},
	} {
		plan := shallower(plan.NewStanding(signed, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: tag, Consumers: consumers(isRouter)})}, settings.Settings{}))
		standings := Standings(plan, shop(append(source, "m.local/x:1 present", "m.local/x sumA "+tt.found)...))
		if len(standings) != 1 {
			t.Fatalf("%s: %+v", tt.name, standings)
		}
		got := map[evidence.Outcome]string{evidence.Works: "Works", evidence.Fails: "Fails", evidence.Unsure: "Unsure"}[standings[0].Outcome]
		if standings[0].Outcome == evidence.Fails {
			got += " " + standings[0].Finding.Rule
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestWordsForWhatIsInForce: where nothing changes, no route is new, and that the source has an image is said.
func TestWordsForWhatIsInForce(t *testing.T) {
	known, inForce := plan.Cluster{Images: policy.NewImages(policy.Image{Ref: tag, Consumers: running})}, set(itms("apps", "quay.io", allow, "m.local"))
	found := facts("m.local/x:1 absent", tag+" present")
	standing := shallower(plan.NewStanding(inForce, known, settings.Settings{}))
	for name, got := range map[string]policy.Finding{
		"verdict": DecideStanding(standing, found).Findings[0], "standing": Standings(standing, found)[0].Finding,
		"pulls": Judge(shallower(plan.NewPulls(inForce, known, settings.Settings{})), found).Findings[0],
	} {
		if strings.Contains(got.Reason, "new") || !got.OnlySource || got.Rule != policy.ImageMissing {
			t.Errorf("%s: %+v, want that only the source has it, and nothing new", name, got)
		}
	}
}

// TestNeverAnswers: no registry is to be made to answer where none could be asked.
func TestNeverAnswers(t *testing.T) {
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{})
	at := mirrors.Location{Ref: "m.local/x:1"}
	remedy := func(never bool) []string {
		return Decide(plan, policy.Facts{at: {Presence: policy.Inconclusive, Never: never}}).Findings[0].Remedy
	}
	if never, later := remedy(true), remedy(false); len(never) != 1 || slices.Equal(never, later) {
		t.Errorf("where none could be asked %q, else %q", never, later)
	}
}

// TestStandingOfWindows: what only Windows nodes run is neither held nor lost by mirrors that they do not ask, and a note says so.
func TestStandingOfWindows(t *testing.T) {
	image := policy.Image{Ref: "quay.io/x:1", Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "win", Name: "iis", Placement: &policy.Placement{OS: policy.Windows}}}}
	p := plan.NewStanding(set(itms("apps", "quay.io", never, "m.local")), plan.Cluster{Images: policy.NewImages(image), Nodes: nodesOf([]string{"linux/amd64", "windows/amd64"})}, settings.Settings{})
	for _, presence := range []string{"present", "absent"} {
		if s := Standings(p, facts("m.local/x:1 "+presence)); len(s) != 1 || s[0].Outcome != evidence.Unsure {
			t.Errorf("%s: got %+v", presence, s)
		}
	}
	if notes := p.ElsewhereNotes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "not verified: Windows nodes, which run 1 image: ") {
		t.Errorf("notes %q", notes)
	}
}
