package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// conf writes a registries.conf with the given search registries and entries. An entry is
// its scope and then, separated by blanks: its location if that is another ("at:..."),
// "blocked", "insecure", "digests-only" (mirror-by-digest-only), and its mirrors with the
// pulls that they serve ("d:m.local" for digests, "t:" for tags, ":" for all); a mirror that
// ends with "!" is insecure.
func conf(search string, entries ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "unqualified-search-registries = [%s]\n", quoted(strings.Fields(search)))
	for _, entry := range entries {
		words := strings.Fields(entry)
		prefix, location := "", words[0]
		if len(words) > 1 && strings.HasPrefix(words[1], "at:") {
			prefix, location = words[0], words[1][len("at:"):]
		}
		fmt.Fprintf(&b, "[[registry]]\nprefix = %q\nlocation = %q\n", prefix, location)
		var endpoints []string
		for _, word := range words[1:] {
			switch word {
			case "blocked", "insecure":
				fmt.Fprintf(&b, "%s = true\n", word)
			case "digests-only":
				b.WriteString("mirror-by-digest-only = true\n")
			default:
				if !strings.HasPrefix(word, "at:") {
					endpoints = append(endpoints, word)
				}
			}
		}
		for _, endpoint := range endpoints {
			for_, location, _ := strings.Cut(endpoint, ":")
			name, insecure := strings.CutSuffix(location, "!")
			fmt.Fprintf(&b, "[[registry.mirror]]\nlocation = %q\n", name)
			if insecure {
				b.WriteString("insecure = true\n")
			}
			if pulls := map[string]string{"d": "digest-only", "t": "tag-only", "a": "all"}[for_]; pulls != "" {
				fmt.Fprintf(&b, "pull-from-mirror = %q\n", pulls)
			}
		}
	}
	return []byte(b.String())
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(out, ", ")
}

// usual are the search registries of MCO's test.
const usual = "example.com foo.com"

// upstream are the files of TestIsDrainRequired in MCO's pkg/daemon/drain_test.go.
var upstream = map[string][]byte{
	"mc1":  conf(usual, "example.com/repo/test-img :mirror.com/repo/test-img", "example.com/repo1/test-img1 d:mirror.com/repo1/test-img1"),
	"mc2":  conf(usual, "example.com/repo/test-img :mirror.com/repo/test-img", "example.com/repo1/test-img1 d:mirror.com/repo1/test-img1 d:mirror1.com/repo1/test-img1"),
	"mc3":  conf(usual, "example.com/repo/test-img :mirror.com/repo/test-img"),
	"mc4":  conf(usual+" bar.com", "example.com/repo/test-img d:mirror.com/repo/test-img"),
	"mc5":  conf(usual, "example.com/repo/test-img d:mirror.com/repo/test-img"),
	"mc6":  conf(usual, "example.com/repo/test-img d:mirror.com/repo/test-img", "example.com/repo1/test-img1"),
	"mc7":  conf(usual, "example.com/repo/test-img d:mirror.com/repo/test-img", "example.com/repo1/test-img1 :mirror.com/repo1/test-img1"),
	"mc8":  conf(usual, "bar.com at:example.com/repo/test-img"),
	"mc9":  conf(usual, "bar.com at:example.com/repo/test-img blocked"),
	"mc10": conf(usual, "example.com/repo/test-img"),
	"mc11": conf(usual, "example.com/repo1/test-img d:mirror.com/repo1/test-img", "bar.com at:example.com/repo/test-img blocked"),
	"mc12": conf(usual, "example.com/repo/test-img digests-only :mirror.com/repo/test-img"),
	"mc13": conf(usual, "example.com/repo/test-img digests-only :mirror.com/repo/test-img :mirror.com/repo/test-img-13"),
}

