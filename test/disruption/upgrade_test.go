package disruption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// An edition is a version of the guard. There is no release yet: unless PREVIOUS_GUARD names an earlier
// program (make upgrade PREVIOUS=REVISION builds it), both are of this tree.
type edition struct {
	name, binary string
	// pods are all that were started of it.
	pods []*pod
}

func (s *stage) editions(t *testing.T) (previous, next *edition) {
	t.Helper()
	next = &edition{name: "next", binary: filepath.Join(s.dir, "next")}
	if err := cluster.BuildVersion(next.binary, "v0.0.2-next"); err != nil {
		t.Fatal(err)
	}
	previous = &edition{name: "previous", binary: os.Getenv("PREVIOUS_GUARD")}
	if previous.binary == "" {
		previous.binary = filepath.Join(s.dir, "previous")
		if err := cluster.BuildVersion(previous.binary, "v0.0.1-previous"); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []*edition{previous, next} {
		out, err := exec.CommandContext(t.Context(), e.binary, "version").Output()
		if err != nil {
			t.Fatal(err)
		}
		version, _, _ := strings.Cut(string(out), "\n")
		t.Logf("%s: %s", e.name, version)
	}
	return previous, next
}

// TestUpgrade: while a Deployment goes from one version to the next and back, behind one Service and
// under load, each change gets the right verdict, also of two that break each other and reach different
// versions. What one version writes the other reads, or refuses with a word.
func TestUpgrade(t *testing.T) {
	s := newStage(t)
	previous, next := s.editions(t)
	s.flags = []string{"--leader-elect"}
	pods := []*pod{s.startOf(t, previous), s.startOf(t, previous)}
	for _, p := range pods {
		s.join(t, p)
	}
	load.AwaitGuarded(t, s.api)
	pods = s.updateTo(t, pods, next)
	pods = s.updateTo(t, pods, previous)
	for _, p := range pods {
		s.delete(t, p, quick)
	}
	s.testLog(t, previous, next)
	s.testConfiguration(t, previous, next)
	s.testDumps(t, previous, next)
}

func (s *stage) startOf(t *testing.T, e *edition) *pod {
	t.Helper()
	s.binary = e.binary
	p := s.start(t, s.secret.Dir, quick)
	e.pods = append(e.pods, p)
	return p
}

// updateTo replaces the pods as the Deployment does, under load. While there is one of each version, changes
// that break each other are made, too.
func (s *stage) updateTo(t *testing.T, pods []*pod, e *edition) []*pod {
	t.Helper()
	fresh := make([]*pod, len(pods))
	for i, old := range pods {
		load.Under(t, s.api, fmt.Sprintf("pod %d of %d becomes one of the %s version", i+1, len(pods), e.name), func() {
			fresh[i] = s.startOf(t, e)
			s.join(t, fresh[i])
			s.delete(t, old, quick)
		})
		if s.guard.connections(old.listen) == 0 {
			t.Errorf("%s was never used", old.name)
		}
		if i == 0 {
			s.race(t, e)
		}
	}
	return fresh
}

// races is how many pairs of changes are made with one pod of each version.
const races = 20

// race makes changes of which MCO takes either, and not both, at the same moment. One of them is admitted,
// whichever versions they reach.
func (s *stage) race(t *testing.T, e *edition) {
	t.Helper()
	run := func() {
		for n := range races {
			if err := s.raceDecided(t, fmt.Sprintf("race-%s-%d", e.name, n)); err != nil {
				t.Error(err)
			}
		}
	}
	if os.Getenv("PREVIOUS_GUARD") != "" {
		run() // earlier versions refused dry runs because of both, before one was refused
		return
	}
	load.Under(t, s.api, "one pod of each version, and races", run)
}

var digestSets = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "imagedigestmirrorsets"}

// errUndecided is a change on which there was no verdict, as on a machine that has other things to do.
var errUndecided = errors.New("no verdict")

// mostRaces is how often a pair is tried until there is a verdict on both.
const mostRaces = 5

// raceDecided makes a pair of changes under other names until there is a verdict on both, and returns what is
// wrong with the answers.
func (s *stage) raceDecided(t *testing.T, name string) error {
	t.Helper()
	for tries := 1; ; tries++ {
		err := s.raceOnce(t.Context(), fmt.Sprintf("%s-%d", name, tries))
		if tries == mostRaces || !errors.Is(err, errUndecided) {
			return err
		}
		t.Log(err)
	}
}

func isUndecided(err error) bool {
	return err != nil && (apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		strings.Contains(err.Error(), "there is no verdict"))
}

// remove deletes a mirror set, until there is a verdict on that.
func (s *stage) remove(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	err := s.api.Resource(resource).Delete(ctx, name, metav1.DeleteOptions{})
	for tries := 1; isUndecided(err) && tries < mostRaces; tries++ {
		err = s.api.Resource(resource).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil // the last try has removed it after all
		}
	}
	return err
}

