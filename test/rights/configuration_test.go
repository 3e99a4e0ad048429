package rights

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// installed writes the configuration file of the manifests, with a release that is looked after: for that, too, there are
// rights.
func (s *stage) installed(t *testing.T) {
	t.Helper()
	manifest(t, "configmap.yaml", func(m corev1.ConfigMap) {
		s.configure(t, strings.Replace(m.Data["config.yaml"], `updates: "off"`, "updates: desired", 1))
	})
}

// configFile is where the guard's configuration is.
func (s *stage) configFile() string { return filepath.Join(s.dir, "config.yaml") }

// configure writes the configuration file, in one step, as a kubelet does.
func (s *stage) configure(t *testing.T, text string) {
	t.Helper()
	next := s.configFile() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.configFile()); err != nil {
		t.Fatal(err)
	}
}

// testConfigurationEvents changes the configuration file of a running guard, which says in an
// Event what has come of it.
func (s *stage) testConfigurationEvents(t *testing.T) {
	client, err := kubernetes.NewForConfig(s.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	watch, err := client.EventsV1().Events(events.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	next := func() *eventsv1.Event {
		for e := range watch.ResultChan() {
			if event, ok := e.Object.(*eventsv1.Event); ok && event.ReportingController == "mirrorset-guard.io/configuration" {
				return event
			}
		}
		t.Fatal("no Event came")
		return nil
	}
	const head = "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"
	for _, tt := range []struct{ text, reason, kind, note string }{
		{head + "mode: enforced\nseverities: {ImageMising: warn}\n", "ConfigurationRejected", corev1.EventTypeWarning, `severities[ImageMising]: Invalid value: no such rule`},
		{head + "mode: warn\n", "ConfigurationReloaded", corev1.EventTypeNormal, "is in force"},
	} {
		s.configure(t, tt.text)
		e := next()
		if e.Reason != tt.reason || e.Type != tt.kind || !strings.Contains(e.Note, tt.note) {
			t.Errorf("after\n%s\nthere is the Event %s %s %q, want %s %s with %q", tt.text, e.Type, e.Reason, e.Note, tt.kind, tt.reason, tt.note)
		}
		if e.Regarding.Kind != "ValidatingWebhookConfiguration" || e.Regarding.Name != webhook.ServiceName {
			t.Errorf("the Event is about %s %s", e.Regarding.Kind, e.Regarding.Name)
		}
	}
}
