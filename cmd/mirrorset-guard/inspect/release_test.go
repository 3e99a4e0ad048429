package inspect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A releaseStage is asked about its release. What is said of releases is shown by the tests of package readiness.
type releaseStage struct{ *testrelease.Stage }

// check runs the command release against a dump.
func (s releaseStage) check(t testing.TB, dump, asked string, args ...string) clitest.Outcome {
	t.Helper()
	return invoke(t, "", append([]string{"release", asked, "--from", dump, "--allow-loopback"}, args...)...)
}

// of runs plan or pin for the release.
func (s releaseStage) of(t testing.TB, command, dump string, args ...string) clitest.Outcome {
	t.Helper()
	return invoke(t, "", append([]string{command, "--release", testrelease.Version, "--from", dump, "--allow-loopback"}, args...)...)
}

func decodeRelease(t testing.TB, got clitest.Outcome) v1alpha1.ReleaseReview {
	t.Helper()
	var doc v1alpha1.ReleaseReview
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil {
		t.Fatalf("exit code %d, stderr %q: %v", got.Code, got.Err, err)
	}
	return doc
}

func wantOutcome(t *testing.T, got clitest.Outcome, code int, texts ...string) {
	t.Helper()
	if got.Code != code {
		t.Errorf("exit code %d, want %d: %s", got.Code, code, got.Err)
	}
	for _, text := range texts {
		if !strings.Contains(got.Out+got.Err, text) {
			t.Errorf("no %q in:\n%s%s", text, got.Out, got.Err)
		}
	}
}

// TestRelease: the exit code for each verdict, and the answer in each format.
func TestRelease(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 6)}
	s.Without()
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	unsigned := clitest.Written(t, "unsigned.yaml", s.Objects(nil))
	wantOutcome(t, s.check(t, dump, "next"), cli.ExitAdmitted, "READY: Release 4.21.3 (", "Found: the newest of the 2 updates that ClusterVersion recommends (4.20.10, 4.21.3).", "\nNot checked:\n- ")
	wantOutcome(t, s.check(t, unsigned, "next"), cli.ExitDenied, "GPG signature: NOT READY")
	down := clitest.Written(t, "down.yaml", strings.ReplaceAll(s.Objects(s.Signed), s.Mirror, "127.0.0.1:1"))
	wantOutcome(t, s.check(t, down, "next"), cli.ExitTrouble, "UNKNOWN: Release 4.21.3", "not all could be determined")

	s.Without(s.PartOf("rhel-coreos", "image").Path)
	file := filepath.Join(t.TempDir(), "release.html")
	doc := decodeRelease(t, s.check(t, dump, testrelease.Version, "-o", "json", "-o", "html="+file))
	if doc.Verdict != "NOT READY" || doc.Counts != (v1alpha1.ReleaseCounts{Images: 7, Ready: 6, NotReady: 1}) || doc.Remedy != "mirrorset-guard sync --release 4.21.3 --from "+dump {
		t.Errorf("got %+v", doc)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<dd>1: not ready</dd>", "dump.yaml</dd>", "rhel-coreos <span>not ready</span>", "<code>mirrorset-guard release 4.21.3 --from " + dump + " -o json</code>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	wantOutcome(t, s.check(t, dump, testrelease.Version, "-o", "markdown"), cli.ExitDenied, "### NOT READY: ` Release 4.21.3", "| last | rhel-coreos | NOT READY |")
	wantOutcome(t, s.check(t, dump, testrelease.Version, "-o", "junit"), cli.ExitDenied, `tests="9" failures="1"`)
	if plan := s.of(t, "plan", dump, "-o", "imageset"); !strings.Contains(plan.Out, "maxVersion: 4.21.3\n      minVersion: 4.21.3\n      name: stable-4.21") { // whatever quay.io answers
		t.Errorf("got %d, %s%s", plan.Code, plan.Out, plan.Err)
	}
}

