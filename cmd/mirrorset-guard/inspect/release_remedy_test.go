package inspect

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// TestReleaseAltered: a layer whose bytes do not have its digest is refused, however well it reads.
func TestReleaseAltered(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitAdmitted, "READY: Release 4.21.3")
	s.Alter("/v2/"+s.PartOf("release", "layer").Path, "component-003", "component-004")
	got := s.check(t, dump, testrelease.Version)
	wantOutcome(t, got, cli.ExitTrouble, "error verifying sha256 checksum")
	if strings.Contains(got.Out+got.Err, "component-004") || strings.Contains(got.Out, "READY: Release") {
		t.Errorf("what was altered counts:\n%s%s", got.Out, got.Err)
	}
}

// TestReleaseAsksNobodyElse: all traffic goes through a proxy, which sees no host but the mirror: neither the source, which
// nodes would ask after it, nor any other.
func TestReleaseAsksNobodyElse(t *testing.T) {
	const mirror = "mirror.example.com:5000"
	s := releaseStage{testrelease.Mirrored(t, 8)}
	s.Without()
	var mu sync.Mutex
	var hosts []string
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Mirror})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hosts = append(hosts, r.Host)
		mu.Unlock()
		if r.Method == http.MethodConnect || r.Host != mirror {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	seen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := slices.Compact(slices.Sorted(slices.Values(hosts)))
		hosts = nil
		return all
	}
	objects := strings.ReplaceAll(strings.ReplaceAll(s.Objects(s.Signed), s.Mirror, mirror), "NeverContactSource", "AllowContactingSource")
	c := clitest.NewCluster(t)
	apply(t, c, objects+`---
apiVersion: config.openshift.io/v1
kind: Proxy
metadata: {name: cluster}
spec: {httpProxy: "`+proxy.URL+`", httpsProxy: "`+proxy.URL+`"}
status: {httpProxy: "`+proxy.URL+`", httpsProxy: "`+proxy.URL+`"}
`)
	check := func() clitest.Outcome {
		return invoke(t, "", "check", "--release", testrelease.Version, "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	}
	wantOutcome(t, check(), cli.ExitAdmitted, "READY: Release 4.21.3")
	if got := seen(); !slices.Equal(got, []string{mirror}) {
		t.Errorf("the mirror has everything, and these were asked: %q", got)
	}
	s.Without(s.PartOf("component-004", "image").Path)
	check()
	if got := seen(); !slices.Equal(got, []string{mirror, "quay.io:443"}) {
		t.Errorf("the mirror lacks an image, and these were asked: %q", got)
	}
}

// TestReleaseRemedy: the script that is printed for what is missing makes an empty mirror hold the release: first
// its release image, then what that names.
func TestReleaseRemedy(t *testing.T) {
	path := skopeoFolder(t)
	s := releaseStage{testrelease.AtHome(t, 8)}
	s.Without()
	mirror := plainRegistry(t)
	objects := strings.ReplaceAll(s.Objects(s.Signed), `mirrors: ["`+s.Mirror, `mirrors: ["`+mirror)
	objects = strings.Replace(objects, `insecureRegistries: ["`, `insecureRegistries: ["`+mirror+`", "`, 1)
	dump := clitest.Written(t, "dump.yaml", objects)
	for _, want := range []string{"Which images it consists of is not known", "8 cannot"} {
		wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitDenied, "NOT READY: Release", want, "check --release 4.21.3 --from "+dump+" --plan sh --missing > copy.sh && sh copy.sh")
		plan := s.check(t, dump, testrelease.Version, "--plan", "sh", "--missing")
		wantOutcome(t, plan, cli.ExitAdmitted, "docker://"+mirror+"/openshift/release")
		if first := want != "8 cannot"; strings.Contains(plan.Out, "# Note: the release image names others: once it is copied, ask again for what those lack\n") != first {
			t.Errorf("whether there is more to copy:\n%s", plan.Out)
		}
		cmd := exec.CommandContext(t.Context(), "sh")
		cmd.Stdin = strings.NewReader(plan.Out)
		cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, plan.Out)
		}
	}
	wantOutcome(t, s.check(t, dump, testrelease.Version), cli.ExitAdmitted, "READY: Release 4.21.3", "9 of 9 images")
}

