package manual

import (
	"strings"
	"testing"
)

// TestMistakesAreFound: what this package is for. Each page has one mistake, and a word of what is said
// about it.
func TestMistakesAreFound(t *testing.T) {
	for _, tt := range []struct{ name, page, want string }{
		{"a block without a mark", "```\nmirrorset-guard check -f x.yaml\n```", "a test runs it"},
		{"an indented block, likewise", "Text:\n\n    $ oc get pods\n    NAME\n", "a test runs it"},
		{"a block that is no command", "```text\na -> b\n```", "a test runs it"},
		{"a mark further up", "<!-- run: shop -->\n\nText.\n\n```\noc get pods\n```", "a test runs it"},
		{"a mark without a reason", "<!-- not run -->\n```\noc get pods\n```", "a test runs it"},
		{"a world that does not exist", "<!-- run: nowhere -->\n```\noc get pods\n```", `no world "nowhere"`},
		{"a test that does not exist", "<!-- run: test/demo TestNothing -->\n```\nmake demo\n```", "no test TestNothing in test/demo"},
		{"a part that is not said", "<!-- run: shop; not run: laziness -->\n```\noc get pods\n```", "say which commands"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks := Read("docs/x.md", []byte(tt.page)).Blocks
			if len(blocks) != 1 {
				t.Fatalf("%d blocks", len(blocks))
			}
			if got := blocks[0].problem(); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLinksThatLeadNowhere(t *testing.T) {
	anchors := map[string][]string{"docs/cli.md": {"check"}, "docs/tls.md": {"here"}}
	for link, want := range map[string]string{
		"cli.md": "", "cli.md#check": "", "#here": "", "../test/rollout": "", "https://example.com/x": "",
		"none.md": "no such file", "cli.md#none": "no heading", "#none": "no heading", "../../../etc/passwd": "no such file",
		"http://example.com": "https", "mailto:x": "https", "%zz": "invalid",
	} {
		got := problemOf(Page{Path: "docs/tls.md"}, link, anchors)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", link, got, want)
		}
	}
}

func TestDocumentsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"mode: wrong": "mode",
		"apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\nmod: warn\n": "mod",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {container: []}\n":               "container",
		"apiVersion: example.com/v1\nkind: Thing\n":                                             "nothing that this test could read",
		"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: x}\nspec: {imageTagMirrors: [{source: quay.io/x, mirrors: [m.example.com/x], polcy: x}]}\n": "polcy",
		"apiVersion: v1\nkind: Config\nuserz: []\n": "userz",
		"a: 1\na: 2\n": "a",
	} {
		if err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestWhatIsTyped: the commands of a block, as a shell would run them.
func TestWhatIsTyped(t *testing.T) {
	blocks := Read("x.md", []byte("```\nfor pod in $(oc get pods -o name); do\n  echo $pod; oc get --raw \"/x/${pod#pod/}\" |\n    grep 'a b' > out\ndone\noc apply -f - <<EOF\nkind: X\nEOF\n```\n")).Blocks
	commands, err := blocks[0].Commands()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range commands {
		got = append(got, c.String())
	}
	const want = "x.md:2: oc get pods -o name|x.md:3: echo $pod|x.md:3: oc get --raw /x/${pod#pod/}|x.md:4: grep a b|x.md:6: oc apply -f -"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestElisions(t *testing.T) {
	got := []string{"a", "b", "c", ""}
	for shown, same := range map[string]bool{"a b c": true, "a ... c": true, "...": true, "a b c ...": true, "... c": true, "a": false, "a ... b": false, "b c": false, "a c": false} {
		if problem := differ(strings.Fields(shown), got); (problem == "") != same {
			t.Errorf("%s: %q", shown, problem)
		}
	}
}
