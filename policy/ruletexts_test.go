package policy

import "testing"

// TestRuleTexts: every rule has a text, from which docs/rules.md is made.
func TestRuleTexts(t *testing.T) {
	if len(ruleTexts) != len(RuleIDs()) {
		t.Errorf("%d texts for %d rules", len(ruleTexts), len(RuleIDs()))
	}
	for _, id := range RuleIDs() {
		if text := TextOf(id); text.Severity == "" || text.Says == "" {
			t.Errorf("%s has no text", id)
		}
	}
}
