package rules

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

func TestRejectedByMCO(t *testing.T) {
	testDecisions(t, []decision{
		{"conflicting policies", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), tag, nil, settings.Settings{}, "deny RejectedByMCO"},
		{"conflict mended", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local")), tag, facts("quay.io/x:1 present"), settings.Settings{}, "warn RejectedByMCO"},
		{"conflict untouched by another change", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local"), itms("c", "other.io", allow, "m.local")), tag, nil, settings.Settings{}, "warn RejectedByMCO"},
		{"a conflict stays, and what would come of the change is worse", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local"), itms("c", "quay.io/x", never, "n.local/x")), tag, facts("m.local/x:1 present", "n.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{}, "deny MirrorHidden, warn RejectedByMCO"},
		{"a conflict, and one side loses a party", conflict("b", "c", "d"), conflict("b", "d"), tag, nil, settings.Settings{}, "warn RejectedByMCO"},
		{"a conflict, and a party comes over to the other side", conflict("b", "c", "d"), conflict("b", "C", "d"), tag, nil, settings.Settings{}, "warn RejectedByMCO"},
		{"a conflict, and the last of one side comes over", conflict("b", "D"), conflict("B", "D"), tag, facts("m.local/x:1 present", "quay.io/x:1 present"), settings.Settings{}, "warn RejectedByMCO"},
		{"a conflict gets a party on the one side", conflict("b", "d"), conflict("b", "c", "d"), tag, nil, settings.Settings{}, "deny RejectedByMCO"},
		{"a conflict gets a party on the other side", conflict("b", "d"), conflict("b", "C", "d"), tag, nil, settings.Settings{}, "deny RejectedByMCO"},
		{"one conflict ends, and another one begins", conflict("b"), set(itms("x", "other.io", allow, "m.local"), itms("y", "other.io", never, "m.local")), tag, nil, settings.Settings{}, "deny RejectedByMCO"},
		{"another policy, by the order that the remedy names: beside the old one, as it is", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), idms("b", "quay.io", allow, "m.local")), dig, nil, settings.Settings{}, ""},
		{"then without it", set(idms("a", "quay.io", allow, "m.local"), idms("b", "quay.io", allow, "m.local")), set(idms("b", "quay.io", allow, "m.local")), dig, nil, settings.Settings{}, ""},
		{"then with the other policy", set(idms("b", "quay.io", allow, "m.local")), set(idms("b", "quay.io", never, "m.local")), dig, facts("m.local/x" + digestA + " present"), settings.Settings{}, ""},
		{"malformed reference", set(), set(itms("a", "quay.io", allow, "m.local")), "Quay.io/X:1", nil, settings.Settings{}, "warn MalformedReference"},
	})
}

// conflict returns a set in which quay.io is AllowContactingSource in a, and in the
// objects with a small letter, but NeverContactSource in a0 and those with a capital one.
func conflict(names ...string) mirrors.Set {
	s := set(itms("a", "quay.io", allow, "m.local"), itms("a0", "quay.io", never, "m.local"))
	if len(names) > 0 && names[len(names)-1] == "D" { // then a and a0 take no part
		s = set()
	}
	for _, name := range names {
		policy := allow
		if strings.ToUpper(name) == name {
			policy = never
		}
		s = mirrors.Put(itms(strings.ToLower(name), "quay.io", policy, "m.local")).Apply(s)
	}
	return s
}

// longSources renders to a large file: n sources of the given length.
func longSources(n, length int) mirrors.Object {
	o := itms("many", "quay.io", allow).(*configv1.ImageTagMirrorSet)
	o.Spec.ImageTagMirrors = nil
	for i := range n {
		path := fmt.Sprintf("/%0*d", length, i)
		o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{
			Source: "quay.io" + path, Mirrors: []configv1.ImageMirror{configv1.ImageMirror("m.local" + path)},
		})
	}
	return o
}

