package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// TestDeletesOfNextRelease: what a cluster will pull by its next update is needed, if check is told which release that is.
func TestDeletesOfNextRelease(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 12)}
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	ask := func(args ...string) clitest.Outcome {
		t.Helper()
		return invoke(t, "", append([]string{"check", "--from", dump, "--allow-loopback"}, args...)...)
	}
	next := []string{"--release", testrelease.Version}
	images := decodeRelease(t, s.check(t, dump, testrelease.Version, "-o", "json")).Images
	last := images[len(images)-1]
	if last.At == "" || len(last.Signatures) == 0 {
		t.Fatalf("the last image of the release: %+v", last)
	}

	if got := ask("--deletes", last.At); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "they pull none of its 1 item") {
		t.Errorf("not told of a release: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	got := ask(append(next, "--deletes", last.At, "-o", "json")...)
	var doc v1alpha1.Deletion
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || got.Code != cli.ExitDenied || doc.Allowed || len(doc.Needed) != 1 {
		t.Fatalf("exit code %d, %v: %s%s", got.Code, err, got.Out, got.Err)
	}
	if n := doc.Needed[0]; n.Use != "next release" || n.Image != last.Image || len(n.Consumers) != 1 || n.Consumers[0].Kind != "Release" || n.Consumers[0].Name != testrelease.Version {
		t.Errorf("needed: %+v", n)
	}
	got = ask(append(next, "--deletes", last.Signatures[0].Reference)...)
	if got.Code != cli.ExitDenied || !strings.Contains(got.Out, "SignatureMissing") || !strings.Contains(got.Out, "used by Release openshift-cluster-version/4.21.3 ("+last.Name+")") {
		t.Errorf("a signature that its own policy asks for: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}

	got = ask(append(next, "--keep", s.Mirror+"/openshift", "-o", "refs")...)
	for _, img := range images {
		if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, img.At+"\n") || len(img.Signatures) > 0 && !strings.Contains(got.Out, img.Signatures[0].Reference+"\n") {
			t.Errorf("%s, or its signature, is not kept: exit code %d\n%s%s", img.At, got.Code, got.Out, got.Err)
		}
	}
	if got := ask("--keep", s.Mirror+"/openshift", "-o", "refs"); strings.Contains(got.Out, last.At) {
		t.Errorf("not told of a release, it keeps\n%s", got.Out)
	}

	s.Without(s.PartOf("release", "image").Path)
	if got := ask(append(next, "--deletes", last.At)...); got.Code != cli.ExitDenied || !strings.Contains(got.Out, "the release image could not be found") {
		t.Errorf("a release that cannot be read: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := ask(append(next, "--keep", s.Mirror+"/openshift")...); got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "may not be complete: images named by release 4.21.3") {
		t.Errorf("a release that cannot be read: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := ask("--release", "newest", "--deletes", last.At); got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "--release newest: want a version such as 4.21.3") {
		t.Errorf("no release: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}
