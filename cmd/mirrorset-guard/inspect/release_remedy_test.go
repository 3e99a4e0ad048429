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
)

// TestReleaseAltered: a layer whose bytes do not have its digest is refused, however well it reads.
func TestReleaseAltered(t *testing.T) {
	s := newReleaseStage(t, 4)
	s.without()
	dump := clitest.Written(t, "dump.yaml", s.objects(s.signed))
	wantOutcome(t, s.check(t, dump, newVersion), cli.ExitAdmitted, "READY: Release 4.21.3")
	s.mu.Lock()
	s.altered["/v2/"+s.partOf("release", "layer").path] = [2]string{"component-003", "component-004"}
	s.mu.Unlock()
	got := s.check(t, dump, newVersion)
	wantOutcome(t, got, cli.ExitTrouble, "error verifying sha256 checksum")
	if strings.Contains(got.Out+got.Err, "component-004") || strings.Contains(got.Out, "READY: Release") {
		t.Errorf("what was altered counts:\n%s%s", got.Out, got.Err)
	}
}

// TestReleaseAsksNobodyElse: all traffic goes through a proxy, which sees no host but the mirror: neither the source, which
// nodes would ask after it, nor any other.
func TestReleaseAsksNobodyElse(t *testing.T) {
	const mirror = "mirror.example.com:5000"
	s := newReleaseStage(t, 8)
	s.without()
	var mu sync.Mutex
	var hosts []string
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.mirror})
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
	objects := strings.ReplaceAll(strings.ReplaceAll(s.objects(s.signed), s.mirror, mirror), "NeverContactSource", "AllowContactingSource")
	c := clitest.NewCluster(t)
	apply(t, c, objects+`---
apiVersion: config.openshift.io/v1
kind: Proxy
metadata: {name: cluster}
spec: {httpProxy: "`+proxy.URL+`", httpsProxy: "`+proxy.URL+`"}
status: {httpProxy: "`+proxy.URL+`", httpsProxy: "`+proxy.URL+`"}
`)
	check := func() clitest.Outcome {
		return invoke(t, "", "check", "--release", newVersion, "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	}
	wantOutcome(t, check(), cli.ExitAdmitted, "READY: Release 4.21.3")
	if got := seen(); !slices.Equal(got, []string{mirror}) {
		t.Errorf("the mirror has everything, and these were asked: %q", got)
	}
	s.without(s.partOf("component-004", "image").path)
	check()
	if got := seen(); !slices.Equal(got, []string{mirror, "quay.io:443"}) {
		t.Errorf("the mirror lacks an image, and these were asked: %q", got)
	}
}

// TestReleaseRemedy: the script that is printed for what is missing makes an empty mirror hold the release: first
// its release image, then what that names.
func TestReleaseRemedy(t *testing.T) {
	path := skopeoFolder(t)
	s := newReleaseHome(t, 8)
	s.without()
	mirror := plainRegistry(t)
	objects := strings.ReplaceAll(s.objects(s.signed), `mirrors: ["`+s.mirror, `mirrors: ["`+mirror)
	objects = strings.Replace(objects, `insecureRegistries: ["`, `insecureRegistries: ["`+mirror+`", "`, 1)
	dump := clitest.Written(t, "dump.yaml", objects)
	for _, want := range []string{"Which images it consists of is not known", "8 cannot"} {
		wantOutcome(t, s.check(t, dump, newVersion), cli.ExitDenied, "NOT READY: Release", want, "check --release 4.21.3 --plan sh --missing > copy.sh && sh copy.sh")
		plan := s.check(t, dump, newVersion, "--plan", "sh", "--missing")
		wantOutcome(t, plan, cli.ExitAdmitted, "docker://"+mirror+"/openshift/release")
		cmd := exec.CommandContext(t.Context(), "sh")
		cmd.Stdin = strings.NewReader(plan.Out)
		cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, plan.Out)
		}
	}
	wantOutcome(t, s.check(t, dump, newVersion), cli.ExitAdmitted, "READY: Release 4.21.3", "9 of 9 images")
}

// TestReleasePin: the sets that --pin prints for a release are taken by the API server, and hold what nodes may run of it;
// without one image nothing is printed.
func TestReleasePin(t *testing.T) {
	s := newReleaseStage(t, 8)
	c := clitest.NewCluster(t)
	apply(t, c, s.objects(s.signed))
	s.without()
	pin := func() clitest.Outcome {
		return invoke(t, "", "check", "--release", newVersion, "--pin", "--kubeconfig", c.Kubeconfig, "--allow-loopback")
	}
	got := pin()
	wantOutcome(t, got, cli.ExitAdmitted, "# Pool worker: 7 images; ", " compressed, ", "name: release-worker-1", "- name: "+s.releases+"@"+s.digest)
	for _, p := range s.parts {
		if digest := p.path[strings.LastIndex(p.path, "/")+1:]; p.what == "image" && strings.HasPrefix(p.name, "rhel-coreos") && strings.Contains(got.Out, digest) {
			t.Errorf("%s is pinned, and nodes do not take it from there", p.name)
		}
	}
	if out, err := c.Kubectl(t.Context(), got.Out, "apply", "-f", "-"); err != nil || !strings.Contains(out, "release-worker-1") {
		t.Errorf("%v\n%s", err, out)
	}
	s.without(s.partOf("component-004", "image").path)
	if got := pin(); got.Code != cli.ExitDenied || got.Out != "" || !strings.Contains(got.Err, "NOT READY: Release 4.21.3") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	wantOutcome(t, invoke(t, "", "check", "--release", newVersion, "--pin", "--ack", "--kubeconfig", c.Kubeconfig), cli.ExitTrouble, "--ack is a question of its own")
}