// TestTooLarge: what does not fit into a MachineConfig stops pools for good.
func TestTooLarge(t *testing.T) {
	other := itms("other", "other.io", allow, "m.local")
	testDecisions(t, []decision{
		{"it fits", set(), set(longSources(400, 800)), tag, nil, settings.Settings{}, ""},
		{"it does not", set(), set(longSources(500, 800)), tag, nil, settings.Settings{}, "deny RejectedByMCO"},
		{"made larger", set(longSources(500, 800)), set(longSources(500, 800), other), tag, nil, settings.Settings{}, "deny RejectedByMCO"},
		{"made smaller, not enough", set(longSources(700, 800)), set(longSources(600, 800)), tag, nil, settings.Settings{}, "warn RejectedByMCO"},
		{"made smaller, with a mirror that lacks the image", set(longSources(700, 800)), set(longSources(600, 800), itms("bad", "quay.io/x", never, "m.local/x")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{}, "deny NotFullySynced, warn RejectedByMCO"},
		{"made to fit", set(longSources(500, 800)), set(longSources(400, 800)), tag, nil, settings.Settings{}, "warn RejectedByMCO"},
	})
}

// TestManyReasons: a denial lists as many as fit on a screen.
func TestManyReasons(t *testing.T) {
	var before, after []mirrors.Object
	for i := range 12 {
		source := fmt.Sprintf("quay.io/%02d", i)
		before = append(before, itms(fmt.Sprintf("a%02d", i), source, allow, "m.local"))
		after = append(after, itms(fmt.Sprintf("b%02d", i), source, never, "m.local"))
	}
	v := Decide(shallow(policy.Change{Before: set(before...), After: set(append(before, after...)...)}, nil, settings.Settings{}), nil)
	message := words.Refusal(v, "12 objects")
	if n := strings.Count(message, "\n- "); n != 11 || !strings.Contains(message, "\n- and 2 more\n") {
		t.Errorf("%d lines of reasons:\n%s", n, message)
	}
}

// TestTooMuchToJudge: MCO may well apply what the guard cannot judge, so that it is
// refused even where it is in force.
func TestTooMuchToJudge(t *testing.T) {
	many := make([]configv1.ImageMirror, mirrors.MaxMirrors+1)
	for i := range many {
		many[i] = configv1.ImageMirror(fmt.Sprintf("m%d.local", i))
	}
	const source = "crowd.io"
	crowd := make([]mirrors.Object, mirrors.MaxMirrors+2)
	for i := range crowd {
		crowd[i] = itms(fmt.Sprintf("crowd%d", i), source, allow, configv1.ImageMirror(fmt.Sprintf("m%d.local", i)), configv1.ImageMirror(fmt.Sprintf("n%d.local", i)))
	}
	shorter := func(i int) mirrors.Set {
		return mirrors.Put(itms(fmt.Sprintf("crowd%d", i), source, allow, configv1.ImageMirror(fmt.Sprintf("m%d.local", i)))).Apply(set(crowd...))
	}
	first, last := 0, len(crowd)-1
	large, other := itms("large", "quay.io", allow, many...), itms("other", "other.io", allow, many...)
	testDecisions(t, []decision{
		{"new", set(), set(large), tag, nil, settings.Settings{}, "deny Unverified"},
		{"in force, and another beside it", set(large), set(large, itms("b", "quay.io/x", never, "n.local/x")), tag, facts("n.local/x:1 absent"), settings.Settings{}, "deny Unverified"},
		{"made smaller, with a mirror that lacks the image", set(large), set(itms("large", "quay.io", never, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{}, "deny NotFullySynced, warn Unverified"},
		{"made smaller", set(large), set(itms("large", "quay.io", never, "m.local")), tag, facts("m.local/x:1 present"), settings.Settings{}, "warn Unverified"},
		{"one of two taken away", set(large, other), set(other), tag, nil, settings.Settings{}, "warn Unverified"},
		{"one of two made smaller", set(large, other), set(itms("large", "quay.io", allow, many[1:9]...), other), tag, nil, settings.Settings{}, "warn Unverified"},
		{"one of two made smaller, with another mirror", set(large, other), set(itms("large", "quay.io", allow, "n.local"), other), tag, nil, settings.Settings{}, "deny Unverified"},
		{"one of two made smaller, and blocked", set(large, other), set(itms("large", "quay.io", never, many[1:9]...), other), tag, nil, settings.Settings{}, "deny Unverified"},
		{"one of a crowd made smaller", set(crowd...), shorter(first), tag, nil, settings.Settings{}, "warn Unverified"},
		{"one of a crowd made smaller, beyond what is compared", set(crowd...), shorter(last), tag, nil, settings.Settings{}, "deny Unverified"},
		{"one of a crowd taken away", set(crowd...), set(crowd[:last]...), tag, nil, settings.Settings{}, "warn Unverified"},
		{"one of two taken away, and a policy comes", set(large, other), withPolicies(other, signedBy(release, "quay.io")), tag, nil, settings.Settings{}, "deny Unverified"},
		{"one of two taken away, and CAs", trusting(set(large, other), "old", "quay.io", "A"), set(other), tag, nil, settings.Settings{}, "deny Unverified"},
		{"one of two taken away, and pins come", set(large, other), withPolicies(other, pinSet("a", "worker", 1)), tag, nil, settings.Settings{}, "deny Unverified, warn PinnedImageMissing"},
		{"taken away", set(large), set(), tag, nil, settings.Settings{}, "warn Unverified"},
	})
}
