package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestRuleTexts: every rule has a text, which is also its row in docs/design.md.
func TestRuleTexts(t *testing.T) {
	data, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(ruleTexts) != len(RuleIDs()) {
		t.Errorf("%d texts for %d rules", len(ruleTexts), len(RuleIDs()))
	}
	for _, id := range RuleIDs() {
		text := TextOf(id)
		if row := fmt.Sprintf("\n| %s | %s | %s |\n", id, text.Severity, text.Says); text.Says == "" || !strings.Contains(string(data), row) {
			t.Errorf("docs/design.md has no row%s", row)
		}
	}
}
