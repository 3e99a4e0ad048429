package standing

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// TestTwoReplicas: one of two replicas reports what the mirror loses and has again. A
// mirror that is away is no news. A replica that loses the lead stops reporting, and
// nothing else.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	flags := []string{"--leader-elect", "--config", s.shortly(t)}
	guards := []*guard{s.start(t, flags...), s.start(t, flags...)}
	leader := s.leader(t, guards)
	leader.Eventually(t, "all images are held", func() bool { return leader.images("held") == 3 })
	s.wantEvents(t) // what is fine is not reported

	s.remove(t, "cart")
	lost := s.nextEvent(t, standing.MirrorLostImage)
	wantEvent(t, lost, corev1.EventTypeWarning, "ImageTagMirrorSet",
		"1 image cannot be pulled from its mirrors (ImageMissing): quay.io/shop/cart:v1, used by Deployment shop/cart (app): "+
			`mirror.example.com/shop/cart:v1: mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"; `+
			"quay.io/shop/cart:v1: found")
	if out := s.kubectl(t, "", "describe", "imagetagmirrorset", "shop"); !strings.Contains(out, "MirrorLostImage") {
		t.Errorf("kubectl describe does not show it:\n%s", out)
	}
	if got := leader.Value("mirrorset_guard_standing_findings", "ImageMissing"); got != 1 {
		t.Errorf("%v findings of ImageMissing, want 1", got)
	}

	s.push(t, mirrorHost, "cart")
	wantEvent(t, s.nextEvent(t, standing.MirrorRecovered), corev1.EventTypeNormal, "ImageTagMirrorSet",
		"1 image is back at its mirror: quay.io/shop/cart:v1 at mirror.example.com/shop/cart:v1")

	must(t, s.mirror.Stop())
	leader.Eventually(t, "nobody can tell", func() bool { return leader.images("unverified") == 3 })
	leader.Eventually(t, "the mirror counts as unreachable", func() bool {
		return leader.Value("mirrorset_guard_standing_registries", "unreachable") == 1
	})
	before := leader.rounds()
	leader.Eventually(t, "some rounds have passed", func() bool { return leader.rounds() > before+10 })
	s.wantEvents(t, standing.MirrorLostImage, standing.MirrorRecovered)

	s.depose(t)
	leader.Eventually(t, "the leader gives up", func() bool { return !leader.verifies() })
	if !leader.Ready() {
		t.Error("it does not answer reviews any more")
	}
	must(t, s.kube.CoordinationV1().Leases(webhook.Namespace).Delete(t.Context(), webhook.ServiceName, metav1.DeleteOptions{}))
	leader = s.leader(t, guards)
	leader.Stop(t)
	s.leader(t, []*guard{guards[0], guards[1]})
	s.wantEvents(t, standing.MirrorLostImage, standing.MirrorRecovered)
}

