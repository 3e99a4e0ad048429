package inspect

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// TestRelease: what is said of a release, in each format, and what --plan and --ack say of it.
func TestRelease(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 12)}
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	s.Without()
	got := s.check(t, dump, "next")
	wantOutcome(t, got, cli.ExitAdmitted, "READY: Release 4.21.3 ("+testrelease.Source+"@"+s.Digest+")",
		"Found: the newest of the 2 updates that ClusterVersion recommends (4.20.10, 4.21.3). Its payload was read from "+s.Mirror+"/openshift/release-images@"+s.Digest,
		"13 of 13 images can be pulled by all nodes that need them.", "GPG signature: READY: signed, and verified with the keys of ConfigMap openshift-config-managed/release-verification",
		"Before such an update the cluster wants an administrator's word (ack-4.20-sigstore-in-4.21)", "Not checked:\n- whether the operators are Upgradeable")
	wantOutcome(t, s.check(t, dump, "next", "--ack"), cli.ExitAdmitted, "READY: signatures that nodes will require of Release 4.21.3",
		"asks for a signature of 13 of its 13 images", "cluster-version-operator "+testrelease.PayloadSource, "accepted at "+s.Mirror+"/openshift/release:sha256-",
		`oc -n openshift-config patch configmap admin-acks --type=merge --patch '{"data":{"ack-4.20-sigstore-in-4.21":"true"}}'`)
	wantOutcome(t, s.check(t, dump, testrelease.Source+"@"+s.Digest), cli.ExitAdmitted, "Found: given by reference")

	part := s.PartOf("rhel-coreos", "image")
	s.Without(part.Path)
	got = s.check(t, dump, testrelease.Version)
	wantOutcome(t, got, cli.ExitDenied, "NOT READY: Release 4.21.3", "12 of 13 images can be pulled by all nodes that need them, 1 cannot.",
		"last   rhel-coreos  NOT READY", "(for the nodes of worker)\n", "1. rhel-coreos: "+testrelease.PayloadSource+"@",
		"mirrorset-guard sync --release 4.21.3 --from "+dump+"\n", "check --release 4.21.3 --from "+dump+" --plan sh --missing > copy.sh && sh copy.sh", "platform: {channels: [{name: stable-4.21, minVersion: 4.21.3, maxVersion: 4.21.3}]}")
	plan := s.check(t, dump, testrelease.Version, "--plan", "imageset")
	if !strings.Contains(plan.Out, "maxVersion: 4.21.3\n      minVersion: 4.21.3\n      name: stable-4.21") {
		t.Errorf("got %d, %s%s", plan.Code, plan.Out, plan.Err)
	}
	markdown := s.check(t, dump, testrelease.Version, "-o", "markdown")
	wantOutcome(t, markdown, cli.ExitDenied, "## NOT READY: Release 4.21.3", "| last | rhel-coreos | NOT READY |")
	file := filepath.Join(t.TempDir(), "release.html")
	both := s.check(t, dump, testrelease.Version, "-o", "json", "-o", "html="+file)
	if doc := decodeRelease(t, both); doc.Remedy != "mirrorset-guard sync --release 4.21.3 --from "+dump {
		t.Errorf("the remedy is %q", doc.Remedy)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, clitest.Outcome{Code: both.Code, Out: string(page)}, cli.ExitDenied, "<h1>Release 4.21.3 is not ready: 12 of 13 images can be pulled by all nodes that need them, 1 cannot.</h1>",
		"<dd>1: not ready</dd>", "dump.yaml</dd>", "<dd>"+testrelease.Source+"@"+s.Digest+"</dd>", "rhel-coreos <span>not ready</span>", "mirrorset-guard sync --release 4.21.3 --from "+dump+"</", "whether the operators are Upgradeable",
		"<code>mirrorset-guard check --release 4.21.3 --from "+dump+" -o json</code>")
	wantOutcome(t, s.check(t, dump, testrelease.Version, "--ack", "-o", "html"), cli.ExitTrouble, "leave out --output html, or --ack")
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	junit := s.check(t, dump, testrelease.Version, "-o", "junit")
	if err := xml.Unmarshal([]byte(junit.Out), &suite); err != nil || suite.Tests != 15 || suite.Failures != 1 {
		t.Errorf("got %+v, %v", suite, err)
	}
	wantOutcome(t, s.check(t, dump, testrelease.Version, "--ack"), cli.ExitDenied, "The evidence above does not support it.")

	s.Without(s.PartOf("rhel-coreos-extensions", "image").Path)
	wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitDenied, "last   rhel-coreos-extensions  NOT READY", "(for the nodes of worker)\n")
	pools := clitest.Written(t, "pools.yaml", s.Objects(s.Signed)+masterPool)
	wantOutcome(t, s.check(t, pools, testrelease.Version), cli.ExitDenied, "last   rhel-coreos-extensions  NOT READY", "(for the nodes of master, worker)\n")

	s.Without(s.PartOf("release", "layer").Path)
	wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitDenied, "Which images it consists of is not known, as its release image could not be read.", "first  (release image)  NOT READY")
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
	s := releaseStage{testrelease.Mirrored(t, 6)}
	s.Without()
	stores := strings.Replace(s.Objects(nil), "verifier-public-key-redhat", "store-official: https://store.example.com/signatures\n  verifier-public-key-redhat", 1)
	got := s.check(t, clitest.Written(t, "stores.yaml", stores), testrelease.Version)
	wantOutcome(t, got, cli.ExitTrouble, "UNKNOWN: Release 4.21.3", "GPG signature: UNKNOWN: no ConfigMap of openshift-config-managed", "CVO would then ask https://store.example.com/signatures, which was not asked: --signature-stores asks it from here")
	cut := clitest.Written(t, "cut.yaml", s.Objects(nil)+`---
{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"signaturesUnread":"more ConfigMaps have signatures\nthan are read"}
`)
	again := clitest.Written(t, "again.json", invoke(t, "", "snapshot", "--from", cut).Out)
	for _, dump := range []string{cut, again} {
		wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitTrouble, "GPG signature: UNKNOWN: whether a ConfigMap has a signature of "+s.Digest+" is not known\n- more ConfigMaps have signatures than are read\n")
	}
	keyless := strings.ReplaceAll(s.Objects(s.Signed), "name: release-verification", "name: another")
	wantOutcome(t, s.check(t, clitest.Written(t, "keyless.yaml", keyless), testrelease.Version), cli.ExitTrouble, "GPG signature: UNKNOWN: there is a signature, and no key to verify it with")
	down := strings.ReplaceAll(s.Objects(s.Signed), s.Mirror, "127.0.0.1:1")
	wantOutcome(t, s.check(t, clitest.Written(t, "down.yaml", down), testrelease.Version), cli.ExitTrouble, "UNKNOWN: Release 4.21.3", "first  (release image)  UNKNOWN")
}

