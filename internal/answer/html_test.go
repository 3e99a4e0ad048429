package answer

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestHTML: each kind of block is there with its text, of which nothing is markup; and sections are there once, the last one at the end.
func TestHTML(t *testing.T) {
	a := sample()
	a.Add(Printed{Paragraphf("on a screen alone")}, Section{ID: "rest", Title: hostile, Last: true}, Table{ID: "rows", Anchor: "row", Title: hostile, Head: []string{"N"}, Rows: [][]Line{Row("1,000")}},
		Drawn{Blocks: func() []Block {
			return []Block{Figures{{Number: "3", Label: hostile, Link: "#rest"}}, Named{Name: "Mode", Value: hostile}, Grid{Title: hostile, Anchor: "row", Cells: []Cell{{hostile, hostile, Good}}}}
		}},
		Section{ID: "flow", Title: "Flow"}, Flow{Label: "Routes.", Edges: []Edge{{hostile, "mirror", hostile, []Count{{2, "missing", Bad}, {0, "blocked", Blocked}}}}},
		Section{ID: "rest"}, Paragraph{Code("skopeo copy " + hostile)}, List{ID: "empty", Title: "Nothing:"})
	out, err := a.HTML(Page{Requester: hostile, Whole: hostile})
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	counts, words, ids := map[string]int{}, "", []string{}
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			words += n.Data
		}
		counts[n.Data]++
		for _, attr := range n.Attr {
			if n.Data == "section" && attr.Key == "id" {
				ids = append(ids, attr.Val)
			}
		}
	}
	if counts["script"] != 1 || counts["style"] != 1 || counts["h1"] != 1 || counts["svg"] != 1 {
		t.Errorf("elements: %v", counts)
	}
	if got := strings.Join(ids, " "); got != "figures answer flow notes rest" {
		t.Errorf("sections: %s", got)
	}
	for _, want := range []string{
		"ImageTagMirrorSet apps is refused: " + safeText, "Found: it.", "Deployment shop/cart (app)", "mirror.example.com/shop/cart:v1: 404", "skopeo copy a b", "1. drain " + safeText, "it waits", "✕ degraded", "a\n  b",
		"asked without credentials", "It was asked.", "✕ 2 missing", "skopeo copy x|`y`", "✓ " + safeText,
	} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if !strings.Contains(words, "The answer 2 findings") || strings.Contains(words, "on a screen alone") || !strings.Contains(a.String(), "on a screen alone") {
		t.Errorf("findings are not counted, or what is printed is shown:\n%s", words)
	}
	if strings.ContainsAny(out, "\x1b\x00") || strings.Contains(out, "ZgotmplZ") {
		t.Errorf("it has what does not print:\n%s", out)
	}
}

// TestHTMLIsBounded: texts of any length, of any number, make no larger page, and what is left out is counted.
func TestHTMLIsBounded(t *testing.T) {
	long := strings.Repeat("<", 10_000)
	a := &Answer{Verdict: long, Subject: long, Headline: long, Lead: []Line{Say(long)}, Notes: []string{long}}
	var found Findings
	for range 2000 {
		found = append(found, Finding{Rule: long, Subject: long, Reason: long, Users: []string{long}, Detail: []string{long, long}, Remedy: []string{long}})
		a.Add(List{Title: long, Items: Bullets([]string{long})}, Paragraph{Say(long)}, Verbatim(long), Table{Title: long, Head: []string{"A"}, Rows: [][]Line{Row(long)}})
	}
	a.Blocks = append([]Block{found}, a.Blocks...)
	out, err := a.HTML(Page{Whole: "all of it"})
	if err != nil || len(out) > MaxPage || strings.Count(out, " more are left out here") < 2 || !strings.Contains(out, "<code>all of it</code> has all of them") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
