package inspect

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestPages: each command answers as a page, with the exit code that it has otherwise, and the page says
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
	for _, want := range []string{"<!DOCTYPE html>", ">Refused: ", "<h1>" + sentence + "</h1>", "RejectedByMCO", "<dd>jane</dd>", "dump.yaml</dd>", "<dd>1: would be denied</dd>"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("check: %q is not in\n%s", want, data)
		}
	}
	dump := clitest.Written(t, "dump.yaml", inventoryDump)
	for args, want := range map[string]string{
		"inventory -o html --from " + dump:                    "The cluster may have to pull 5 images.",
		"explain quay.io/shop/cart:v1 -o html --from " + dump: "Where nodes pull 1 image from, in which order.",
	} {
		got := invoke(t, "", strings.Fields(args)...)
		if got.Code != 0 || !strings.Contains(got.Out, "<h1>"+want+"</h1>") || !strings.Contains(got.Out, "quay.io/shop/cart:v1") {
			t.Errorf("%s: exit code %d\n%s%s", args, got.Code, got.Out, got.Err)
		}
	}
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// TestColours: they are added where they are asked for, and change nothing else.
func TestColours(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", inventoryDump)
	for _, args := range []string{"inventory --from " + dump, "inventory -o wide --from " + dump, "explain quay.io/shop/cart:v1 --from " + dump} {
		plain := invoke(t, "", strings.Fields(args)...)
		t.Setenv("CLICOLOR_FORCE", "1")
		painted := invoke(t, "", strings.Fields(args)...)
		t.Setenv("CLICOLOR_FORCE", "")
		if strings.Contains(args, "inventory") && !strings.Contains(painted.Out, "\x1b[") {
			t.Errorf("%s: there are no colours", args)
		}
		if got := sequences.ReplaceAllString(painted.Out, ""); got != plain.Out {
			t.Errorf("%s: without colours it is\n%s\nand it was\n%s", args, got, plain.Out)
		}
	}
}
