package alerts

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// expressions parses PromQL as a Prometheus without special features does.
var expressions = parser.NewParser(parser.Options{})

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ruleGroups returns the alerts of the manifests as a rule file of Prometheus, as the operator
// writes it.
func ruleGroups(t *testing.T) []byte {
	t.Helper()
	var r monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(read(t, "manifests/monitoring/prometheusrule.yaml"), &r); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alerts returns the alerts of the manifests.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(ruleGroups(t), false, model.LegacyValidation, expressions, nil)
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	var out []rulefmt.Rule
	for _, g := range groups.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 10 {
		t.Fatalf("%d alerts: these are not all", len(out))
	}
	return out
}

// TestServiceMonitor: no field is misspelt.
func TestServiceMonitor(t *testing.T) {
	var m monitoringv1.ServiceMonitor
	if err := yaml.UnmarshalStrict(read(t, "manifests/monitoring/servicemonitor.yaml"), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.Endpoints) != 1 {
		t.Errorf("%d endpoints", len(m.Spec.Endpoints))
	}
}

// prechecked are the alerts that an update should wait for. It drains every node, and every pod
// that was there needs its images on another.
var prechecked = []string{
	"MirrorsetGuardImagesLost", "MirrorsetGuardUpdateNotReady", "MirrorsetGuardRegistryUnreachable", "MirrorsetGuardNotVerifying", "MirrorsetGuardMCOStuck", "RolloutStalledByMirror",
}

const (
	precheckLabel = "openShiftUpdatePrecheck"
	runbooks      = "https://github.com/mirrorset-guard/mirrorset-guard/blob/main/docs/runbooks/"
)

// TestConventions are those of enhancements/monitoring/alerting-consistency.md in
// github.com/openshift/enhancements, and of what shows the alerts before an update: oc and the
// cluster-version operator read the labels alertname, severity and openShiftUpdatePrecheck, and
// the annotations summary, description and runbook_url (pkg/cli/admin/upgrade/recommend in
// github.com/openshift/oc).
func TestConventions(t *testing.T) {
	camelCase := regexp.MustCompile(`^([A-Z][a-z]*)+$`)
	names := map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] {
			t.Errorf("%s is there twice", a.Alert)
		}
		names[a.Alert] = true
		if !camelCase.MatchString(a.Alert) {
			t.Errorf("%s: the name is no CamelCase", a.Alert)
		}
		// None is critical: nothing here keeps the cluster as a whole from serving.
		if s := a.Labels["severity"]; s != "warning" && s != "info" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if s := a.Annotations["summary"]; s == "" || len(s) > 100 || !strings.HasSuffix(s, ".") {
			t.Errorf("%s: the summary %q is not one short sentence", a.Alert, s)
		}
		if a.Annotations["description"] == "" {
			t.Errorf("%s: no description", a.Alert)
		}
		if want := runbooks + a.Alert + ".md"; a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		want := ""
		if slices.Contains(prechecked, a.Alert) {
			want = "true"
		}
		if got := a.Labels[precheckLabel]; got != want {
			t.Errorf("%s: %s=%q, want %q", a.Alert, precheckLabel, got, want)
		}
	}
}

// TestRunbooks: each alert has one, which says what a person needs at 3 a.m., and is in the list
// of alerts; and there are no others.
func TestRunbooks(t *testing.T) {
	list := string(read(t, "docs/monitoring.md"))
	var want []string
	for _, a := range alerts(t) {
		want = append(want, a.Alert+".md")
		text := read(t, "docs/runbooks/"+a.Alert+".md")
		if !bytes.HasPrefix(text, []byte("# "+a.Alert+"\n")) {
			t.Errorf("%s: the runbook has another heading", a.Alert)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "logs -l") && !strings.Contains(line, "--tail=") {
				t.Errorf("%s: of pods that are selected by a label, only the last 10 lines are shown: %s", a.Alert, line)
			}
			if strings.Contains(line, ":.firstTimestamp") {
				t.Errorf("%s: the guard's Events have no such time: %s", a.Alert, line)
			}
		}
		at := 0
		for _, heading := range []string{"\n## Meaning\n", "\n## Impact\n", "\n## Diagnosis\n", "\n## Mitigation\n"} {
			i := bytes.Index(text[at:], []byte(heading))
			if i < 0 {
				t.Errorf("%s: the runbook has no %q, or not in this order", a.Alert, heading)
				continue
			}
			at += i
		}
		if row := "| [" + a.Alert + "](runbooks/" + a.Alert + ".md) | " + a.Labels["severity"] + " |"; !strings.Contains(list, row) {
			t.Errorf("docs/monitoring.md has no line that begins with %s", row)
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, "docs", "runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(want, e.Name()) {
			t.Errorf("docs/runbooks/%s is of no alert", e.Name())
		}
	}
}