// TestReleasePlan: a plan has what an empty mirror lacks of a release, and says that there is more to come once the release image is copied.
func TestReleasePlan(t *testing.T) {
	s := releaseStage{testrelease.AtHome(t, 3)}
	mirror := plainRegistry(t)
	dump := clitest.Written(t, "dump.yaml", strings.NewReplacer(`mirrors: ["`+s.Mirror, `mirrors: ["`+mirror, `insecureRegistries: ["`, `insecureRegistries: ["`+mirror+`", "`).Replace(s.Objects(s.Signed)))
	const later = "# Note: the release image lists more images: copy it, then run this again\n"
	wantOutcome(t, s.of(t, "plan", dump, "--missing"), cli.ExitAdmitted, later, " docker://"+s.Releases+"@"+s.Digest+" docker://"+mirror+"/openshift/release-images")
}

// TestReleaseBad: what is no question ends with exit code 2, and so does one that has no answer.
func TestReleaseBad(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 2)}
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	for _, tt := range []struct{ args, want string }{
		{"release 4.30.1", "release 4.30.1: ClusterVersion does not offer this version; it offers 4.20.10, 4.21.3, 4.21.4"},
		{"release 4.21.4", "release 4.21.4: the release image "},
		{"deletion m.example.com/x:1 --release newest", "release newest: want a version such as 4.21.3"},
		{"release next -o sarif", `--output "sarif": choose one of`},
		{"pin --release next -f " + dump, "-f has no effect beside --release"},
	} {
		wantOutcome(t, invoke(t, "", append(strings.Fields(tt.args+" --allow-loopback"), "--from", dump)...), cli.ExitTrouble, tt.want)
	}
}

// TestReleasePin: pin prints sets of what is ready alone, and --rescue adds what is wanted on the day something is wrong, before an update and before a
// change. Of the rescue set, what cannot be pinned is said.
func TestReleasePin(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	image, err := testregistries.Image("must-gather")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "openshift/release", image)
	if err := s.Attach("openshift/release", s.Images, hash.String()); err != nil {
		t.Fatal(err)
	}
	rescue := s.Images + "@" + hash.String()
	stream := func(name, image string) string {
		return "---\napiVersion: image.openshift.io/v1\nkind: ImageStream\nmetadata: {namespace: openshift, name: " + name + "}\nspec: {tags: [{name: latest, from: {kind: DockerImage, name: '" + image + "'}}]}\n"
	}
	objects := s.Objects(s.Signed) + stream("must-gather", rescue) + stream("tools", s.Images+":tools")
	dump := clitest.Written(t, "dump.yaml", objects)
	change := clitest.Written(t, "change.yaml", "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: other}\nspec: {imageDigestMirrors: [{source: quay.io/other, mirrors: [mirror.example.com/other]}]}\n")
	before := func(dump string, args ...string) clitest.Outcome {
		return invoke(t, "", append([]string{"pin", "-f", change, "--from", dump, "--allow-loopback"}, args...)...)
	}
	pinned := "- name: " + rescue + "\n"

	const unread = "pods could not be read, and images of theirs may be missing"
	wantOutcome(t, before(dump), cli.ExitTrouble, "pin: nothing can be pinned: "+unread)
	wantOutcome(t, before(dump, "--rescue"), cli.ExitTrouble, pinned, "# Incomplete: "+unread, "pin: the sets may not be complete: "+unread)
	whole := clitest.Written(t, "whole.yaml", objects+"---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: bare}\nspec: {nodeName: b, containers: [{name: a, image: 'quay.io/a/b:v1'}]}\n")
	wantOutcome(t, before(whole), cli.ExitTrouble, "no drain moves a pod")
	wantOutcome(t, before(whole, "--rescue"), cli.ExitAdmitted, pinned, "name: pinned-worker-1", "# Incomplete: "+s.Images+":tools (rescue set, pool worker): it is named by tag", "Note: a registry is needed all the same, for 1 image")
	got := s.of(t, "pin", dump)
	wantOutcome(t, got, cli.ExitAdmitted, "# Pool worker: 3 images; ", "Note: every pool gets all images, as it is not known which of them today's release runs in which pool: ", "name: release-worker-1", "- name: "+s.Releases+"@"+s.Digest)
	if strings.Contains(got.Out, pinned) {
		t.Errorf("the rescue set is pinned, and was not wanted:\n%s", got.Out)
	}
	wantOutcome(t, s.of(t, "pin", dump, "--rescue"), cli.ExitAdmitted, pinned, "name: release-worker-1", ":tools (rescue set")
	part := s.PartOf("cluster-version-operator", "image").Path
	s.Without(part[:strings.LastIndex(part, "/")+1] + hash.String())
	got = s.of(t, "pin", dump, "--rescue")
	wantOutcome(t, got, cli.ExitDenied, "name: release-worker-1", "# Incomplete: "+rescue+" (rescue set, pool worker): PinnedImageMissing: ", "1 image is left out")
	if strings.Contains(got.Out, pinned) {
		t.Errorf("it is pinned, and cannot be pulled:\n%s", got.Out)
	}
	s.Without(part)
	if got := s.of(t, "pin", dump); got.Code != cli.ExitDenied || got.Out != "" || !strings.Contains(got.Err, "NOT READY: Release 4.21.3") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// TestPinNowhere: there is nothing to be pinned for in a cluster without pools.
