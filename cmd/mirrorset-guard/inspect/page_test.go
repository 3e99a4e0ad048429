package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestPages: check answers as a page, with the exit code that it has otherwise, and the page says
// who asks and of which cluster.
func TestPages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	files := map[string]string{"dump.yaml": dumpInForce, "odd.yaml": conflicting}
	code, stdout, stderr := check(t, files, "--from", "{dir}/dump.yaml", "-f", "{dir}/odd.yaml", "--for-user", "jane", "-o", "table", "-o", "html="+file)
	data, err := os.ReadFile(file)
	if err != nil || code != cli.ExitDenied {
		t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
	}
	sentence, _, _ := strings.Cut(stdout, "\n")
	for _, want := range []string{"<!DOCTYPE html>", ">Denied: ", "<h1>" + sentence + "</h1>", "RejectedByMCO", "<dd>jane</dd>", "dump.yaml</dd>", "<dd>1: would be denied</dd>"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("check: %q is not in\n%s", want, data)
		}
	}
}

// TestFileBeside: a document is written to a file beside what is printed, and standard output is the same as without.
func TestFileBeside(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", inventoryDump)
	for _, args := range []string{"inventory --from " + dump, "explain quay.io/shop/cart:v1 --from " + dump} {
		file := filepath.Join(t.TempDir(), "document.json")
		plain, both := invoke(t, "", strings.Fields(args)...), invoke(t, "", append(strings.Fields(args), "-o", "table", "-o", "json="+file)...)
		data, err := os.ReadFile(file)
		if err != nil || both.Code != 0 || both.Out != plain.Out || !strings.HasPrefix(string(data), "{") {
			t.Errorf("%s: exit code %d, %v\n%s%s", args, both.Code, err, both.Out, both.Err)
		}
		bad := invoke(t, "", append(strings.Fields(args), "-o", "json="+filepath.Join(file, "x"))...)
		if bad.Code != cli.ExitTrouble || !strings.Contains(bad.Err, "--output json=") {
			t.Errorf("%s: exit code %d\n%s", args, bad.Code, bad.Err)
		}
	}
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// TestColours: they are added where they are asked for, and change nothing else.
func TestColours(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", inventoryDump)
	for _, args := range []string{"inventory --from " + dump, "inventory -o wide --from " + dump} {
		plain := invoke(t, "", strings.Fields(args)...)
		t.Setenv("CLICOLOR_FORCE", "1")
		painted := invoke(t, "", strings.Fields(args)...)
		t.Setenv("CLICOLOR_FORCE", "")
		if !strings.Contains(painted.Out, "\x1b[") {
			t.Errorf("%s: there are no colours", args)
		}
		if got := sequences.ReplaceAllString(painted.Out, ""); got != plain.Out {
			t.Errorf("%s: without colours it is\n%s\nand it was\n%s", args, got, plain.Out)
		}
	}
}

// TestExplainUsers: an explanation has what uses the image, by any spelling.
func TestExplainUsers(t *testing.T) {
	pods := ""
	for i := range 25 {
		pods += fmt.Sprintf("\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%02d, namespace: many}\nspec: {containers: [{name: app, image: quay.io/many/app}]}\nstatus: {phase: Running}\n", i)
	}
	dump := clitest.Written(t, "dump.yaml", inventoryDump+pods)
	for args, want := range map[string][]string{
		"explain quay.io/nothing/uses:this": {"\n  nothing in the cluster uses it\n"},
		"explain quay.io/many/app:latest":   {"\n  used by 25 consumers\n    Pod many/p00 (app): running\n", "\n    and 5 more\n"},
	} {
		got := invoke(t, "", append(strings.Fields(args), "--from", dump)...)
		for _, w := range want {
			if got.Code != 0 || !strings.Contains(got.Out, w) {
				t.Errorf("%s: exit code %d, without %q\n%s%s", args, got.Code, w, got.Out, got.Err)
			}
		}
	}
	cut := clitest.Written(t, "cut.yaml", inventoryDump+"\n---\n{apiVersion: v1, kind: PodList, metadata: {continue: more}, items: []}\n")
	got := invoke(t, "", "explain", "quay.io/nothing/uses:this", "--from", cut)
	if !strings.Contains(got.Out, "something else may use it, as not all could be read: ") || strings.Contains(got.Out, "nothing in the cluster") {
		t.Errorf("of a part of the pods: %s%s", got.Out, got.Err)
	}
}
