package alerts

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// A metric is what docs/metrics.md says of one; a test in cmd/mirrorset-guard/serve compares that with
// what a guard serves that runs on a real API server.
type metric struct {
	histogram bool
	labels    map[string][]string // with their values, none where these are not listed
}

// targetLabels are those that a scrape adds.
var targetLabels = []string{"namespace", "job", "pod", "service", "endpoint", "instance", "container"}

// others are the metrics that are not the guard's, with their labels: kube_* are those of kube-state-metrics. Those of the API server
// are compared with one in cmd/mirrorset-guard/serve as well.
var others = map[string][]string{
	"up":                            nil,
	"process_resident_memory_bytes": nil,
	"process_cpu_seconds_total":     nil,
	"apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
	"apiserver_admission_webhook_fail_open_count": {"name", "type"},
	"kube_job_complete":                           {"job_name", "condition"},
	"kube_job_failed":                             {"job_name", "condition"},
	"kube_job_status_start_time":                  {"job_name"},
}

var (
	listed      = regexp.MustCompile("(?m)^- `(mirrorset_guard_[a-z_]+)` ([a-z]+)(.*?): ")
	ruleHeading = regexp.MustCompile(`(?m)^## (\w+)$`)
	oneLabel    = regexp.MustCompile("`([a-z_]+)`(?: \\(([^)]*)\\))?")
)

func metrics(t *testing.T) map[string]metric {
	t.Helper()
	known := map[string]metric{}
	for _, row := range listed.FindAllStringSubmatch(string(read(t, "docs/metrics.md")), -1) {
		m := metric{histogram: row[2] == "histogram", labels: map[string][]string{}}
		for _, label := range oneLabel.FindAllStringSubmatch(row[3], -1) {
			m.labels[label[1]] = nil
			if label[2] != "" {
				m.labels[label[1]] = strings.Split(label[2], ", ")
			}
			if label[1] == "rule" {
				for _, heading := range ruleHeading.FindAllStringSubmatch(string(read(t, "docs/rules.md")), -1) {
					m.labels["rule"] = append(m.labels["rule"], heading[1])
				}
			}
		}
		known[row[1]] = m
	}
	if len(known) < 20 {
		t.Fatalf("docs/metrics.md has %d metrics: these are not all", len(known))
	}
	for name, own := range others {
		m := metric{labels: map[string][]string{}}
		for _, label := range own {
			m.labels[label] = nil
		}
		known[name] = m
	}
	return known
}

// TestAlertsAskForWhatIsThere and the dashboards: an expression with a name that does not exist
// finds nothing, for ever and in silence.
func TestAlertsAskForWhatIsThere(t *testing.T) {
	known := metrics(t)
	for _, a := range alerts(t) {
		checkExpression(t, known, a.Alert, a.Expr)
		for _, inner := range regexp.MustCompile(`query "([^"]*)"`).FindAllStringSubmatch(a.Annotations["description"], -1) {
			checkExpression(t, known, a.Alert, inner[1])
		}
	}
}

func TestDashboardsAskForWhatIsThere(t *testing.T) {
	known := metrics(t)
	for _, file := range []string{"manifests/monitoring/dashboard-configmap.yaml", "manifests/overlays/grafana/dashboard-configmap.yaml"} {
		queries := queriesIn(t, file)
		if len(queries) < 20 {
			t.Errorf("%s: %d queries: these are not all", file, len(queries))
		}
		for _, q := range queries {
			checkExpression(t, known, file, q.Expr)
			expr, err := expressions.ParseExpr(q.Expr)
			if err != nil {
				continue
			}
			for _, label := range legendLabels(q.LegendFormat) {
				if !slices.Contains(groupedBy(expr), label) {
					t.Errorf("%s: the legend has {{%s}}, the result of %s does not", file, label, q.Expr)
				}
			}
		}
	}
}

type dashboardQuery struct{ Expr, LegendFormat string }

func queriesIn(t *testing.T, file string) []dashboardQuery {
	t.Helper()
	var m struct{ Data map[string]string }
	if err := yaml.Unmarshal(read(t, file), &m); err != nil {
		t.Fatal(err)
	}
	type panel struct{ Targets []dashboardQuery }
	var queries []dashboardQuery
	for _, text := range m.Data {
		var board struct {
			Panels []panel
			Rows   []struct{ Panels []panel }
		}
		if err := json.Unmarshal([]byte(text), &board); err != nil {
			t.Fatal(err)
		}
		panels := board.Panels
		for _, r := range board.Rows {
			panels = append(panels, r.Panels...)
		}
		for _, p := range panels {
			queries = append(queries, p.Targets...)
		}
	}
	return queries
}

func legendLabels(legend string) []string {
	var names []string
	for _, found := range regexp.MustCompile(`{{\s*(\w+)\s*}}`).FindAllStringSubmatch(legend, -1) {
		names = append(names, found[1])
	}
	return names
}

// groupedBy returns the labels of the result of an expression that groups.
func groupedBy(expr parser.Expr) []string {
	var by []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok && !a.Without {
			by = append(by, a.Grouping...)
		}
		return nil
	})
	return by
}

// checkExpression: each metric in text is there, with the labels and values that are asked for.
func checkExpression(t *testing.T, known map[string]metric, where, text string) {
	t.Helper()
	expr, err := expressions.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, text)
		return
	}
	here := map[string]bool{}
	for _, label := range targetLabels {
		here[label] = true
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			for _, label := range checkSelector(t, known, where, s) {
				here[label] = true
			}
		}
		return nil
	})
	for _, label := range groupedBy(expr) {
		if !here[label] {
			t.Errorf("%s: no metric has the label %s: %s", where, label, text)
		}
	}
}

// checkSelector returns the labels of the metric that s selects.
func checkSelector(t *testing.T, known map[string]metric, where string, s *parser.VectorSelector) []string {
	t.Helper()
	m, found := known[s.Name]
	base := s.Name
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if cut, ok := strings.CutSuffix(s.Name, suffix); ok && !found && known[cut].histogram {
			m, base, found = known[cut], cut, true
		}
	}
	if !found {
		t.Errorf("%s: no metric %s", where, s.Name)
		return nil
	}
	var names []string
	for name := range m.labels {
		names = append(names, name)
	}
	if strings.HasSuffix(s.Name, "_bucket") {
		names = append(names, "le")
	}
	for _, matcher := range s.LabelMatchers {
		values := m.labels[matcher.Name]
		switch {
		case matcher.Name == model.MetricNameLabel, slices.Contains(targetLabels, matcher.Name):
		case !slices.Contains(names, matcher.Name):
			t.Errorf("%s: %s has no label %s", where, base, matcher.Name)
		case matcher.Type == labels.MatchEqual && values != nil && !slices.Contains(values, matcher.Value):
			t.Errorf("%s: %s{%s} has the values %q, and not %q", where, base, matcher.Name, values, matcher.Value)
		}
	}
	return names
}