// TestUpstream is the table of TestIsDrainRequired, with what MCO logs as its reason.
func TestUpstream(t *testing.T) {
	for _, tt := range []struct {
		before, after string
		want          string // the first reason, "" for no drain
	}{
		{"mc1", "mc1", ""},
		{"mc3", "mc1", ""}, // a new registry, all of whose mirrors are for digests
		{"mc5", "mc6", "the entry for example.com/repo1/test-img1 is new and has no mirrors"},
		{"mc1", "mc3", "the entry for example.com/repo1/test-img1 is gone"},
		{"mc1", "mc2", ""},  // a new mirror for digests
		{"mc9", "mc11", ""}, // the blocked entry has not changed
		{"mc6", "mc7", "mirror mirror.com/repo1/test-img1 is added to example.com/repo1/test-img1 for tags and digests"},
		{"mc2", "mc1", "mirror mirror1.com/repo1/test-img1 of example.com/repo1/test-img1 is gone"},
		{"mc4", "mc3", `the search registries change from "example.com, foo.com, bar.com" to "example.com, foo.com"`},
		{"mc3", "mc4", ""}, // a search registry is appended, a mirror is restricted to digests
		{"mc8", "mc10", "the entry for bar.com is gone"},
		{"mc8", "mc9", `blocked of the entry for bar.com changes from "false" to "true"`},
		{"mc1", "mc6", "mirror mirror.com/repo1/test-img1 of example.com/repo1/test-img1 is gone"},
		{"mc12", "mc13", ""}, // mirror-by-digest-only restricts the new mirror
	} {
		t.Run(tt.before+" to "+tt.after, func(t *testing.T) {
			if got := firstReason(t, upstream[tt.before], upstream[tt.after]); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func firstReason(t *testing.T, before, after []byte) string {
	t.Helper()
	reasons, err := DrainReasons(before, after)
	if err != nil {
		t.Fatal(err)
	}
	if len(reasons) == 0 {
		return ""
	}
	return reasons[0]
}

// TestDrainReasons has every check, and what it does not look at.
func TestDrainReasons(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after []string // the search registries, then entries
		want          string
	}{
		// 1. search registries
		{"one is put first", []string{"a.io b.io"}, []string{"c.io a.io b.io"}, `the search registries change from "a.io, b.io" to "c.io, a.io, b.io"`},
		{"one is appended", []string{"a.io"}, []string{"a.io b.io"}, ""},
		{"none are left", []string{"a.io"}, []string{""}, `the search registries change from "a.io" to ""`},
		{"two change places", []string{"a.io b.io"}, []string{"b.io a.io"}, `the search registries change from "a.io, b.io" to "b.io, a.io"`},

		// 2. removed
		{"the last entry goes", []string{"", "quay.io d:m.local"}, []string{""}, "the entry for quay.io is gone"},
		{"before what else drains", []string{"", "a.io", "b.io d:m.local"}, []string{"", "b.io blocked d:m.local"}, "the entry for a.io is gone"},

		// 3. altered
		{"prefix, at the same scope", []string{"", "a.io at:a.io d:m.local"}, []string{"", "a.io d:m.local"}, `prefix of the entry for a.io changes from "a.io" to ""`},
		{"location", []string{"", "a.io at:b.io"}, []string{"", "a.io at:c.io"}, `location of the entry for a.io changes from "b.io" to "c.io"`},
		{"unblocked", []string{"", "a.io blocked d:m.local"}, []string{"", "a.io d:m.local"}, `blocked of the entry for a.io changes from "true" to "false"`},
		{"insecure", []string{"", "a.io d:m.local"}, []string{"", "a.io insecure d:m.local"}, `insecure of the entry for a.io changes from "false" to "true"`},
		{"digests only is not looked at", []string{"", "a.io d:m.local"}, []string{"", "a.io digests-only d:m.local"}, ""},

		// 4. mirrors removed
		{"a mirror goes, another comes", []string{"", "a.io d:m.local"}, []string{"", "a.io d:n.local"}, "mirror m.local of a.io is gone"},
		{"mirrors change places", []string{"", "a.io d:m.local d:n.local"}, []string{"", "a.io d:n.local d:m.local"}, ""},
		{"a mirror becomes insecure", []string{"", "a.io t:m.local"}, []string{"", "a.io t:m.local!"}, ""},

		// 5. mirrors altered
		{"digests to tags", []string{"", "a.io d:m.local"}, []string{"", "a.io t:m.local"}, "mirror m.local of a.io is for tags instead of digests"},
		{"tags to all", []string{"", "a.io t:m.local"}, []string{"", "a.io a:m.local"}, "mirror m.local of a.io is for tags and digests instead of tags"},
		{"all, said and unsaid", []string{"", "a.io :m.local"}, []string{"", "a.io a:m.local"}, `pull-from-mirror of mirror m.local of a.io changes from "" to "all"`},
		{"tags to digests", []string{"", "a.io t:m.local"}, []string{"", "a.io d:m.local"}, ""},

		// 6. mirrors added
		{"for tags", []string{"", "a.io d:m.local"}, []string{"", "a.io d:m.local t:n.local"}, "mirror n.local is added to a.io for tags"},
		{"for digests, in front", []string{"", "a.io d:m.local"}, []string{"", "a.io d:n.local d:m.local"}, ""},
		{"for digests, to one for tags", []string{"", "a.io t:m.local"}, []string{"", "a.io d:n.local t:m.local"}, ""},

		// 7. added
		{"for digests", []string{""}, []string{"", "a.io d:m.local"}, ""},
		{"for digests, blocked and insecure", []string{""}, []string{"", "a.io blocked insecure d:m.local"}, ""},
		{"for tags, new", []string{""}, []string{"", "a.io t:m.local"}, "the entry for a.io is new, with mirror m.local for tags"},
		{"for digests and tags", []string{""}, []string{"", "a.io d:m.local t:m.local"}, "the entry for a.io is new, with mirror m.local for tags"},
		{"no mirrors, blocked", []string{""}, []string{"", "a.io blocked"}, "the entry for a.io is new and has no mirrors"},
		{"no mirrors, digests only", []string{""}, []string{"", "a.io digests-only"}, ""},
		{"digests only does not count for mirrors of a new one", []string{""}, []string{"", "a.io digests-only :m.local"}, "the entry for a.io is new, with mirror m.local for tags and digests"},

		// Traps: one mirror for digests and for tags.
		{"the other for tags comes", []string{"", "a.io d:m.local"}, []string{"", "a.io d:m.local t:m.local"}, "mirror m.local of a.io is for tags instead of digests"},
		{"the other for tags goes", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io d:m.local"}, ""},
		{"the other for digests goes", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io t:m.local"}, twin},
		{"twins, and nothing else", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io d:m.local t:m.local"}, ""},
		{"twins, another entry changes", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io d:m.local t:m.local", "b.io d:m.local"}, ""},
		{"twins, and a mirror for digests comes", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io d:m.local d:n.local t:m.local"}, twin},
		{"twins, and mirrors change places", []string{"", "a.io d:m.local d:n.local t:m.local"}, []string{"", "a.io d:n.local d:m.local t:m.local"}, twin},
		{"twins, and one becomes insecure", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io d:m.local! t:m.local"}, twin},
		{"twins change places", []string{"", "a.io d:m.local t:m.local"}, []string{"", "a.io t:m.local d:m.local"}, twin},

		// Traps: entries that inherit mirrors.
		{"a block inherits mirrors for digests", []string{"", "a.io d:m.local"}, []string{"", "a.io d:m.local", "a.io/x blocked d:m.local/x"}, ""},
		{"a block inherits mirrors for tags", []string{"", "a.io t:m.local"}, []string{"", "a.io t:m.local", "a.io/x blocked t:m.local/x"}, "the entry for a.io/x is new, with mirror m.local/x for tags"},

		// Bad input.
		{"one scope twice: the last counts", []string{"", "a.io blocked", "a.io d:m.local"}, []string{"", "a.io d:m.local"}, ""},
		{"a type that is none", []string{"", "a.io d:m.local"}, []string{"", "a.io d:m.local", "b.io x:m.local"}, "the entry for b.io is new, with mirror m.local for tags and digests"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := conf(tt.before[0], tt.before[1:]...), conf(tt.after[0], tt.after[1:]...)
			if got := firstReason(t, before, after); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

const twin = "the entry for a.io changes, and lists mirror m.local twice: MCO takes the one for tags for a change of the one for digests"

// TestAllReasons: who wants to avoid a drain has to know every reason, each scope's first.
func TestAllReasons(t *testing.T) {
	before := conf("a.io", "b.io d:m.local", "c.io d:m.local", "d.io d:m.local")
	after := conf("b.io", "e.io t:m.local", "d.io blocked t:m.local", "c.io d:m.local d:n.local")
	reasons, err := DrainReasons(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`the search registries change from "a.io" to "b.io"`,
		"the entry for b.io is gone",
		`blocked of the entry for d.io changes from "false" to "true"`,
		"the entry for e.io is new, with mirror m.local for tags",
	}
	if !slices.Equal(reasons, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(reasons, "\n"), strings.Join(want, "\n"))
	}
}

func TestUnreadable(t *testing.T) {
	const broken = "[[registry"
	for name, files := range map[string][2]string{"before": {broken, ""}, "after": {"", broken}} {
		if _, err := DrainReasons([]byte(files[0]), []byte(files[1])); err == nil || !strings.HasPrefix(err.Error(), "/etc/containers/registries.conf: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if reasons, err := DrainReasons(nil, nil); len(reasons) > 0 || err != nil {
		t.Errorf("no files: got %v, %v", reasons, err)
	}
}
