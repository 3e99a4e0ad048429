package config

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestConfigEvent: an Event that an API server takes, however long the mistakes are.
func TestConfigEvent(t *testing.T) {
	long := strings.Repeat("é\n", 3000)
	for reason, outcome := range map[string]Outcome{
		configurationRejected: {Path: "/c.yaml", Err: errors.New(long)},
		configurationReloaded: {Path: "/c.yaml"},
	} {
		e := event(outcome, strings.Repeat("x", 300), corev1.ObjectReference{Kind: "ValidatingWebhookConfiguration"})
		kind := map[string]string{configurationRejected: "Warning", configurationReloaded: "Normal"}[reason]
		if e.Reason != reason || e.Type != kind || len(e.Note) > 1024 || strings.Contains(e.Note, "\n") || len(e.ReportingInstance) > 128 || e.Namespace != "default" || e.Regarding.Namespace != "" {
			t.Errorf("%+v", e)
		}
	}
}