// raceOnce returns what is wrong with the answers, errUndecided if one of them is no verdict.
func (s *stage) raceOnce(ctx context.Context, name string) error {
	object := func(kind, field, policy string) *unstructured.Unstructured {
		entry := map[string]any{"source": name + ".example.com", "mirrors": []any{"mirror.example.com/empty"}}
		if policy != "" {
			entry["mirrorSourcePolicy"] = policy
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{field: []any{entry}},
		}}
	}
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() {
		_, errs[0] = s.api.Resource(digestSets).Create(ctx, object("ImageDigestMirrorSet", "imageDigestMirrors", ""), metav1.CreateOptions{})
	})
	both.Go(func() {
		_, errs[1] = s.api.Resource(load.Resource).Create(ctx, object("ImageTagMirrorSet", "imageTagMirrors", "NeverContactSource"), metav1.CreateOptions{})
	})
	both.Wait()
	admitted, undecided := 0, false
	for i, resource := range []schema.GroupVersionResource{digestSets, load.Resource} {
		switch err := errs[i]; {
		case err == nil:
			admitted++
			if err := s.remove(ctx, resource, name); err != nil {
				return fmt.Errorf("%s: deleting it: %w", name, err)
			}
		case isUndecided(err):
			undecided = true
		case !strings.Contains(err.Error(), "RejectedByMCO"):
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	switch {
	case undecided:
		return fmt.Errorf("%s: %w: %w", name, errUndecided, errors.Join(errs[:]...))
	case admitted != 1:
		return fmt.Errorf("%s: %d were admitted, want one: %w", name, admitted, errors.Join(errs[:]...))
	}
	return nil
}

// testLog: neither version took what the other wrote into the Lease for garbage.
func (s *stage) testLog(t *testing.T, editions ...*edition) {
	t.Helper()
	written, err := s.Kubectl(t.Context(), "", "-n", webhook.Namespace, "get", "lease", recent.LeaseName)
	if err != nil {
		t.Errorf("replicas shared nothing: %s", written)
	}
	for _, e := range editions {
		for _, p := range e.pods {
			for line := range bytes.Lines(p.log.Bytes()) {
				if bytes.Contains(line, []byte("content that no guard writes")) || bytes.Contains(line, []byte("cannot be read here")) {
					t.Errorf("%s %s: %s", e.name, p.name, line)
				}
			}
		}
	}
}

// run runs a command of e, which may end with some exit codes.
func (e *edition) run(t *testing.T, stdout string, codes []int, args ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.binary, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if stdout != "" {
		file, err := os.Create(stdout)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close() //nolint:errcheck // the process has it
		cmd.Stdout = file
	}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	code = cmd.ProcessState.ExitCode()
	for _, c := range codes {
		if c == code {
			return code, out.String()
		}
	}
	t.Errorf("%s: %s: exit code %d, want one of %v\n%s", e.name, strings.Join(args[:min(3, len(args))], " "), code, codes, out.String())
	return code, out.String()
}

// testConfiguration: the next version reads the ConfigMap of the previous one, which stays when only the
// image is replaced. The previous version reads that of the next, or says which fields it does not know.
func (s *stage) testConfiguration(t *testing.T, previous, next *edition) {
	t.Helper()
	files := map[*edition]string{previous: filepath.Join(s.dir, "previous.yaml"), next: filepath.Join(s.dir, "next.yaml")}
	for e, file := range files {
		e.run(t, file, []int{0}, "config", "defaults")
	}
	next.run(t, "", []int{0}, "config", "validate", files[previous])
	if code, output := previous.run(t, "", []int{0, 1, 2}, "config", "validate", files[next]); code != 0 {
		t.Logf("the previous version refuses the next one's configuration: %s", output)
		if !strings.Contains(output, "next.yaml: ") {
			t.Errorf("it does not say why: %s", output)
		}
	}
}

// testDumps: with a dump of the previous version, the next one judges as with the cluster. The previous one
// does so with a dump of the next, or says that a later version has written it.
func (s *stage) testDumps(t *testing.T, previous, next *edition) {
	t.Helper()
	change := filepath.Join(s.dir, "bad.yaml")
	err := os.WriteFile(change, []byte(`
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: bad}
spec: {imageTagMirrors: [{source: quay.io/bank, mirrors: [mirror.example.com/bank]}]}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, direction := range [][2]*edition{{previous, next}, {next, previous}} {
		by, reader := direction[0], direction[1]
		dump := filepath.Join(s.dir, by.name+".json")
		by.run(t, "", []int{0}, "snapshot", "-f", dump, "--kubeconfig", s.Kubeconfig)
		codes := []int{1}
		if reader == previous {
			codes = []int{1, 2}
		}
		code, output := reader.run(t, "", codes, "check", "-f", change, "--from", dump, "--registry-ca", filepath.Join(s.dir, "registry.pem"), "--allow-loopback",
			"--resolve", load.MirrorHost+"="+s.registry.address, "--resolve", load.SourceHost+"="+s.registry.address)
		switch {
		case code == 1 && !strings.Contains(output, "mirror.example.com/bank/vault:v1"):
			t.Errorf("%s judges with a dump of %s:\n%s", reader.name, by.name, output)
		case code == 2:
			t.Logf("the previous version refuses a dump of the next: %s", output)
			if !strings.Contains(output, "later version") {
				t.Errorf("it does not say why:\n%s", output)
			}
		}
	}
}
