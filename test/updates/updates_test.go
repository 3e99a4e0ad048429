package updates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/release"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

const (
	toRelease = `{"version": "` + release.Version + `"}`
	none      = `{"spec": {"desiredUpdate": null}}`
	back      = `{"spec": {"desiredUpdate": {"version": "4.20.9"}}}`
)

// TestUpdates: an update to what is not ready warns, or is refused by setting, and nothing else is in anybody's way.
func TestUpdates(t *testing.T) {
	s := newStage(t, 12)
	os := s.PartOf("rhel-coreos", "layer").Path

	s.Without(os)
	warning := s.guard(t, "")
	s.knows(t, warning)
	out, err := s.update(t, toRelease)
	wants(t, "by default", out, err, true, "Warning: ReleaseNotReady: release 4.21.3: 1 of its 13 images cannot be pulled by all nodes that need it",
		"Warning: - rhel-coreos: ", "Warning: For the full list: mirrorset-guard check --release 4.21.3")
	s.silently(t, "the same again", fmt.Sprintf(`{"spec": {"desiredUpdate": %s}}`, toRelease))
	s.silently(t, "another field beside it", `{"spec": {"channel": "fast-4.20"}}`)
	s.silently(t, "taken back", none)
	out, err = s.update(t, `{"version": "4.99.0"}`)
	wants(t, "not offered", out, err, true, "Warning: CVO does not begin this update: ClusterVersion does not offer this version; it offers 4.20.10, 4.21.3, 4.21.4")
	s.silently(t, "back to what runs", back)
	warning.Stop(t)

	s.Without()
	ready := s.guard(t, denies)
	s.knows(t, ready)
	out, err = s.update(t, toRelease)
	wants(t, "ready", out, err, true, "Warning: ClusterVersion version: release 4.21.3 is ready: all nodes can pull what they need of its 13 images")
	s.silently(t, "taken back", none)
	out, err = s.update(t, fmt.Sprintf(`{"image": "%s@%s"}`, s.Releases, s.Digest))
	wants(t, "by image", out, err, true, "release 4.21.3 is ready")
	s.silently(t, "taken back", none)
	out, err = s.update(t, `{"version": "4.20.9", "architecture": "Multi"}`)
	wants(t, "to all architectures", out, err, false, "ReleaseUnknown: which release has all architectures is not known before CVO has asked the update service for it")
	ready.Stop(t)

	s.Without(os)
	refusing := s.guard(t, denies)
	s.knows(t, refusing)
	out, err = s.update(t, toRelease)
	wants(t, "by setting", out, err, false, `admission webhook "updates.mirrorset-guard.io" denied the request: ClusterVersion version is refused: release 4.21.3: 1 of its 13 images`,
		"- ReleaseNotReady: rhel-coreos: ", "To do: mirrorset-guard sync --release 4.21.3", "For the full list: mirrorset-guard check --release 4.21.3")
	s.override(t, out)
	s.silently(t, "taken back", none)
	s.silently(t, "forced", `{"spec": {"desiredUpdate": {"version": "4.21.3", "force": true}}}`)
	s.silently(t, "back to what runs", back)
	s.silently(t, "taken back", none)
	s.silently(t, "by CVO", fmt.Sprintf(`{"spec": {"desiredUpdate": %s}}`, toRelease), "--as="+policy.VersionOperator, "--as-group=system:masters")
	s.silently(t, "taken back", none)
	s.silently(t, "by CVO until 4.21", fmt.Sprintf(`{"spec": {"desiredUpdate": %s}}`, toRelease), "--as="+policy.FormerVersionOperator, "--as-group=system:masters")
	s.silently(t, "taken back", none)
	s.silently(t, "other fields", `{"spec": {"channel": "eus-4.20", "upstream": "https://updates.example.com", "overrides": [{"kind": "Deployment", "group": "apps", "namespace": "a", "name": "b", "unmanaged": true}], "capabilities": {"baselineCapabilitySet": "None"}}, "metadata": {"labels": {"a": "b"}}}`)

	s.forge(t, refusing)
	out, err = s.update(t, toRelease, "--dry-run=server")
	wants(t, "after forged reviews", out, err, false, "1 of its 13 images")

	refusing.Kill(t)
	out, err = s.update(t, toRelease)
	wants(t, "the guard is dead", out, err, true)
}

