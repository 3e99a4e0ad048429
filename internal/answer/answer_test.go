package answer

import (
	"encoding/xml"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// hostile is what a tenant may call an image, an object or a container.
const hostile = "x|`y`</code></details><script>@team [a](https://evil.example.com) **b**\n# c\x1b[31m"

// sample has each kind of block, with hostile texts.
func sample() *Answer {
	a := &Answer{
		Verdict: "Denied", Tone: Bad, Subject: "ImageTagMirrorSet apps", Headline: "ImageTagMirrorSet apps is refused: " + hostile,
		Lead: []Line{Say("Found: it.")}, Notes: []string{"asked without credentials"}, Basis: []string{"It was asked."},
	}
	a.Add(Findings{
		{
			Rule: "ImageMissing", Severity: "deny", Tone: Bad, Subject: "quay.io/shop/cart:v1", Users: []string{"Deployment shop/cart (app)"},
			Reason: "no mirror has the image", Detail: []string{"mirror.example.com/shop/cart:v1: 404"}, Remedy: []string{"skopeo copy a b"},
		},
		{Rule: "NoEffect", Severity: "warn", Tone: Caution, Reason: "the entry changes nothing: " + hostile, Detail: []string{"```", hostile}},
	}, List{Title: "To copy:", Items: Commands([]string{"skopeo copy `a`"})}, List{Title: "Steps:", Items: []Item{{Mark: " 1.", Line: Say("drain " + hostile), Below: Indented([]string{"it waits"})}}},
		List{Title: "Assumed:", Items: Bullets([]string{hostile}), Folded: true}, List{Title: "Nothing:"}, Paragraphf("%s", hostile),
		Table{Head: []string{"POOL", "STATE"}, Rows: [][]Line{Row("worker", "updated"), {Say(hostile), {{Text: "degraded", Tone: Bad}}}}}, Verbatim("a\n  b\n"))
	return a
}

const safeText = "x|`y`</code></details><script>@team [a](https://evil.example.com) **b** # c[31m"

// TestText: the whole text. Nothing of a hostile text is another line.
func TestText(t *testing.T) {
	want := `ImageTagMirrorSet apps is refused: ` + safeText + `
Found: it.

1. quay.io/shop/cart:v1
   used by Deployment shop/cart (app)
   ImageMissing: no mirror has the image
   - mirror.example.com/shop/cart:v1: 404
   To do: skopeo copy a b

Warnings:

1. the configuration as a whole
   NoEffect: the entry changes nothing: ` + safeText + "\n   - ```\n   - " + safeText + "\n" + `
To copy:
- skopeo copy ` + "`a`" + `

Steps:
 1. drain ` + safeText + `
    it waits

Assumed:
- ` + safeText + `

` + safeText + `

POOL` + strings.Repeat(" ", len(safeText)-2) + `STATE
worker` + strings.Repeat(" ", len(safeText)-4) + `updated
` + safeText + `  degraded

a
  b

Note: asked without credentials

It was asked.
`
	if diff := cmp.Diff(want, sample().String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestColours: colours are added, and no letter changes.
func TestColours(t *testing.T) {
	out := sample().Text(Look{Colours: true})
	for _, want := range []string{"\x1b[1;31mImageTagMirrorSet apps is refused", "\x1b[31mImageMissing\x1b[0m:", "\x1b[33mNoEffect\x1b[0m:", "\x1b[1;33mWarnings:\x1b[0m", "\x1b[36mTo do:\x1b[0m skopeo", "\x1b[31mdegraded\x1b[0m", "\x1b[1mPOOL\x1b[0m"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if got := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(out, ""); got != sample().String() {
		t.Errorf("without colours it says\n%s", got)
	}
}

// TestWidth: what has no room on its line goes on below it, and what people copy is never broken.
func TestWidth(t *testing.T) {
	a := &Answer{Headline: "h"}
	a.Add(List{Title: "t", Items: []Item{{Mark: "-", Line: Line{{Text: "aaa bbb"}, {Text: " ccc", Tone: Good}}, Below: Indented([]string{"dddd eeee"})}, {Line: Code("ffff gggg hhhh")}}})
	if diff := cmp.Diff("h\n\nt\n- aaa bbb\n  ccc\n  dddd\n    eeee\n  ffff gggg hhhh\n", a.Text(Look{Width: 10})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMarkdown: the whole text, with names that mean something to Markdown where they mean nothing.
func TestMarkdown(t *testing.T) {
	const escaped = "x&#124;&#96;y&#96;&lt;/code&gt;&lt;/details&gt;&lt;script&gt;@<!-- -->team &#91;a&#93;(https://evil.example.com) &#42;&#42;b&#42;&#42; # c&#91;31m"
	want := "### Denied: ` ImageTagMirrorSet apps `\n" + `
ImageTagMirrorSet apps is refused: ` + escaped + `

Found: it.

> asked without credentials

|  | rule | image | reason |
|---|---|---|---|
| deny | ImageMissing | ` + "` quay.io/shop/cart:v1 `" + ` | no mirror has the image |
| warn | NoEffect |  | the entry changes nothing: ` + escaped + ` |

To copy:

- ` + "`` skopeo copy `a` ``" + `

Steps:

- drain ` + escaped + `
  - it waits

` + escaped + `

| POOL | STATE |
|---|---|
| worker | updated |
| ` + escaped + ` | degraded |

` + "```text\na\n  b\n```" + `

<details><summary>ImageMissing: <code>quay.io/shop/cart:v1</code></summary>

` + "```text" + `
used by Deployment shop/cart (app)
ImageMissing: no mirror has the image
- mirror.example.com/shop/cart:v1: 404
To do: skopeo copy a b
` + "```" + `

</details>

<details><summary>NoEffect: <code>the configuration as a whole</code></summary>

` + "````text\nNoEffect: the entry changes nothing: " + safeText + "\n- ```\n- " + safeText + "\n````" + `

</details>

<details><summary>Assumed</summary>

` + "```text\n- " + safeText + "\n```" + `

</details>
`
	if diff := cmp.Diff(want, sample().Markdown()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMarkdownIsBounded: a comment of GitHub's has at most 65,536 characters.
func TestMarkdownIsBounded(t *testing.T) {
	long := strings.Repeat("&|`", 1<<14)
	a := &Answer{Verdict: "Denied", Subject: long, Headline: long, Lead: []Line{Say(long), Code(long)}, Notes: []string{long, long}}
	var many Findings
	var lines []string
	for range 1000 {
		many, lines = append(many, Finding{Rule: "ImageMissing", Subject: long, Reason: long, Detail: []string{long, long}, Remedy: []string{long}}), append(lines, long)
	}
	for _, blocks := range [][]Block{{many, List{Title: long, Items: Bullets(lines)}}, {List{Title: long, Items: Commands(lines)}, many}, {List{Title: long, Items: Bullets(lines), Folded: true}, Paragraph{Say(long)}, Verbatim(long), many}} {
		a.Blocks = blocks
		if got := a.Markdown(); len(got) > 65_536 || !strings.Contains(got, " more findings.") || strings.Count(got, "<details>") != strings.Count(got, "</details>") {
			t.Errorf("%d bytes", len(got))
		}
	}
}

// TestJUnit: what is refused is a failure, and everything else output, by which nothing can be forged.
func TestJUnit(t *testing.T) {
	a := sample()
	found := a.Blocks[0].(Findings)
	a.Cases = slices.Values([]Case{CaseOf("image", "quay.io/shop/cart:v1", found[:1]), CaseOf("configuration", hostile, found[1:])})
	got, err := a.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(got), &suite); err != nil || suite.Failures != 1 || suite.Tests != 2 {
		t.Fatalf("%v: %s", err, got)
	}
	denied, warned := suite.Cases[0], suite.Cases[1]
	if denied.Failure == nil || denied.Failure.Type != "ImageMissing" || denied.Failure.Message != "no mirror has the image" || !strings.Contains(denied.Failure.Text, "To do: skopeo copy a b\n") || denied.Output != "Note: asked without credentials\n" {
		t.Errorf("got %s", got)
	}
	if warned.Failure != nil || warned.Name != safeText || !strings.Contains(warned.Output, "NoEffect: the entry") {
		t.Errorf("got %s", got)
	}
	if strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("got %q", got)
	}
}
