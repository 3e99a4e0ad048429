package policy

import (
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

func TestRejectedByMCO(t *testing.T) {
	testTurns(t, []turn{
		{"conflicting policies", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), tag, nil, Settings{}, "deny RejectedByMCO"},
		{"conflict mended", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local")), tag, facts("quay.io/x:1 present"), Settings{}, "warn RejectedByMCO"},
		{"conflict untouched by another change", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local"), itms("c", "other.io", allow, "m.local")), tag, nil, Settings{}, "warn RejectedByMCO"},
		{"a conflict stays, and what would come of the change is worse", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local"), itms("c", "quay.io/x", never, "n.local/x")), tag, facts("m.local/x:1 present", "n.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny MirrorHidden, warn RejectedByMCO"},
		{"malformed reference", set(), set(itms("a", "quay.io", allow, "m.local")), "Quay.io/X:1", nil, Settings{}, "warn MalformedReference"},
	})
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
		return mirrors.Put(itms(fmt.Sprintf("crowd%d", i), source, allow, configv1.ImageMirror(fmt.Sprintf("m%d.local", i))))(set(crowd...))
	}
	first, last := 0, len(crowd)-1
	large, other := itms("large", "quay.io", allow, many...), itms("other", "other.io", allow, many...)
	testTurns(t, []turn{
		{"new", set(), set(large), tag, nil, Settings{}, "deny Unverified"},
		{"in force, and another beside it", set(large), set(large, itms("b", "quay.io/x", never, "n.local/x")), tag, facts("n.local/x:1 absent"), Settings{}, "deny Unverified"},
		{"made smaller, with a mirror that lacks the image", set(large), set(itms("large", "quay.io", never, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny NotFullySynced, warn Unverified"},
		{"made smaller", set(large), set(itms("large", "quay.io", never, "m.local")), tag, facts("m.local/x:1 present"), Settings{}, "warn Unverified"},
		{"one of two taken away", set(large, other), set(other), tag, nil, Settings{}, "warn Unverified"},
		{"one of two made smaller", set(large, other), set(itms("large", "quay.io", allow, many[1:9]...), other), tag, nil, Settings{}, "warn Unverified"},
		{"one of two made smaller, with another mirror", set(large, other), set(itms("large", "quay.io", allow, "n.local"), other), tag, nil, Settings{}, "deny Unverified"},
		{"one of two made smaller, and blocked", set(large, other), set(itms("large", "quay.io", never, many[1:9]...), other), tag, nil, Settings{}, "deny Unverified"},
		{"one of a crowd made smaller", set(crowd...), shorter(first), tag, nil, Settings{}, "warn Unverified"},
		{"one of a crowd made smaller, beyond what is compared", set(crowd...), shorter(last), tag, nil, Settings{}, "deny Unverified"},
		{"one of a crowd taken away", set(crowd...), set(crowd[:last]...), tag, nil, Settings{}, "warn Unverified"},
		{"taken away", set(large), set(), tag, nil, Settings{}, "warn Unverified"},
	})
	testText(t, turn{"new", set(), set(large), tag, nil, Settings{}, "deny Unverified"}, `ImageTagMirrorSet a is refused: the merged configuration is larger than what can be judged.
- Unverified: source "quay.io" has 257 mirrors, more than can be judged (256)
To do: shorten what is named above, or take it away.
`)
}

func TestRejectedByMCOText(t *testing.T) {
	testText(t, turn{"conflicting policies", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), tag, nil, Settings{}, "deny RejectedByMCO"}, `ImageTagMirrorSet a is refused: the Machine Config Operator would reject the merged configuration and silently stop applying mirror changes.
- RejectedByMCO: source "quay.io" is NeverContactSource in ImageTagMirrorSet b but AllowContactingSource in ImageDigestMirrorSet a
To do: correct what is named above, then try again.
`)
}