// TestReleaseUnknownNodes: without nodes it is not known for which platforms images have to be, nor by which configuration they are pulled.
func TestReleaseUnknownNodes(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 2)}
	s.Without()
	documents := slices.DeleteFunc(strings.Split(s.Objects(s.Signed), "---\n"), func(d string) bool { return strings.Contains(d, "\nkind: Node\n") })
	dump := clitest.Written(t, "dump.yaml", strings.Join(documents, "---\n"))
	for _, args := range [][]string{nil, {"--ack"}} {
		wantOutcome(t, s.check(t, dump, testrelease.Version, args...), cli.ExitTrouble, "UNKNOWN: no node is known, so that it is not certain for which platforms, and by which configuration, images are pulled\n",
			"- a dump needs the Nodes (oc get nodes -o yaml), and a live cluster the right to list them\n")
	}
}

// TestReleaseUnknownGate: that the cluster waits for no word is said only if its ConfigMap was read.
func TestReleaseUnknownGate(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 2)}
	s.Without()
	const none, unknown, why = "The cluster waits for no word about signatures", "Whether the cluster waits for a word about signatures is not known: ", "the dump does not have ConfigMap openshift-config-managed/admin-gates"
	for what, c := range map[string]struct{ old, new, want, not string }{
		"no key for the version that runs": {"ack-4.20-sigstore", "ack-4.19-sigstore", none, unknown},
		"no ConfigMap":                     {"name: admin-gates", "name: other", unknown + why + ".", none},
		"no version":                       {"desired: {version: 4.20.9, ", "desired: {", unknown + "which version runs is not known.", none},
	} {
		dump := clitest.Written(t, "dump.yaml", strings.Replace(s.Objects(s.Signed), c.old, c.new, 1))
		got := s.check(t, dump, testrelease.Version, "--ack")
		wantOutcome(t, got, cli.ExitAdmitted, c.want)
		if strings.Contains(got.Out, c.not) {
			t.Errorf("%s: it says that %q:\n%s", what, c.not, got.Out)
		}
		line := "whether the cluster waits for an administrator's word about signatures: "
		if got := s.check(t, dump, testrelease.Version); strings.Contains(got.Out, line) != (c.want != none) {
			t.Errorf("%s: among what was not checked:\n%s", what, got.Out)
		}
	}
}

