package policy

import (
	"fmt"
	"strings"
	"testing"
	"testing/quick"
	"unicode"
	"unicode/utf8"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestMessageIsCut: a denial of 3,000 findings and of forty places each is short, and still counts all. A report has
// all.
func TestMessageIsCut(t *testing.T) {
	locations := make([]configv1.ImageMirror, 40)
	for i := range locations {
		locations[i] = configv1.ImageMirror(fmt.Sprintf("m%d.local", i))
	}
	var images []Image
	f := Facts{}
	for i := range 3000 {
		path := fmt.Sprintf("/app%04d:1", i)
		images = append(images, Image{"quay.io" + path, []Consumer{{Kind: "Deployment", Namespace: fmt.Sprintf("team-%d", i%7), Name: "app", Container: "app"}}})
		f[mirrors.Location{Ref: "quay.io" + path}] = &Fact{Presence: Present}
		for _, m := range locations[:40*min(i%3, 1)] {
			f[mirrors.Location{Ref: string(m) + path}] = &Fact{Presence: Absent, AsNodes: true}
		}
	}
	v := shallow(Change{set(), set(itms("a", "quay.io", allow, locations...))}, images, Settings{}).Decide(f)
	message, report := v.Message("ImageTagMirrorSet a"), v.Answer("ImageTagMirrorSet a").String()
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
	if got := (Verdict{}).Message("ImageTagMirrorSet a"); !strings.HasPrefix(got, "ImageTagMirrorSet a ") {
		t.Errorf("got %q", got)
	}
}

// TestReroutesNone: silence about a change that no known image has to do with would read
// as if something had been verified.
func TestReroutesNone(t *testing.T) {
	other := itms("other", "registry.example.org", "", "m.local")
	three := []Image{{Ref: "quay.io/a:1"}, {Ref: "quay.io/b:1"}, {Ref: "quay.io/c:1"}}
	blocked := mirrors.Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"registry.example.org"}}}
	for _, tc := range []struct {
		name          string
		before, after mirrors.Set
		images        []Image
		warns         bool
	}{
		{"of several", set(), set(other), three, true},
		{"of one", set(), set(other), three[:1], true},
		{"of none", set(), set(other), nil, true},
		{"a registry list", set(), blocked, three, true},
		{"what is taken away covers nobody", set(other), set(), three, false},
		{"nothing changes", set(other), set(other), three, false},
	} {
		if got := shallow(Change{tc.before, tc.after}, tc.images, Settings{}).Decide(nil).Warnings("X"); len(got) > 0 != tc.warns {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}

// TestHostileReference: an image reference may be any text. Nothing of it can forge a
// line of a message, or reach a terminal as more than characters.
func TestHostileReference(t *testing.T) {
	of := func(evil string) Finding {
		user := Consumer{Kind: "Pod", Namespace: "a" + evil, Name: "c" + evil, Container: "d" + evil}
		return Finding{Rule: "ImageMissing", Image: Image{Ref: "quay.io/x" + evil, Consumers: []Consumer{user}}, Reason: "no" + evil, Detail: []string{"a" + evil}, Remedy: []string{"cp" + strings.ReplaceAll(evil, "\n", "")}}
	}
	texts := func(f Finding) (all []string) {
		for _, f.Severity = range []Severity{Deny, Warn} {
			v := Verdict{Judgement: Judgement{Findings: []Finding{f}, Counts: Counts{Total: 1, Rerouted: 1}}, Allowed: f.Severity < Deny}
			all = append(append(all, v.Message("X"), v.Answer("X").String()), v.Warnings("X")...)
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
	images := []Image{{"quay.io/a:1", running}, {"quay.io/b:1", running}, {long, running}, {"Bad:Ref:x", running}, {"other.io/c:1", running}}
	plan := shallow(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, images, Settings{})
	f := facts("m.local/a:1 present", "m.local/b:1 absent", "quay.io/b:1 absent", "m.local"+strings.TrimPrefix(long, "quay.io")+" absent", long+" absent")
	got := plan.Decide(f).Warnings("ImageTagMirrorSet a")
	for i, parts := range [][2]string{{"ImageTagMirrorSet a ", "3 of 5"}, {"ImageMissing: 2 images: ", "quay.io/b:1"}, {"MalformedReference: 1 image: ", "Bad:Ref:x"}, {"BroadSource: ", "quay.io"}} {
		if len(got) != 4 || !strings.HasPrefix(got[i], parts[0]) || !strings.Contains(got[i], parts[1]) {
			t.Errorf("got %q, want %q in number %d", got, parts, i)
		}
	}
}

// TestCut: a warning has no more runes than there may be, and no half of one.
func TestCut(t *testing.T) {
	if err := quick.Check(func(s string) bool { return utf8.RuneCountInString(cut(s)) <= maxWarning }, nil); err != nil {
		t.Error(err)
	}
	if got := cut(strings.Repeat("é", 200)); utf8.RuneCountInString(got) != maxWarning || !utf8.ValidString(got) {
		t.Errorf("cut to %d runes", utf8.RuneCountInString(got))
	}
}

// TestExemptionsAndModesAreTold: neither an exemption nor a mode goes unsaid, and a mode changes nothing else.
func TestExemptionsAndModesAreTold(t *testing.T) {
	change := Change{set(), set(itms("a", "quay.io", allow, "m.local"))}
	lost := facts("m.local/x:1 absent", "m.local/y:1 absent", "quay.io/x:1 present", "quay.io/y:1 present")
	judge := func(s Settings, f Facts) Verdict {
		return shallow(change, []Image{{tag, running}, {"quay.io/y:1", running}}, s).Decide(f)
	}
	exempt := judge(Settings{Exemptions: []Exemption{{Name: "legacy", Images: []string{"quay.io"}}}}, lost)
	if w := strings.Join(exempt.Warnings("X"), "\n"); !exempt.Allowed || !strings.Contains(w, "legacy") || strings.Count(exempt.Answer("X").String(), "legacy") != 2 {
		t.Errorf("%s\n%s", w, exempt.Answer("X").String())
	}
	enforced := judge(Settings{}, lost)
	if enforced.Allowed || enforced.Waived() || enforced.WaivedMessage("X") != "" || (Verdict{}).Waived() {
		t.Error("a denial is waived")
	}
	for _, mode := range []Mode{ModeWarn, ModeAudit} {
		v, good := judge(Settings{Mode: mode}, lost), judge(Settings{Mode: mode}, facts("m.local/x:1 present", "m.local/y:1 present"))
		if !v.Allowed || !v.Waived() || v.Mode != mode || summary(v) != summary(enforced) || v.Message("X") != "" {
			t.Errorf("mode %s: %+v", mode, v)
		}
		head, _, _ := strings.Cut(v.WaivedMessage("X"), "\n")
		if !strings.Contains(head, mode.String()) || !strings.HasPrefix(v.Answer("X").String(), head) {
			t.Errorf("mode %s: %s\n%s", mode, head, v.Answer("X").String())
		}
		if warns := len(v.Warnings("X")) > 0; warns != (mode == ModeWarn) {
			t.Errorf("mode %s: %q", mode, v.Warnings("X"))
		}
		if !good.Allowed || good.Waived() || good.WaivedMessage("X") != "" {
			t.Errorf("mode %s: %+v", mode, good)
		}
	}
}