// TestReleasePin: the sets that --pin prints for a release are taken by the API server, and hold what nodes may run of it;
// without one image nothing is printed.
func TestReleasePin(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 8)}
	c := clitest.NewCluster(t)
	apply(t, c, s.Objects(s.Signed))
	s.Without()
	pin := func() clitest.Outcome {
		return invoke(t, "", "check", "--release", testrelease.Version, "--pin", "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	}
	got := pin()
	wantOutcome(t, got, cli.ExitAdmitted, "# Pool worker: 7 images; ", "Note: every pool gets all images, as it is not known which of them today's release runs in which pool: ", " compressed, ", "name: release-worker-1", "- name: "+s.Releases+"@"+s.Digest)
	for _, p := range s.Parts {
		if digest := p.Path[strings.LastIndex(p.Path, "/")+1:]; p.What == "image" && strings.HasPrefix(p.Name, "rhel-coreos") && strings.Contains(got.Out, digest) {
			t.Errorf("%s is pinned, and nodes do not take it from there", p.Name)
		}
	}
	if out, err := c.Kubectl(t.Context(), got.Out, "apply", "-f", "-"); err != nil || !strings.Contains(out, "release-worker-1") {
		t.Errorf("%v\n%s", err, out)
	}
	s.Without(s.PartOf("component-004", "image").Path)
	if got := pin(); got.Code != cli.ExitDenied || got.Out != "" || !strings.Contains(got.Err, "NOT READY: Release 4.21.3") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	wantOutcome(t, invoke(t, "", "check", "--release", testrelease.Version, "--pin", "--ack", "--kubeconfig", c.Kubeconfig), cli.ExitTrouble, "--ack is a question of its own")
}

// masterPool is the pool of the control plane's nodes.
const masterPool = `---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: master}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: master}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/master: ""}}
`

// TestReleasePinPools: pools of other nodes do without images that the release runs on the control plane only, unless one of their nodes
// runs them today, or that is not known.
func TestReleasePinPools(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 8)}
	s.Without()
	today := strings.ReplaceAll(s.Objects(s.Signed), "sha256:"+strings.Repeat("a", 64), s.Digest)
	pod := func(node, name string) string {
		path := s.PartOf(name, "image").Path
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: openshift-a, name: " + name + "-" + node + "}\nspec: {nodeName: " + node + ", containers: [{name: a, image: \"" + s.Images + "@" + path[strings.LastIndex(path, "/")+1:] + "\"}]}\n"
	}
	masters := masterPool
	begun := func(pod string) string { return strings.Replace(pod, "containers: [", "initContainers: [", 1) }
	for _, tt := range []struct {
		reason, objects string
		want            []string
	}{
		{"workers run others", today + masters + pod("a", "component-006") + pod("b", "component-005"), []string{"# Pool master: 7 images; ", "# Pool worker: 5 images; "}},
		{"a worker runs one of the control plane's", today + masters + pod("b", "component-006") + pod("b", "component-005"), []string{"# Pool master: 7 images; ", "# Pool worker: 6 images; "}},
		{"a pod of a worker begins with one of them", today + masters + begun(pod("b", "component-006")) + pod("b", "component-005"), []string{"# Pool master: 7 images; ", "# Pool worker: 6 images; "}},
		{"which pods run is not known", today + masters, []string{"# Pool worker: 7 images; "}},
		{"an update is under way", strings.Replace(today, "state: Completed", "state: Partial", 1) + masters + pod("b", "component-005"), []string{"# Pool worker: 7 images; ", "Note: every pool gets all images, as it is not known which of them today's release runs in which pool: an update is under way, or may be"}},
		{"one node is both", strings.ReplaceAll(today, `{node-role.kubernetes.io/worker: ""}}`+"\nstatus", `{node-role.kubernetes.io/worker: "", node-role.kubernetes.io/control-plane: ""}}`+"\nstatus") + masters + pod("b", "component-005"), []string{"# Pool worker: 7 images; "}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			wantOutcome(t, s.check(t, clitest.Written(t, "dump.yaml", tt.objects), testrelease.Version, "--pin"), cli.ExitAdmitted, tt.want...)
		})
	}
}

// TestPinRescue: --rescue pins what is wanted on the day something is wrong, for each pool, before a change and before an update. What is named by
// tag is said.
func TestPinRescue(t *testing.T) {
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
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed)+`---
apiVersion: image.openshift.io/v1
kind: ImageStream
metadata: {namespace: openshift, name: must-gather}
spec: {tags: [{name: latest, from: {kind: DockerImage, name: "`+rescue+`"}}]}
---
apiVersion: image.openshift.io/v1
kind: ImageStream
metadata: {namespace: openshift, name: tools}
spec: {tags: [{name: latest, from: {kind: DockerImage, name: "`+s.Images+`:tools"}}]}
`)
	change := clitest.Written(t, "change.yaml", "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: other}\nspec: {imageDigestMirrors: [{source: quay.io/other, mirrors: [mirror.example.com/other]}]}\n")
	pinned := "- name: " + rescue + "\n"
	before := func(args ...string) clitest.Outcome {
		return invoke(t, "", append([]string{"check", "-f", change, "--pin", "--from", dump, "--allow-loopback"}, args...)...)
	}
	wantOutcome(t, before(), cli.ExitTrouble, "no drain moves a pod")
	wantOutcome(t, before("--rescue"), cli.ExitAdmitted, pinned, "name: pinned-worker-1", "# Not enough: "+s.Images+":tools (rescue set, pool worker): it is named by tag", "Note: a registry is needed all the same, for 1 image")
	if got := s.check(t, dump, testrelease.Version, "--pin"); strings.Contains(got.Out, pinned) {
		t.Errorf("the rescue set is pinned, and was not wanted:\n%s", got.Out)
	}
	wantOutcome(t, s.check(t, dump, testrelease.Version, "--pin", "--rescue"), cli.ExitAdmitted, pinned, "name: release-worker-1", "- name: "+s.Releases+"@"+s.Digest, ":tools (rescue set")
	wantOutcome(t, s.check(t, dump, testrelease.Version, "--rescue"), cli.ExitTrouble, "--rescue: only with --pin")

	component := s.PartOf("component-003", "image").Path
	s.Without(component[:strings.LastIndex(component, "/")+1] + hash.String())
	part := s.check(t, dump, testrelease.Version, "--pin", "--rescue")
	wantOutcome(t, part, cli.ExitDenied, "name: release-worker-1", "- name: "+s.Releases+"@"+s.Digest, "# Not enough: "+rescue+" (rescue set, pool worker): PinnedImageMissing: ", "1 image is left out")
	if strings.Contains(part.Out, pinned) {
		t.Errorf("it is pinned, and cannot be pulled:\n%s", part.Out)
	}
}