// TestReleaseUnknownPolicies: while it is not known, or not certain, which policies nodes will have, no signature is known to be the last one that they
// require: the evidence for the administrator's word says so, and does not support it.
func TestReleaseUnknownPolicies(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	asks := func(dump string, code int, reason string) {
		t.Helper()
		for _, flags := range [][]string{nil, {"--ack"}} {
			got := s.check(t, dump, testrelease.Version, flags...)
			wantOutcome(t, got, code, reason)
			if strings.Contains(got.Out, "To give it") {
				t.Errorf("it recommends the word:\n%s", got.Out)
			}
		}
	}
	contradicts := `---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: contradicts}
spec: {imageTagMirrors: [{source: ` + testrelease.Source + `, mirrors: [` + s.Mirror + `/openshift/release-images], mirrorSourcePolicy: AllowContactingSource}]}
`
	asks(clitest.Written(t, "rejected.yaml", s.Objects(s.Signed)+contradicts), cli.ExitTrouble, "UNKNOWN: MCO rejects the configuration in force, so that it is not certain what nodes have\n- ")
	s.Remake(t, []byte("no archive"))
	asks(clitest.Written(t, "unread.yaml", s.Objects(s.Signed)), cli.ExitTrouble, "UNKNOWN: whether the release brings further image policies is not known\n- ")
}

// TestReleaseElsewhere: an image of the payload that lies at another host is judged by its own route, and asked for nowhere else.
func TestReleaseElsewhere(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 5)}
	image, err := testregistries.Image("component-004")
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "elsewhere/component", image)
	part := s.PartOf("component-004", "image").Path
	digest := part[strings.LastIndex(part, "/")+1:]
	s.Remake(t, testrelease.Archive(t, nil), s.Images+"@"+digest, s.Mirror+"/elsewhere/component@"+digest)
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	s.Without()
	wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitAdmitted, "6 of 6 images")
	there := 0
	for _, asked := range s.Requests() {
		switch {
		case strings.Contains(asked, "/elsewhere/component/") && !strings.Contains(asked, "/tags/"):
			there++
		case strings.HasSuffix(asked, part):
			t.Errorf("asked, where it is not: %s", asked)
		}
	}
	if there == 0 {
		t.Errorf("it was not asked for: %q", s.Requests())
	}
	s.Without("elsewhere/component/manifests/" + digest)
	wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitDenied, "5 of 6 images", "component-004  NOT READY", "1. component-004: "+s.Mirror+"/elsewhere/component@"+digest)
}

// TestReleaseRisk: of a release that is only offered under a condition, the answer names the condition as what it cannot know, however it is asked for.
func TestReleaseRisk(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	offered := `  - {version: ` + testrelease.Version + `, image: "` + s.Releases + "@" + s.Digest + "\"}\n"
	objects := s.Objects(s.Signed)
	if !strings.Contains(objects, offered) {
		t.Fatalf("no %q", offered)
	}
	dump := clitest.Written(t, "dump.yaml", strings.Replace(strings.Replace(objects, offered, "", 1), "release: {version: 4.21.4,", "release: {version: "+testrelease.Version+",", 1))
	for _, asked := range []string{testrelease.Source + "@" + s.Digest, testrelease.Version} {
		wantOutcome(t, s.check(t, dump, asked), cli.ExitAdmitted, "- whether a risk of this update applies to the cluster: SlowBoot: ")
	}
}

