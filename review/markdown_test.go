package review

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// hostile is what a tenant may call an image, an object or a container.
const hostile = "x|`y`</code></details><script>@team [a](https://evil.example.com) **b**\n# c\x1b[31m"

func markdown(t *testing.T, r Record) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestMarkdown: the whole text, with names that mean something to Markdown where they mean nothing.
func TestMarkdown(t *testing.T) {
	r := Record{Subject: "ImageTagMirrorSet apps", Notes: []string{"asked without credentials"}}
	r.Verdict.Counts = policy.Counts{Total: 4, Rerouted: 2, Verified: 1, Unverified: 0}
	r.Verdict.Findings = []policy.Finding{
		{
			Rule: "ImageMissing", Severity: policy.Deny, Image: policy.Image{Ref: "quay.io/shop/cart:v1", Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app"}}},
			Reason: "no mirror has the image", Detail: []string{"mirror.example.com/shop/cart:v1: 404"}, Remedy: []string{"skopeo copy a b"},
		},
		{Rule: "NoEffect", Severity: policy.Warn, Reason: "the entry changes nothing: " + hostile, Detail: []string{"```", hostile}},
	}
	want := "### Denied: ` ImageTagMirrorSet apps `\n" + `
2 of 4 images change their route: 1 verified, 0 not verified.

> asked without credentials

| | rule | image | reason |
|---|---|---|---|
| deny | ImageMissing | ` + "` quay.io/shop/cart:v1 `" + ` | no mirror has the image |
| warn | NoEffect |  | the entry changes nothing: x&#124;&#96;y&#96;&lt;/code&gt;&lt;/details&gt;&lt;script&gt;@<!-- -->team &#91;a&#93;(https://evil.example.com) &#42;&#42;b&#42;&#42; # c&#91;31m |

<details><summary>ImageMissing: <code>quay.io/shop/cart:v1</code></summary>

` + "```text" + `
used by Deployment shop/cart (app)
mirror.example.com/shop/cart:v1: 404

To do:
skopeo copy a b
` + "```" + `

</details>

<details><summary>NoEffect: <code>the configuration</code></summary>

` + "````text\n```\n" + "x|`y`</code></details><script>@team [a](https://evil.example.com) **b**\n# c[31m\n````" + `

</details>
`
	if diff := cmp.Diff(want, markdown(t, r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMarkdownIsBounded: a comment of GitHub's has at most 65,536 characters.
func TestMarkdownIsBounded(t *testing.T) {
	r := Record{Subject: strings.Repeat("s", 1<<20)}
	long := strings.Repeat("&|`", 1<<18)
	for range 1000 {
		r.Verdict.Findings = append(r.Verdict.Findings, policy.Finding{
			Rule: "ImageMissing", Image: policy.Image{Ref: long}, Reason: long, Detail: []string{long, long}, Remedy: []string{long},
		})
	}
	if got := markdown(t, r); len(got) > 65_536 || !strings.Contains(got, " more findings.") || strings.Count(got, "<details>") != strings.Count(got, "</details>") {
		t.Errorf("%d bytes:\n%s", len(got), got)
	}
}
