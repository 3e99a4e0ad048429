package inspect

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// TestRelease: what is said of a release, in each format, and what --plan and --ack say of it.
func TestRelease(t *testing.T) {
	s := newReleaseStage(t, 12)
	dump := clitest.Written(t, "dump.yaml", s.objects(s.signed))
	s.without()
	got := s.check(t, dump, "next")
	wantOutcome(t, got, cli.ExitAdmitted, "READY: Release 4.21.3 ("+releaseSource+"@"+s.digest+")",
		"Found: the newest of the 2 updates that ClusterVersion recommends (4.20.10, 4.21.3). Its payload was read from "+s.mirror+"/openshift/release-images@"+s.digest,
		"13 of 13 images can be pulled by all nodes that need them.", "GPG signature: READY: signed, and verified with the keys of ConfigMap openshift-config-managed/release-verification",
		"Before such an update the cluster wants an administrator's word (ack-4.20-sigstore-in-4.21)", "Not checked:\n- whether the operators are Upgradeable")
	wantOutcome(t, s.check(t, dump, "next", "--ack"), cli.ExitAdmitted, "READY: signatures that nodes will require of Release 4.21.3",
		"asks for a signature of 13 of its 13 images", "cluster-version-operator "+payloadSource, "accepted at "+s.mirror+"/openshift/release:sha256-",
		`oc -n openshift-config patch configmap admin-acks --type=merge --patch '{"data":{"ack-4.20-sigstore-in-4.21":"true"}}'`)
	wantOutcome(t, s.check(t, dump, releaseSource+"@"+s.digest), cli.ExitAdmitted, "Found: given by reference")

	part := s.partOf("rhel-coreos", "image")
	s.without(part.path)
	got = s.check(t, dump, newVersion)
	wantOutcome(t, got, cli.ExitDenied, "NOT READY: Release 4.21.3", "12 of 13 images can be pulled by all nodes that need them, 1 cannot.",
		"last   rhel-coreos  NOT READY", "(for the nodes of worker)", "1. rhel-coreos: "+payloadSource+"@",
		"mirrorset-guard check --release 4.21.3 --plan sh --missing > copy.sh && sh copy.sh", "platform: {channels: [{name: stable-4.21, minVersion: 4.21.3, maxVersion: 4.21.3}]}")
	plan := s.check(t, dump, newVersion, "--plan", "imageset")
	if !strings.Contains(plan.Out, "maxVersion: 4.21.3\n      minVersion: 4.21.3\n      name: stable-4.21") {
		t.Errorf("got %d, %s%s", plan.Code, plan.Out, plan.Err)
	}
	markdown := s.check(t, dump, newVersion, "-o", "markdown")
	wantOutcome(t, markdown, cli.ExitDenied, "## NOT READY: Release 4.21.3", "| last | rhel-coreos | NOT READY |")
	file := filepath.Join(t.TempDir(), "release.html")
	both := s.check(t, dump, newVersion, "-o", "json", "-o", "html="+file)
	if doc := decodeRelease(t, both); doc.Remedy != "mirrorset-guard check --release 4.21.3 --plan sh --missing > copy.sh && sh copy.sh" {
		t.Errorf("the remedy is %q", doc.Remedy)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, clitest.Outcome{Code: both.Code, Out: string(page)}, cli.ExitDenied, "<h1>Release 4.21.3 is not ready: 12 of 13 images can be pulled by all nodes that need them, 1 cannot.</h1>",
		"<dd>1: not ready</dd>", "dump.yaml</dd>", "<dd>"+releaseSource+"@"+s.digest+"</dd>", "rhel-coreos <span>not ready</span>", "--plan sh --missing &gt; copy.sh", "whether the operators are Upgradeable",
		"<code>mirrorset-guard check --release 4.21.3 -o json</code>")
	wantOutcome(t, s.check(t, dump, newVersion, "--ack", "-o", "html"), cli.ExitTrouble, "leave out --output html, or --ack")
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	junit := s.check(t, dump, newVersion, "-o", "junit")
	if err := xml.Unmarshal([]byte(junit.Out), &suite); err != nil || suite.Tests != 15 || suite.Failures != 1 {
		t.Errorf("got %+v, %v", suite, err)
	}
	wantOutcome(t, s.check(t, dump, newVersion, "--ack"), cli.ExitDenied, "The evidence above does not support it.")

	s.without(s.partOf("release", "layer").path)
	wantOutcome(t, s.check(t, dump, newVersion), cli.ExitDenied, "Which images it consists of is not known, as its release image could not be read.", "first  (release image)  NOT READY")
}