// leader waits until one of guards verifies, and returns it.
func (s *stage) leader(t *testing.T, guards []*guard) *guard {
	t.Helper()
	deadline := time.After(process.Patience)
	for both := 0; ; {
		var leading []*guard
		for _, g := range guards {
			if g.verifies() {
				leading = append(leading, g)
			}
		}
		switch len(leading) {
		case 0:
		case 1:
			return leading[0]
		default: // one that loses the lead says so after its round
			if both++; both == 40 {
				t.Fatal("two replicas verify at a time")
			}
		}
		select {
		case <-deadline:
			t.Fatal("nobody becomes the leader")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// depose makes another holder the leader for a long time.
func (s *stage) depose(t *testing.T) {
	t.Helper()
	leases := s.kube.CoordinationV1().Leases(webhook.Namespace)
	now := metav1.NowMicro()
	patch, err := json.Marshal(coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("somebody else"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
	}})
	must(t, err)
	_, err = leases.Patch(t.Context(), webhook.ServiceName, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// events returns those that the guards have written.
func (s *stage) events(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := s.kube.EventsV1().Events(events.Namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var events []eventsv1.Event
	for _, e := range list.Items {
		if strings.HasPrefix(e.ReportingController, "mirrorset-guard.io/") {
			events = append(events, e)
		}
	}
	return events
}

func (s *stage) wantEvents(t *testing.T, reasons ...string) {
	t.Helper()
	counts := map[string]int{}
	events := s.events(t)
	for _, e := range events {
		counts[e.Reason]++
		if e.ReportingInstance != events[0].ReportingInstance {
			t.Errorf("%s and %s report", e.ReportingInstance, events[0].ReportingInstance)
		}
	}
	for _, reason := range reasons {
		if counts[reason] != 1 {
			t.Errorf("%d Events %s, want 1", counts[reason], reason)
		}
	}
	if len(events) != len(reasons) {
		t.Errorf("%d Events, want %d: %v", len(events), len(reasons), counts)
	}
}

// nextEvent waits for the first Event of a reason.
func (s *stage) nextEvent(t *testing.T, reason string) eventsv1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	watch, err := s.kube.EventsV1().Events(events.Namespace).Watch(ctx, metav1.ListOptions{}) // existing ones first
	must(t, err)
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if event, ok := e.Object.(*eventsv1.Event); ok && event.Reason == reason {
			return *event
		}
	}
	t.Fatalf("no Event %s after %s", reason, process.Patience)
	return eventsv1.Event{}
}

func wantEvent(t *testing.T, e eventsv1.Event, kind, object, note string) {
	t.Helper()
	if e.Type != kind || e.Note != note {
		t.Errorf("got a %s Event\n%s\nwant %s\n%s", e.Type, e.Note, kind, note)
	}
	if r := e.Regarding; r.Kind != object || r.Name != "shop" || r.APIVersion != "config.openshift.io/v1" || r.UID == "" {
		t.Errorf("it is about %+v, want %s shop", r, object)
	}
}

// TestUnreviewed: what decides where nodes pull from and no webhook sees is told of as it changes, and
// the next round begins at once. That a pool is to get what no object asks for is told after a minute, in which MCO might render.
func TestUnreviewed(t *testing.T) {
	t.Parallel()
	apply := []string{"apply", "-f", "-"}
	s := setUp(t)
	g := s.start(t, "--verify-every", "1h")
	other, err := certificates.SelfSigned(t.TempDir(), []string{"example.com"}, time.Hour)
	must(t, err)
	g.Eventually(t, "the first round is over", func() bool { return g.rounds() > 0 })
	s.kubectl(t, renderedByNobody, apply...)
	s.testRegistration(t, g)
	for _, change := range []struct {
		object, manifest string
		args             []string // of kubectl
	}{
		{"MachineConfig 50-proxies", `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 50-proxies, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  config:
    ignition: {version: 3.4.0}
    storage: {files: [{path: /etc/containers/registries.conf.d/50-proxies.conf, contents: {source: "data:,unqualified-search-registries%20%3D%20%5B%5D"}}]}
`, apply},
		{"Secret openshift-config/pull-secret", `
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths": {"example.com": {"auth": "YTpi"}}}'}
`, apply},
		{"ConfigMap openshift-config/user-ca-bundle", `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config, name: user-ca-bundle}
data:
  ca-bundle.crt: |
    ` + strings.ReplaceAll(strings.TrimSpace(string(other)), "\n", "\n    ") + `
`, apply},
		{"CustomResourceDefinition imagedigestmirrorsets.config.openshift.io", "", []string{
			"patch", "crd", "imagedigestmirrorsets.config.openshift.io", "--type=json", `--patch=[{"op": "add", "path": "/spec/names/shortNames", "value": ["mirrors"]}]`,
		}},
		{"CustomResourceDefinition imagetagmirrorsets.config.openshift.io", "", []string{"delete", "crd", "imagetagmirrorsets.config.openshift.io"}},
	} {
		before := g.rounds()
		s.kubectl(t, change.manifest, change.args...)
		g.Eventually(t, change.object+" is told of", func() bool {
			return slices.ContainsFunc(s.events(t), func(e eventsv1.Event) bool {
				return e.Reason == "ChangedWithoutReview" && strings.HasPrefix(e.Note, change.object+" has changed")
			})
		})
		g.Eventually(t, "a round begins", func() bool { return g.rounds() > before })
	}
	g.Eventually(t, "what no object asks for is told before a node has it", func() bool {
		return slices.ContainsFunc(s.events(t), func(e eventsv1.Event) bool {
			return e.Reason == "RenderedDiffers" && e.Type == corev1.EventTypeWarning &&
				strings.HasPrefix(e.Note, "MachineConfigPool worker is to get rendered-worker-other, which is not what mirror objects and MachineConfigs ask for: ")
		})
	})
}

// testRegistration: a guard that is not asked any more about all it was installed for says so, and
// what is lost meanwhile is reported with it. One that need not verify for an hour does so at once.
func (s *stage) testRegistration(t *testing.T, waits *guard) {
	t.Helper()
	g := s.start(t, "--config", s.shortly(t))
	g.Eventually(t, "all images are held", func() bool { return g.images("held") == 3 })
	const differences = "mirrorset_guard_registration_differences"
	if got := g.Value(differences, ""); got != 0 {
		t.Errorf("%v differences in what the manifests install", got)
	}
	configuration, before := []string{"validatingwebhookconfiguration", webhook.ServiceName}, waits.rounds()
	s.kubectl(t, "", append([]string{"patch", "--type=json", "-p", `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`}, configuration...)...)
	const says = "the webhooks are not registered as they were installed (mirrorsets.mirrorset-guard.io: failurePolicy is Ignore, not Fail: " +
		"changes are admitted if the guard does not answer): changes may have passed unseen since "
	changed := s.nextEvent(t, "RegistrationChanged")
	if !strings.HasPrefix(changed.Note, says) || changed.Type != corev1.EventTypeWarning || changed.Regarding.Name != webhook.ServiceName {
		t.Errorf("got %s Event %q about %+v", changed.Type, changed.Note, changed.Regarding)
	}
	g.Eventually(t, "metrics and /readyz say so", func() bool {
		_, notes := g.Readyz()
		return strings.Contains(notes, "note: "+says) && g.Value(differences, "") == 1
	})
	waits.Eventually(t, "a round begins", func() bool { return waits.rounds() > before })
	s.remove(t, "legacy")
	g.Eventually(t, "the loss is reported with it", func() bool {
		return slices.ContainsFunc(s.events(t), func(e eventsv1.Event) bool {
			return e.Reason == standing.MirrorLostImage && strings.HasPrefix(e.Note, "After ValidatingWebhookConfiguration mirrorset-guard changed at ") &&
				strings.Contains(e.Note, says) && strings.Contains(e.Note, ": 1 image cannot be pulled from its mirrors (ImageMissing): quay.io/shop/legacy:v1")
		})
	})
	s.kubectl(t, "", append([]string{"patch", "--type=json", "-p", `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]`}, configuration...)...)
	if restored := s.nextEvent(t, "RegistrationRestored"); !strings.HasPrefix(restored.Note, "The webhooks are registered as they were installed; changes may have passed unseen from 2") {
		t.Errorf("got Event %q", restored.Note)
	}
	g.Eventually(t, "nothing differs", func() bool { return g.Value(differences, "") == 0 })
}

// renderedByNobody is a pool that is to get a mirror for which there is no object.
const renderedByNobody = `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: rendered-worker-other, ownerReferences: [{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, name: worker, uid: "1", controller: true}]}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - path: /etc/containers/registries.conf
        contents: {source: "data:,%5B%5Bregistry%5D%5D%0Alocation%20%3D%20%22other.example.com%22%0Ablocked%20%3D%20true%0A"}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {machineconfiguration.openshift.io/mco-built-in: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-other}
`
