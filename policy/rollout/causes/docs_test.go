package causes

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestDocumented: the table in docs/diagnose.md has the causes that there are.
func TestDocumented(t *testing.T) {
	names := func(file, pattern string) []string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(data, -1) {
			names = append(names, string(m[1]))
		}
		slices.Sort(names)
		return names
	}
	is, documented := names("diagnosis.go", `Cause = "(\w+)"`), names("../../../docs/diagnose.md", "(?m)^\\| `([A-Z]\\w+)` \\|")
	if len(is) == 0 || !slices.Equal(is, documented) {
		t.Errorf("documented are %q, there are %q", documented, is)
	}
}