func TestPinNowhere(t *testing.T) {
	dump := clitest.Written(t, "cluster.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: [{name: a, image: quay.io/a/b:v1}]}\n")
	got := invoke(t, "", "pin", "-f", clitest.Written(t, "change.yaml", houseMirrors), "--from", dump)
	if got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "pin: no MachineConfigPool with nodes is known") || got.Out != "" {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// TestDeletesOfNextRelease: what a cluster will pull by its next update is needed, with its signatures, if check is told which release that is. Of one
// that cannot be read, nothing may be deleted, and no list is complete.
func TestDeletesOfNextRelease(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 6)}
	s.Without()
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	ask := func(args string) clitest.Outcome {
		return invoke(t, "", append(strings.Fields(args), "--allow-loopback", "--from", dump)...)
	}
	images := decodeRelease(t, s.check(t, dump, testrelease.Version, "-o", "json")).Images
	last := images[len(images)-1]
	wantOutcome(t, ask("deletion "+last.At), cli.ExitAdmitted, "they pull none of its 1 item")
	got := ask("deletion --release 4.21.3 -o json " + last.At)
	var doc v1alpha1.Deletion
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || got.Code != cli.ExitDenied || len(doc.Needed) != 1 || doc.Needed[0].Use != "next release" || doc.Needed[0].Image != last.Image || doc.Needed[0].Consumers[0].Name != testrelease.Version {
		t.Errorf("exit code %d, %v: %s%s", got.Code, err, got.Out, got.Err)
	}
	wantOutcome(t, ask("deletion --release 4.21.3 "+last.Signatures[0].Reference), cli.ExitDenied, "SignatureMissing", "used by Release openshift-cluster-version/4.21.3 ("+last.Name+")")
	keep := "keep " + s.Mirror + "/openshift -o refs"
	kept := ask(keep + " --release 4.21.3")
	for _, i := range images {
		wantOutcome(t, kept, cli.ExitAdmitted, i.At+"\n", i.Signatures[0].Reference+"\n")
	}
	if got := ask(keep); strings.Contains(got.Out, last.At) {
		t.Errorf("not told of a release, it keeps\n%s", got.Out)
	}
	s.Without(s.PartOf("release", "image").Path)
	wantOutcome(t, ask("deletion --release 4.21.3 "+last.At), cli.ExitDenied, "the release image could not be found")
	wantOutcome(t, ask(keep+" --release 4.21.3"), cli.ExitTrouble, "may not be complete: images named by release 4.21.3")
}
