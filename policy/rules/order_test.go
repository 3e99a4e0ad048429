package rules

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestOrderNotes: the order of mirrors is told where it comes from several objects and the change makes it another.
func TestOrderNotes(t *testing.T) {
	const source = "quay.io/shop"
	old := []mirrors.Object{idms("m", source, allow, "m.example.com/shop"), itms("tags", source, allow, "a.example.com/shop")}
	for why, tt := range map[string]struct {
		put  mirrors.Object
		want string
	}{
		"in front":               {idms("n", source, allow, "b.example.com/shop"), "b.example.com/shop, m.example.com/shop; the first"},
		"behind":                 {idms("n", source, allow, "z.example.com/shop"), "m.example.com/shop, z.example.com/shop; z.example.com/shop is behind others"},
		"in front, as it asks":   {idms("a", source, allow, "z.example.com/shop", "m.example.com/shop"), "z.example.com/shop, m.example.com/shop; the first"},
		"in both":                {idms("n", source, allow, "m.example.com/shop"), ""},
		"the other kind of pull": {itms("n", source, allow, "z.example.com/shop"), "a.example.com/shop, z.example.com/shop"},
		"another source":         {idms("n", "quay.io/other", allow, "b.example.com/shop"), ""},
		"one object has it all":  {idms("m", source, allow, "b.example.com/shop", "m.example.com/shop"), ""},
		"no mirror of its own":   {idms("n", source, allow, source), ""},
	} {
		before := set(old...)
		notes := newPlan(policy.Change{Before: before, After: mirrors.Put(tt.put).Apply(before)}, plan.Cluster{}, settings.Settings{}).OrderNotes()
		if len(notes) > 1 || strings.Join(notes, "") == "" != (tt.want == "") || !strings.Contains(strings.Join(notes, ""), tt.want) {
			t.Errorf("%s: got %q, want %q", why, notes, tt.want)
		}
	}
}