// override carries out what a refusal says, which the guard reports once it is in force.
func (s *stage) override(t *testing.T, refusal string) {
	t.Helper()
	annotation := regexp.MustCompile(regexp.QuoteMeta(webhook.OverrideAnnotation) + `: "([0-9a-f]{8}): <your reason>"`).FindStringSubmatch(refusal)
	if annotation == nil {
		t.Fatalf("it does not say how to override:\n%s", refusal)
	}
	value := annotation[1] + ": the mirror follows tonight"
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}, "spec": {"desiredUpdate": %s}}`, webhook.OverrideAnnotation, value, toRelease)
	out, err := s.patch(t, patch)
	wants(t, "overridden", out, err, true, "Warning: OVERRIDDEN by ", "the mirror follows tonight")
	deadline := time.Now().Add(process.Patience)
	for {
		out, err := s.cluster.Kubectl(t.Context(), "", "get", "events.events.k8s.io", "-A", "-o", `jsonpath={range .items[?(@.reason=="Overridden")]}{.regarding.kind} {.regarding.name}: {.note}{"\n"}{end}`)
		must(t, err)
		if strings.Contains(out, "ClusterVersion version: ") && strings.Contains(out, "the mirror follows tonight") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no Event tells of the override:\n%s", out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// forge sends the guard reviews of updates that no API server has asked for, to as many releases.
func (s *stage) forge(t *testing.T, g *process.Process) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	var group errgroup.Group
	group.SetLimit(10)
	for i := range 60 {
		group.Go(func() error {
			body := fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u%[1]d", "operation": "UPDATE", "name": "version",
				"kind": {"group": "config.openshift.io", "version": "v1", "kind": "ClusterVersion"}, "userInfo": {"username": "nobody"},
				"oldObject": {"metadata": {"name": "version"}, "spec": {}}, "object": {"metadata": {"name": "version"}, "spec": {"desiredUpdate": {"image": "%[2]s@sha256:%064[1]x"}}}}}`, i+1, s.Releases)
			resp, err := client.Post("https://"+g.Listen+webhook.Path+"?timeout=15s", "application/json", bytes.NewReader([]byte(body)))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(text, &review); err != nil {
				return err
			}
			if review.Response == nil || review.Response.Allowed {
				return fmt.Errorf("%d: %s", resp.StatusCode, text)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Errorf("a forged review: %v", err)
	}
}

// TestUpdateInTime: with 190 images that were never asked for, at a registry that takes its time, the answer comes
// while the API server waits, and says how many are not known; they are looked up all the same, and then known.
func TestUpdateInTime(t *testing.T) {
	s := newStage(t, 190)
	g := s.guard(t, denies)
	s.delay.Store(int64(2 * time.Second)) // less than what a request may take
	out, err := s.update(t, toRelease)
	wants(t, "in time", out, err, false, "of its 191 images are still being looked up; ask again in 10 s", "- ReleaseUnknown: ")
	answered := s.requests.Load()
	s.delay.Store(0)
	asked := int64(-1)
	g.Eventually(t, "nothing more is looked up", func() bool {
		before := asked
		time.Sleep(3 * time.Second) // that no request comes has no event
		asked = s.requests.Load()
		return before == asked && s.open.Load() == 0
	})
	if asked == answered {
		t.Error("what was not known yet is not looked up")
	}
	s.knows(t, g) // as far as a busy machine has let a request time out
	s.delay.Store(int64(time.Hour))
	out, err = s.update(t, toRelease)
	wants(t, "later", out, err, true, "release 4.21.3 is ready: all nodes can pull what they need of its 191 images")
}
