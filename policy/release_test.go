package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lacking is a release of 191 images of which some are missing, and some not known.
func lacking(missing, open int) Release {
	r := Release{Name: "4.21.3", Asked: "4.21.3", Counts: Counts{Total: 191, Rerouted: 191}, MissingImages: missing, OpenImages: open, Remedy: "mirrorset-guard check --release 4.21.3 --plan sh --missing > copy.sh && sh copy.sh"}
	for i := range missing {
		r.Missing = append(r.Missing, string(rune('a'+i))+": no place that nodes would ask has the image")
	}
	for i := range open {
		r.Open = append(r.Open, string(rune('m'+i))+": it could not be determined")
	}
	return r
}

// TestDecideRelease: an update warns by default, and is denied by setting; what is not known weighs as much as what is
// known to be missing, unless a setting for that says otherwise.
func TestDecideRelease(t *testing.T) {
	deny := severities(ReleaseNotReady, Deny)
	exempt := deny
	exempt.Exemptions = []Exemption{{Name: "night", Protected: true}}
	partly := deny
	partly.Exemptions = []Exemption{{Name: "shop", Namespaces: []string{"shop"}}}
	waiving := deny
	waiving.Mode = ModeWarn
	loose := Settings{Severities: map[string]Severity{ReleaseNotReady: Deny, ReleaseUnknown: Warn}}
	for _, c := range []struct {
		why      string
		release  Release
		settings Settings
		allowed  bool
		findings string
	}{
		{"ready", lacking(0, 0), deny, true, ""},
		{"by default, missing", lacking(1, 0), Settings{}, true, "warn ReleaseNotReady"},
		{"by default, not known", lacking(0, 1), Settings{}, true, "warn ReleaseUnknown"},
		{"missing", lacking(1, 0), deny, false, "deny ReleaseNotReady"},
		{"not known", lacking(0, 1), deny, false, "deny ReleaseUnknown"},
		{"both", lacking(1, 1), deny, false, "deny ReleaseNotReady, deny ReleaseUnknown"},
		{"not known, which is let pass", lacking(0, 1), loose, true, "warn ReleaseUnknown"},
		{"missing, where what is not known is let pass", lacking(1, 1), loose, false, "deny ReleaseNotReady, warn ReleaseUnknown"},
		{"only what is not known is refused", lacking(1, 1), severities(ReleaseUnknown, Deny), false, "deny ReleaseUnknown, warn ReleaseNotReady"},
		{"not to hear of it", lacking(1, 1), severities(ReleaseNotReady, Info), true, "info ReleaseNotReady, info ReleaseUnknown"},
		{"waived", lacking(1, 0), waiving, true, "deny ReleaseNotReady"},
		{"an exemption for the cluster", lacking(1, 1), exempt, true, "warn ReleaseNotReady, warn ReleaseUnknown"},
		{"one for some images", lacking(1, 0), partly, false, "deny ReleaseNotReady"},
	} {
		v := c.settings.DecideRelease(c.release)
		if got := summary(v); v.Allowed != c.allowed || got != c.findings {
			t.Errorf("%s: allowed %t, %s; want %t, %s", c.why, v.Allowed, got, c.allowed, c.findings)
		}
	}
}

// TestReleaseMonotony: to know less of a release never admits what is refused with more.
func TestReleaseMonotony(t *testing.T) {
	for _, s := range []Settings{{}, severities(ReleaseNotReady, Deny), severities(ReleaseNotReady, Info)} {
		for missing := range 3 {
			for open := range 3 {
				known, less := s.DecideRelease(lacking(missing+1, open)), s.DecideRelease(lacking(missing, open+1))
				if less.Allowed && !known.Allowed {
					t.Errorf("%v: %d missing and %d open is refused, and admitted with one less known", s.Severities, missing+1, open)
				}
			}
		}
	}
}

func TestReleaseTexts(t *testing.T) {
	deny := severities(ReleaseNotReady, Deny)
	pending := lacking(0, 4)
	pending.Counts.Pending = 4
	unread := lacking(0, 1)
	unread.Unread, unread.Counts = true, Counts{}
	for _, c := range []struct {
		why      string
		verdict  Verdict
		message  string
		warnings []string
	}{
		{"ready", deny.DecideRelease(lacking(0, 0)), "", []string{
			"ClusterVersion version: release 4.21.3 is ready: all nodes can pull what they need of its 191 images",
		}},
		{"missing, by default", Settings{}.DecideRelease(lacking(4, 0)), "", []string{
			"ReleaseNotReady: release 4.21.3: 4 of its 191 images cannot be pulled by all nodes that need them",
			"- a: no place that nodes would ask has the image",
			"- b: no place that nodes would ask has the image",
			"- c: no place that nodes would ask has the image",
			"- and 1 more",
			"For the full list: mirrorset-guard check --release 4.21.3",
		}},
		{"missing", deny.DecideRelease(lacking(2, 0)), `ClusterVersion version is refused: release 4.21.3: 2 of its 191 images cannot be pulled by all nodes that need them.
- ReleaseNotReady: a: no place that nodes would ask has the image
- ReleaseNotReady: b: no place that nodes would ask has the image
To do: mirrorset-guard check --release 4.21.3 --plan sh --missing > copy.sh && sh copy.sh

Nothing was changed. For the full list: mirrorset-guard check --release 4.21.3`, nil},
		{"pending", deny.DecideRelease(pending), `ClusterVersion version is refused: release 4.21.3: 4 of its 191 images are still being looked up; ask again in 10 s.
- ReleaseUnknown: m: it could not be determined
- ReleaseUnknown: n: it could not be determined
- ReleaseUnknown: o: it could not be determined
- ReleaseUnknown: p: it could not be determined
To do: ask again in 10 s, when more is known

Nothing was changed. For the full list: mirrorset-guard check --release 4.21.3`, nil},
		{"unread", Settings{}.DecideRelease(unread), "", []string{
			"ReleaseUnknown: release 4.21.3: which images it has is not known: m: it could not be determined",
			"- m: it could not be determined",
			"For the full list: mirrorset-guard check --release 4.21.3",
		}},
		{"in mode audit", Settings{Mode: ModeAudit, Severities: deny.Severities}.DecideRelease(lacking(2, 0)), "", nil},
		{"in mode warn", Settings{Mode: ModeWarn, Severities: deny.Severities}.DecideRelease(lacking(1, 0)), "", []string{
			"Mode warn: in mode enforce ClusterVersion version would be refused: release 4.21.3: 1 of its 191 images cannot be pulle…",
			"Would be denied: ReleaseNotReady: release 4.21.3: 1 of its 191 images cannot be pulled by all nodes that need it",
			"- a: no place that nodes would ask has the image",
			"For the full list: mirrorset-guard check --release 4.21.3",
		}},
	} {
		if diff := cmp.Diff(c.message, c.verdict.Message("ClusterVersion version")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.why, diff)
		}
		if diff := cmp.Diff(c.warnings, c.verdict.Warnings("ClusterVersion version")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.why, diff)
		}
	}
}
