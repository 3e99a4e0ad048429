package snapshot

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func partsOf(text string) []part {
	var parts []part
	for p := range yamlParts(bufio.NewReader(strings.NewReader(text)), 1, new(reader).isOfUse) {
		parts = append(parts, p)
	}
	return parts
}

func TestObjectsOfNoUseAreNotParsed(t *testing.T) {
	text := "apiVersion: v1\nitems:\n- apiVersion: v1\n  involvedObject:\n    kind: Pod\n  kind: Event\n  reason: {this is not even YAML\n" +
		"- kind: Pod\n  metadata: {name: a}\nkind: List\n---\nkind: Event\nreason: {\n"
	want := []part{
		{document: 1, item: 1, kind: "Event"},
		{document: 1, item: 2, data: []byte(`{"kind":"Pod","metadata":{"name":"a"}}`)},
		{document: 1, data: []byte(`{"apiVersion":"v1","kind":"List"}`)},
		{document: 2, kind: "Event"},
	}
	if diff := cmp.Diff(want, partsOf(text), cmp.AllowUnexported(part{}, header{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzYAMLParts holds the splitting by lines to the parser: the items of a list
// that can be read as a whole are the same when read one by one.
func FuzzYAMLParts(f *testing.F) {
	for _, text := range []string{
		podYAML,
		"apiVersion: v1\nitems:\n- a: 1\n  b: |\n    - c\n- d: [1,\n  2]\nkind: List\n",
		"items:\n\n  # c\n  - a: \"x\n    y\"\n  -\n    b: 1\nkind: List\n",
		"items:\n- - a\n  - b\n- 'c'\n-\nmetadata: {}\n",
		"items: []\n", "items:\n", "items:\nkind: x\n", "items:\n- a\n# c\n\n- b", "a:\n  items:\n  - b\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts := partsOf(text)
		if strings.ContainsAny(text, "&*%\r\t") || strings.Contains(text, "---") || strings.Contains(text, "...") || strings.Contains(text, "kind: ") {
			return // aliases and directives are not for lists of objects; skipping and documents have tests of their own
		}
		if breaksLines(text) {
			return
		}
		whole, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		var list struct {
			Items []any `json:"items"`
		}
		if err := json.Unmarshal(whole, &list); err != nil {
			return
		}
		if len(parts) <= 1 {
			return // read as a whole
		}
		var items []any
		for _, p := range parts[:len(parts)-1] {
			if p.err != nil {
				t.Fatalf("item %d: %v", p.item, p.err)
			}
			var item any
			if err := json.Unmarshal(p.data, &item); err != nil {
				t.Fatalf("item %d: %v", p.item, err)
			}
			items = append(items, item)
		}
		if diff := cmp.Diff(list.Items, items); diff != "" {
			t.Errorf("-whole +by lines:\n%s", diff)
		}
	})
}

// breaksLines reports whether a quoted text or a bracket may go on in the next
// line. It must be indented there by the specification (YAML 1.2, 7.3 and 7.4),
// but the parser takes it in the first column, too, where it looks like the end
// of a list. No tool writes that.
func breaksLines(text string) bool {
	for line := range strings.Lines(text) {
		if strings.Count(line, "'")%2 != 0 || strings.Count(line, `"`)%2 != 0 ||
			strings.Count(line, "[") != strings.Count(line, "]") || strings.Count(line, "{") != strings.Count(line, "}") {
			return true
		}
	}
	return false
}
