package changefile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFind: a source is found where it stands, in whatever way it is written.
func TestFind(t *testing.T) {
	const set = "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: %s}\nspec:\n  imageTagMirrors:\n"
	shop := fmt.Sprintf(set, "shop")
	for _, tc := range []struct {
		reason, text, scope string
		want                []string
	}{
		{"plain", shop + "  - mirrors: [quay.io/a]\n    source: quay.io/a\n", "quay.io/a", []string{"ImageTagMirrorSet shop f 7:13-22"}},
		{"in quotes", shop + `  - {source: "quay.io/a", mirrors: [m.example.com/a]}` + "\n", "quay.io/a", []string{"ImageTagMirrorSet shop f 6:14-25"}},
		{"characters of several bytes", shop + "  - {mirrors: [m.example.com/a], source: quay.io/a} # ü\n", "quay.io/a", []string{"ImageTagMirrorSet shop f 6:42-51"}},
		{"not there", shop + "  - {source: quay.io/a, mirrors: [m.example.com/a]}\n", "m.example.com/a", nil},
		{"two documents", "# ü\n---\n" + shop + "  - {source: quay.io/b, mirrors: [m.example.com/a]}\n--- # next\n\n" + fmt.Sprintf(set, "other") + "  - source: quay.io/a\n", "quay.io/a", []string{"ImageTagMirrorSet other f 16:13-22"}},
		{
			"both objects of a list", "kind: List\napiVersion: v1\nitems:\n- " + strings.ReplaceAll(shop, "\n", "\n  ") + "  - source: quay.io/a\n- " + strings.ReplaceAll(fmt.Sprintf(set, "other"), "\n", "\n  ") + "  - source: quay.io/a\n",
			"quay.io/a",
			[]string{"ImageTagMirrorSet shop f 9:15-24", "ImageTagMirrorSet other f 15:15-24"},
		},
		{"JSON on one line", `{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"shop"},"spec":{"imageTagMirrors":[{"source":"quay.io/a"}]}}`, "quay.io/a", []string{"ImageTagMirrorSet shop f 1:131-142"}},
		{
			"JSON after JSON on a line", ` {"kind":"x","apiVersion":"v1"}{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"shop"},` + "\n\t" + `"spec":{"imageTagMirrors":[{"source":"quay.io/a"}]}}`,
			"quay.io/a",
			[]string{"ImageTagMirrorSet shop f 2:39-50"},
		},
		{"an anchor", shop + "  - {source: &a quay.io/a, mirrors: [m.example.com/a]}\n", "quay.io/a", []string{"ImageTagMirrorSet shop f 6:14-23"}},
		{"an alias", "x: &a quay.io/a\n" + shop + "  - {source: *a, mirrors: [m.example.com/a]}\n", "quay.io/a", []string{"ImageTagMirrorSet shop f 7:14"}},
		{"a registry list", "apiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {registrySources: {blockedRegistries: [quay.io]}}\n", "quay.io", []string{"Image cluster f 4:46-53"}},
		{"a scope of a policy", "apiVersion: config.openshift.io/v1\nkind: ClusterImagePolicy\nmetadata: {name: p}\nspec: {scopes: [quay.io/a]}\n", "quay.io/a", []string{"ClusterImagePolicy p f 4:17-26"}},
		{"after a byte order mark, for Windows", "\ufeff" + strings.ReplaceAll(shop, "\n", "\r\n") + "  - source: quay.io/a\r\n", "quay.io/a", []string{"ImageTagMirrorSet shop f 6:13-22"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var r Reader
			r.Read("f", strings.NewReader(tc.text))
			if diff := cmp.Diff(tc.want, texts(r.Find(tc.scope))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func texts(positions []Position) []string {
	var all []string
	for _, p := range positions {
		text := fmt.Sprintf("%s %s %d:%d", p.Object, p.File, p.Line, p.Column)
		if p.EndColumn > 0 {
			text += fmt.Sprintf("-%d", p.EndColumn)
		}
		all = append(all, text)
	}
	return all
}

// TestObjects: where they begin, also of those that are only named to be deleted, and of a text that the
// parser with positions rejects.
func TestObjects(t *testing.T) {
	r := Reader{Delete: true}
	r.Read("a", strings.NewReader("# which\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a}\n"))
	r.Read(StandardInput, strings.NewReader("kind: List\napiVersion: v1\nitems:\n- apiVersion: config.openshift.io/v1\n  kind: ImageTagMirrorSet\n  metadata: {name: b}\n"))
	if diff := cmp.Diff([]string{"ImageTagMirrorSet a a 2:1", "ImageTagMirrorSet b standard input 4:3"}, texts(r.Objects())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := texts(r.Objects("ImageTagMirrorSet b", "Image cluster")); len(got) != 1 {
		t.Errorf("by name: %q", got)
	}
	n := objectOrigin{object: "x", origin: origin{in: &document{file: "f", line: 3, column: 2, text: []byte("a: [")}}}
	if got := texts([]Position{n.position(n.node())}); got[0] != "x f 3:2" {
		t.Errorf("what cannot be parsed again: %q", got)
	}
}

// FuzzFind: whatever is read, a source that is found is there.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a}\nspec: {imageTagMirrors: [{source: quay.io/a}]}\n",
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","spec":{"imageTagMirrors":[{"source":"quay.io/a"}]}}]}`,
		"a: &a {kind: Image}\nb: *a\n---\n{}{}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r Reader
		r.Read("f", strings.NewReader(text))
		lines := strings.Count(text, "\n") + 1
		for _, p := range append(r.Find("quay.io/a"), r.Objects()...) {
			if p.Line < 1 || p.Line > lines || p.Column < 1 || p.EndColumn != 0 && p.EndColumn <= p.Column {
				t.Errorf("%+v of %d lines", p, lines)
			}
		}
	})
}
