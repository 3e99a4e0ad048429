package inspect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestFlagsWithoutEffect: a flag that means nothing beside the question is refused with a word, and every other one is not.
// What is asked is not answered here, as there is no dump.
func TestFlagsWithoutEffect(t *testing.T) {
	change := clitest.Written(t, "change.yaml", `
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec:
  imageTagMirrors:
  - {source: quay.io/shop, mirrors: [m.example.com/shop]}
`)
	nowhere := filepath.Join(t.TempDir(), "nowhere.yaml")
	const reference = "m.example.com/shop/cart:v1"
	const (
		ofChange = 1 << iota
		ofRelease
		ofReleasePin
		ofPlan
		ofPin
		ofDeletes
		ofKeep
	)
	modes := []struct {
		is   int
		args []string
	}{
		{ofChange, []string{"-f", change}},
		{ofPlan, []string{"-f", change, "--plan", "sh"}},
		{ofPin, []string{"-f", change, "--pin"}},
		{ofRelease, []string{"--release", "next"}},
		{ofReleasePin, []string{"--release", "next", "--pin"}},
		{ofDeletes, []string{"--deletes", reference}},
		{ofKeep, []string{"--keep", "m.example.com/shop"}},
	}
	for _, flag := range []struct {
		args []string
		with int // the modes in which it means something
	}{
		{[]string{"--delete"}, ofChange | ofPlan},
		{[]string{"--simulate"}, ofChange},
		{[]string{"--assume", clitest.Written(t, "mapping.txt", "quay.io/shop/cart:v1=m.example.com/shop/cart:v1\n")}, ofChange | ofPlan},
		{[]string{"--missing"}, ofPlan},
		{[]string{"--rescue"}, ofPin | ofReleasePin},
		{[]string{"--ack"}, ofRelease},
		{[]string{"--signature-stores"}, ofRelease | ofReleasePin},
		{[]string{"--for-user", "ann"}, ofChange | ofPlan | ofPin | ofReleasePin},
	} {
		for _, mode := range modes {
			args := slices.Concat([]string{"check"}, mode.args, flag.args, []string{"--from", nowhere})
			got := invoke(t, "", args...)
			refused := !strings.Contains(got.Err, nowhere)
			if wanted := flag.with&mode.is == 0; got.Code != cli.ExitTrouble || refused != wanted {
				t.Errorf("%s: exit code %d, refused is %t, want %t: %s", fmt.Sprint(args[1:len(args)-2]), got.Code, refused, wanted, got.Err)
			}
			if refused && !strings.Contains(got.Err, flag.args[0]) && !strings.Contains(got.Err, mode.args[0]) {
				t.Errorf("%s: neither flag is named: %s", fmt.Sprint(args[1:len(args)-2]), got.Err)
			}
		}
	}
}