func (s *releaseStage) partOf(name, what string) releasePart {
	i := slices.IndexFunc(s.parts, func(p releasePart) bool { return p.name == name && p.what == what })
	return s.parts[i]
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

// TestReleaseUnknown: what could not be determined is not said to be ready.
func TestReleaseUnknown(t *testing.T) {
	s := newReleaseStage(t, 6)
	s.without()
	stores := strings.Replace(s.objects(nil), "verifier-public-key-redhat", "store-official: https://store.example.com/signatures\n  verifier-public-key-redhat", 1)
	got := s.check(t, clitest.Written(t, "stores.yaml", stores), newVersion)
	wantOutcome(t, got, cli.ExitTrouble, "UNKNOWN: Release 4.21.3", "GPG signature: UNKNOWN: no ConfigMap of openshift-config-managed", "CVO would then ask https://store.example.com/signatures, which was not asked here")
	keyless := strings.ReplaceAll(s.objects(s.signed), "name: release-verification", "name: another")
	wantOutcome(t, s.check(t, clitest.Written(t, "keyless.yaml", keyless), newVersion), cli.ExitTrouble, "GPG signature: UNKNOWN: there is a signature, and no key to verify it with")
	down := strings.ReplaceAll(s.objects(s.signed), s.mirror, "127.0.0.1:1")
	wantOutcome(t, s.check(t, clitest.Written(t, "down.yaml", down), newVersion), cli.ExitTrouble, "UNKNOWN: Release 4.21.3", "first  (release image)  UNKNOWN")
}

// TestReleaseBad: what is no question, and what is no release, is said and ends with exit code 2.
func TestReleaseBad(t *testing.T) {
	s := newReleaseStage(t, 4)
	s.without()
	dump := clitest.Written(t, "dump.yaml", s.objects(s.signed))
	none := clitest.Written(t, "none.yaml", strings.Replace(s.objects(s.signed), "kind: ClusterVersion", "kind: SomethingElse", 1)+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: [{name: a, image: quay.io/a/b:c}]}\n")
	plain, err := testregistries.Image("plain")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := plain.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "openshift/release", plain)
	if err := s.attach("openshift/release", payloadSource, hash.String()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dump, asked, want string
		args              []string
	}{
		{none, newVersion, "there is no ClusterVersion", nil},
		{dump, "4.30.1", "ClusterVersion does not offer this version; it offers 4.20.10, 4.21.3, 4.21.4", nil},
		{dump, "desired", "spec.desiredUpdate of ClusterVersion names no release", nil},
		{dump, "next", "--release is about the configuration in force: leave out -f", []string{"-f", dump}},
		{dump, "next", "--output sarif: with --release, choose one of", []string{"-o", "sarif"}},
		{dump, "4.21.4", "says that it is 4.21.3", nil},
		{dump, payloadSource + "@" + hash.String(), "it is no release image: its layer sha256:", nil},
		{dump, s.mirror + "/openshift/release-images:4.21.3", "it could not be found out which digest the tag stands for", nil},
	} {
		wantOutcome(t, s.check(t, tt.dump, tt.asked, tt.args...), cli.ExitTrouble, tt.want)
	}
	tag := s.mirror + "/mirrored/elsewhere:4.21.3"
	if err := s.copyRelease(tag); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, s.check(t, dump, tag), cli.ExitAdmitted, "the tag "+tag+" stands for "+s.digest, "ClusterVersion offers this release as "+releaseSource+"@"+s.digest)
	wantOutcome(t, invoke(t, "", "check", "--ack", "--from", dump), cli.ExitTrouble, "--ack: only with --release")
}

// TestReleaseDoors: a live cluster and a snapshot of it give the same answer.
func TestReleaseDoors(t *testing.T) {
	s := newReleaseStage(t, 8)
	c := newCluster(t)
	apply(t, c.Cluster, s.objects(s.signed))
	s.without()
	live := invoke(t, "", "check", "--release", "next", "--kubeconfig", c.Kubeconfig, "--allow-loopback", "-o", "json")
	if doc := decodeRelease(t, live); live.Code != cli.ExitAdmitted || doc.Verdict != "READY" {
		t.Fatalf("got %d, %s%s", live.Code, live.Out, live.Err)
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	if got := invoke(t, "", "snapshot", "--kubeconfig", c.Kubeconfig, "-f", file); got.Code != 0 {
		t.Fatal(got.Err)
	}
	if got := same(t, s.check(t, file, "next", "-o", "json", "--pull-secret", clitest.Written(t, "pull.json", "{}"))); got != same(t, live) {
		t.Errorf("by the snapshot:\n%s\nlive:\n%s", got, same(t, live))
	}
	s.without(s.partOf("cluster-version-operator", "signature").path)
	got := invoke(t, "", "check", "--release", newVersion, "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	wantOutcome(t, got, cli.ExitDenied, "cluster-version-operator  NOT READY", "SignatureMissing", "required by ClusterImagePolicy openshift")
}

// apply creates objects, with their status.
func apply(t *testing.T, c clitest.Cluster, objects string) {
	t.Helper()
	c.Apply(t, objects)
	var withStatus []string
	for _, document := range strings.Split(objects, "---\n") {
		if strings.Contains(document, "\nstatus:") {
			withStatus = append(withStatus, document)
		}
	}
	if out, err := c.Kubectl(t.Context(), strings.Join(withStatus, "---\n"), "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// same returns what does not depend on the way of asking.
func same(t *testing.T, got clitest.Outcome) string {
	t.Helper()
	doc := decodeRelease(t, got)
	doc.Seconds, doc.Notes = 0, nil
	data, err := json.MarshalIndent(v1alpha1.ReleaseReview(doc), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReleasePlan: --plan has what the mirror lacks of a release, from where its images are at home.
func TestReleasePlan(t *testing.T) {
	s := newReleaseStage(t, 6)
	dump := clitest.Written(t, "dump.yaml", s.objects(s.signed))
	s.without(s.partOf("cluster-version-operator", "image").path, s.partOf("component-004", "signature").path)
	got := s.check(t, dump, newVersion, "--plan", "sh", "--missing")
	for _, want := range []string{
		"copy --all --preserve-digests --dest-tls-verify=false docker://" + payloadSource + "@",
		"docker://" + s.mirror + "/openshift/release@",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("no %q in:\n%s%s", want, got.Out, got.Err)
		}
	}
}
