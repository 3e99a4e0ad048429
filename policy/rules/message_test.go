package rules

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// TestMessageIsCut: a denial of 3,000 findings and of forty places each is short, and still counts all. A report has
// all.
func TestMessageIsCut(t *testing.T) {
	locations := make([]configv1.ImageMirror, 40)
	for i := range locations {
		locations[i] = configv1.ImageMirror(fmt.Sprintf("m%d.local", i))
	}
	var images []policy.Image
	f := policy.Facts{}
	for i := range 3000 {
		path := fmt.Sprintf("/app%04d:1", i)
		images = append(images, policy.Image{Ref: "quay.io" + path, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: fmt.Sprintf("team-%d", i%7), Name: "app", Container: "app"}}})
		f[mirrors.Location{Ref: "quay.io" + path}] = &policy.Fact{Presence: policy.Present}
		for _, m := range locations[:40*min(i%3, 1)] {
			f[mirrors.Location{Ref: string(m) + path}] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
		}
	}
	v := Decide(shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, locations...))}, images, settings.Settings{}), f)
	message, report := words.Refusal(v, "ImageTagMirrorSet a"), words.Answer(v, "ImageTagMirrorSet a").String()
	for text, want := range map[string][2]int{message: {3, 3 * 10}, report: {3000, 3000 * 40}} {
		if cards, places := strings.Count(text, "\n   used by "), strings.Count(text, "\n   - m"); cards != want[0] || places != want[1] {
			t.Errorf("%d findings and %d places, want %v in %d bytes", cards, places, want, len(text))
		}
	}
	if len(message) > 4096 {
		t.Errorf("the message has %d bytes", len(message))
	}
	for _, part := range []string{"and 31 more", "2,997 more", "\n- ImageMissing: 1,997 images (team-", "\n- Unverified: 1,000 images (team-", "4 more namespaces", "mirrorset-guard sync -f FILE", "2,000 of 3,000"} {
		if !strings.Contains(message, part) {
			t.Errorf("there is no %q in\n%s", part, message)
		}
	}
}

// TestNoVerdict: a Verdict that nobody has decided refuses.
func TestNoVerdict(t *testing.T) {
	if got := words.Refusal((policy.Verdict{}), "ImageTagMirrorSet a"); !strings.HasPrefix(got, "ImageTagMirrorSet a ") {
		t.Errorf("got %q", got)
	}
}

// TestReroutesNone: silence about a change that no known image has to do with would read
// as if something had been verified.
func TestReroutesNone(t *testing.T) {
	other := itms("other", "registry.example.org", "", "m.local")
	three := []policy.Image{{Ref: "quay.io/a:1"}, {Ref: "quay.io/b:1"}, {Ref: "quay.io/c:1"}}
	blocked := mirrors.Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"registry.example.org"}}}
	for _, tc := range []struct {
		name          string
		before, after mirrors.Set
		images        []policy.Image
		warns         bool
	}{
		{"of several", set(), set(other), three, true},
		{"of one", set(), set(other), three[:1], true},
		{"of none", set(), set(other), nil, true},
		{"a registry list", set(), blocked, three, true},
		{"what is taken away covers nobody", set(other), set(), three, false},
		{"nothing changes", set(other), set(other), three, false},
	} {
		if got := words.Warnings(Decide(shallow(policy.Change{Before: tc.before, After: tc.after}, tc.images, settings.Settings{}), nil), "X"); len(got) > 0 != tc.warns {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}

// TestHostileReference: an image reference may be any text. Nothing of it can forge a
// line of a message, or reach a terminal as more than characters.
func TestHostileReference(t *testing.T) {
	of := func(evil string) policy.Finding {
		user := policy.Consumer{Kind: "Pod", Namespace: "a" + evil, Name: "c" + evil, Container: "d" + evil}
		return policy.Finding{Rule: "ImageMissing", Image: policy.Image{Ref: "quay.io/x" + evil, Consumers: []policy.Consumer{user}}, Reason: "no" + evil, Detail: []string{"a" + evil}, Remedy: []string{"cp" + strings.ReplaceAll(evil, "\n", "")}}
	}
	texts := func(f policy.Finding) (all []string) {
		for _, f.Severity = range []policy.Severity{policy.Deny, policy.Warn} {
			v := policy.Verdict{Judgement: policy.Judgement{Findings: []policy.Finding{f}, Counts: policy.Counts{Total: 1, Rerouted: 1}}, Allowed: f.Severity < policy.Deny}
			all = append(append(all, words.Refusal(v, "X"), words.Answer(v, "X").String()), words.Warnings(v, "X")...)
		}
		return all
	}
	plain := texts(of(""))
	for i, got := range texts(of("\x1b[2J\nWarning: all is well\u202e\x07\r\n")) {
		if strings.Count(got, "\n") != strings.Count(plain[i], "\n") || strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("got %q", got)
		}
	}
}