// TestReleaseBad: what is no question, and what is no release, is said and ends with exit code 2.
func TestReleaseBad(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	none := clitest.Written(t, "none.yaml", strings.Replace(s.Objects(s.Signed), "kind: ClusterVersion", "kind: SomethingElse", 1)+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: [{name: a, image: quay.io/a/b:c}]}\n")
	hosted := clitest.Written(t, "hosted.yaml", s.Objects(s.Signed)+"---\napiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\nstatus: {controlPlaneTopology: External, infrastructureTopology: HighlyAvailable}\n")
	plain, err := testregistries.Image("plain")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := plain.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "openshift/release", plain)
	if err := s.Attach("openshift/release", testrelease.PayloadSource, hash.String()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dump, asked, want string
		args              []string
	}{
		{none, testrelease.Version, "there is no ClusterVersion", nil},
		{hosted, testrelease.Version, "the control plane is hosted elsewhere: HostedCluster and NodePool on the management cluster choose the release", nil},
		{dump, "4.30.1", "ClusterVersion does not offer this version; it offers 4.20.10, 4.21.3, 4.21.4", nil},
		{dump, "desired", "spec.desiredUpdate of ClusterVersion names no release", nil},
		{dump, "next", "--release is about the configuration in force: leave out -f", []string{"-f", dump}},
		{dump, "next", "--output sarif: with --release, choose one of", []string{"-o", "sarif"}},
		{dump, "4.21.4", "says that it is 4.21.3", nil},
		{dump, testrelease.PayloadSource + "@" + hash.String(), "it is no release image: its layer sha256:", nil},
		{dump, s.Mirror + "/openshift/release-images:4.21.3", "it could not be found out which digest the tag stands for", nil},
	} {
		wantOutcome(t, s.check(t, tt.dump, tt.asked, tt.args...), cli.ExitTrouble, tt.want)
	}
	tag := s.Mirror + "/mirrored/elsewhere:4.21.3"
	if err := s.Copy(tag); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, s.check(t, dump, tag), cli.ExitAdmitted, "the tag "+tag+" stands for "+s.Digest, "ClusterVersion offers this release as "+testrelease.Source+"@"+s.Digest)
	wantOutcome(t, invoke(t, "", "check", "--ack", "--from", dump), cli.ExitTrouble, "--ack: only with --release")
}

// TestReleaseDoors: a live cluster and a snapshot of it give the same answer.
func TestReleaseDoors(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 8)}
	c := newCluster(t)
	apply(t, c.Cluster, s.Objects(s.Signed))
	s.Without()
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
	s.Without(s.PartOf("cluster-version-operator", "signature").Path)
	got := invoke(t, "", "check", "--release", testrelease.Version, "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	wantOutcome(t, got, cli.ExitDenied, "cluster-version-operator  NOT READY", "SignatureMissing", "required by ClusterImagePolicy openshift")

	if out, err := c.Kubectl(t.Context(), "", "delete", "customresourcedefinitions", "clusterversions.config.openshift.io"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got = invoke(t, "", "check", "--release", testrelease.Version, "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	wantOutcome(t, got, cli.ExitTrouble, "--release 4.21.3: there is no ClusterVersion")
}

// apply creates objects, with their status.
func apply(t *testing.T, c clitest.Cluster, objects string) {
	t.Helper()
	c.ApplyWithStatus(t, objects)
}

// same returns what does not depend on the way of asking.
func same(t *testing.T, got clitest.Outcome) string {
	t.Helper()
	doc := decodeRelease(t, got)
	doc.Seconds, doc.Notes = 0, nil
	doc.Remedy = regexp.MustCompile(` --(from|kubeconfig|pull-secret) \S+`).ReplaceAllString(doc.Remedy, "")
	data, err := json.MarshalIndent(v1alpha1.ReleaseReview(doc), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReleasePlan: --plan has what the mirror lacks of a release, from where its images are at home.
func TestReleasePlan(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 6)}
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	s.Without(s.PartOf("cluster-version-operator", "image").Path, s.PartOf("component-004", "signature").Path)
	got := s.check(t, dump, testrelease.Version, "--plan", "sh", "--missing")
	for _, want := range []string{
		"copy --all --preserve-digests --dest-tls-verify=false docker://" + testrelease.PayloadSource + "@",
		"docker://" + s.Mirror + "/openshift/release@",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("no %q in:\n%s%s", want, got.Out, got.Err)
		}
	}
}
