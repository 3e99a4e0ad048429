package policy

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestManyPlaces: a denial names as many places as a person reads, a report all.
func TestManyPlaces(t *testing.T) {
	mirrors := make([]configv1.ImageMirror, 40)
	for i := range mirrors {
		mirrors[i] = configv1.ImageMirror(fmt.Sprintf("m%d.local", i))
	}
	plan := shallow(Change{set(), set(itms("a", "quay.io", never, mirrors...))}, []Image{{tag, running}}, Settings{})
	verdict := plan.Decide(nil)
	text := verdict.Message("ImageTagMirrorSet a")
	if n := strings.Count(text, "not asked"); n != maxPlaces || !strings.Contains(text, "   - m9.local/x:1: not asked\n   - and 31 more places\n") {
		t.Errorf("%d places in\n%s", n, text)
	}
	if n := strings.Count(verdict.Report("ImageTagMirrorSet a"), "not asked"); n != 40 {
		t.Errorf("%d places in the report", n)
	}
}

// TestNoVerdict: a Verdict that nobody has decided refuses.
func TestNoVerdict(t *testing.T) {
	var v Verdict
	const want = "ImageTagMirrorSet a is refused because there is no verdict.\n\nNothing was changed. For the full list: mirrorset-guard check -f FILE"
	if got := v.Message("ImageTagMirrorSet a"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