// TestWarnings: what is alike is one warning, with a count, the first image and no more runes than there may be.
func TestWarnings(t *testing.T) {
	long := "quay.io/" + strings.Repeat("very-long-name/", 10) + "app:1"
	images := []policy.Image{{Ref: "quay.io/a:1", Consumers: running}, {Ref: "quay.io/b:1", Consumers: running}, {Ref: long, Consumers: running}, {Ref: "Bad:Ref:x", Consumers: running}, {Ref: "other.io/c:1", Consumers: running}}
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, images, settings.Settings{})
	f := facts("m.local/a:1 present", "m.local/b:1 absent", "quay.io/b:1 absent", "m.local"+strings.TrimPrefix(long, "quay.io")+" absent", long+" absent")
	got := words.Warnings(Decide(plan, f), "ImageTagMirrorSet a")
	for i, parts := range [][2]string{{"ImageTagMirrorSet a ", "3 of 5"}, {"ImageMissing: 2 images: ", "quay.io/b:1"}, {"MalformedReference: 1 image: ", "Bad:Ref:x"}, {"BroadSource: ", "quay.io"}} {
		if len(got) != 4 || !strings.HasPrefix(got[i], parts[0]) || !strings.Contains(got[i], parts[1]) {
			t.Errorf("got %q, want %q in number %d", got, parts, i)
		}
	}
}

// TestExemptionsAndModesAreTold: neither an exemption nor a mode goes unsaid, and a mode changes nothing else.
func TestExemptionsAndModesAreTold(t *testing.T) {
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	lost := facts("m.local/x:1 absent", "m.local/y:1 absent", "quay.io/x:1 present", "quay.io/y:1 present")
	judge := func(s settings.Settings, f policy.Facts) policy.Verdict {
		return Decide(shallow(change, []policy.Image{{Ref: tag, Consumers: running}, {Ref: "quay.io/y:1", Consumers: running}}, s), f)
	}
	exempt := judge(settings.Settings{Exemptions: []settings.Exemption{{Name: "legacy", Images: []string{"quay.io"}}}}, lost)
	if w := strings.Join(words.Warnings(exempt, "X"), "\n"); !exempt.Allowed || !strings.Contains(w, "legacy") || strings.Count(words.Answer(exempt, "X").String(), "legacy") != 2 {
		t.Errorf("%s\n%s", w, words.Answer(exempt, "X").String())
	}
	enforced := judge(settings.Settings{}, lost)
	if enforced.Allowed || words.Waived(enforced) || words.Waived((policy.Verdict{})) {
		t.Error("a denial is waived")
	}
	for _, mode := range []policy.Mode{policy.ModeWarn, policy.ModeAudit} {
		v, good := judge(settings.Settings{Mode: mode}, lost), judge(settings.Settings{Mode: mode}, facts("m.local/x:1 present", "m.local/y:1 present"))
		if !v.Allowed || !words.Waived(v) || v.Mode != mode || summary(v) != summary(enforced) {
			t.Errorf("mode %s: %+v", mode, v)
		}
		head, _, _ := strings.Cut(words.Refusal(v, "X"), "\n")
		if !strings.Contains(head, mode.String()) || !strings.HasPrefix(words.Answer(v, "X").String(), head) {
			t.Errorf("mode %s: %s\n%s", mode, head, words.Answer(v, "X").String())
		}
		if warns := len(words.Warnings(v, "X")) > 0; warns != (mode == policy.ModeWarn) {
			t.Errorf("mode %s: %q", mode, words.Warnings(v, "X"))
		}
		if !good.Allowed || words.Waived(good) || words.Refusal(good, "X") != "" {
			t.Errorf("mode %s: %+v", mode, good)
		}
	}
}
