package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnreadGaps: of a dump that could not be read the advice is another one.
func TestUnreadGaps(t *testing.T) {
	change := Change{set(), set(itms("a", "quay.io", never, "m.local"))}
	gap := Gap{Source: "dump.yaml: document 2", Kind: "Pod", Detail: "reading Pod: no", Unread: true}
	decide := func(gaps ...Gap) Finding {
		return NewPlan(change, Cluster{Gaps: gaps}, Settings{}).Decide(nil).Findings[0]
	}
	got := decide(gap)
	want := Finding{
		Rule: InventoryStale, Severity: Deny,
		Reason: "not all objects could be read: the change may reroute images that are not known",
		Detail: []string{"dump.yaml: document 2: reading Pod: no"},
		Remedy: []string{"repair the documents that could not be read, or remove them from the dump, then try again"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if both := decide(gap, Gap{Source: "pods", Kind: "Pod", Detail: "out of reach"}); !strings.HasPrefix(both.Reason, "the inventory is out of date") {
		t.Errorf("beside a list that is out of date: %s", both.Reason)
	}
}
