package dashboard

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// TestFiles: the manifests carry what this package says.
func TestFiles(t *testing.T) {
	for file, make := range map[string]func() (*corev1.ConfigMap, error){
		"../../manifests/monitoring/dashboard-configmap.yaml":       ForConsole,
		"../../manifests/overlays/grafana/dashboard-configmap.yaml": ForGrafana,
	} {
		got, err := asFile(make)
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, filepath.FromSlash(file), string(got))
	}
}

func asFile(configMap func() (*corev1.ConfigMap, error)) ([]byte, error) {
	m, err := configMap()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append([]byte("# Made by go test ./test/dashboard -update.\n"), text...), nil
}

// What the console's code reads (web/src/features/legacy-dashboards in
// github.com/openshift/monitoring-plugin at 276015a5730107a1e52bc4735c9e436e2a1580c4).
var (
	consoleTypes   = []string{"graph", "singlestat", "table"}                                         // and two more, LegacyDashboard.tsx
	consoleUnits   = []unit{"Bytes", "bytes", "bps", "Bps", "pps", "ms", "s", "percentunit", "short"} // units.ts
	consoleColours = []string{green, orange, red}                                                     // of those in SingleStat.tsx
)

// TestConsole: the console shows every panel as it is meant.
func TestConsole(t *testing.T) {
	m, err := ForConsole()
	if err != nil {
		t.Fatal(err)
	}
	if m.Namespace != "openshift-config-managed" || m.Labels["console.openshift.io/dashboard"] != "true" || len(m.Data) != 1 {
		t.Errorf("the console does not look for %s/%s with labels %v and %d keys", m.Namespace, m.Name, m.Labels, len(m.Data))
	}
	var b consoleBoard
	decode(t, m, &b)
	if b.SchemaVersion != 16 || b.Title == "" || len(b.Rows) != len(rows()) {
		t.Errorf("got version %d, title %q and %d rows", b.SchemaVersion, b.Title, len(b.Rows))
	}
	ids := map[int]bool{}
	for _, r := range b.Rows {
		width := 0
		for _, p := range r.Panels {
			width += p.Span
			if ids[p.ID] {
				t.Errorf("%s: panel %d is there twice", p.Title, p.ID)
			}
			ids[p.ID] = true
			checkConsolePanel(t, p)
		}
		if width%columns != 0 {
			t.Errorf("%s: the panels are %d columns wide, which leaves a gap", r.Title, width)
		}
	}
}

func checkConsolePanel(t *testing.T, p consolePanel) {
	t.Helper()
	if !slices.Contains(consoleTypes, p.Type) || p.Title == "" || len(p.Targets) == 0 {
		t.Errorf("%q of type %q with %d queries is not shown", p.Title, p.Type, len(p.Targets))
	}
	if p.Datasource != "$datasource" {
		t.Errorf("%s: the console would look for a data source %v of its own", p.Title, p.Datasource)
	}
	units := []unit{p.Format}
	switch p.Type {
	case "singlestat":
		if len(p.Targets) != 1 {
			t.Errorf("%s: of %d queries only the first is made", p.Title, len(p.Targets))
		}
		if p.Options != nil {
			checkSteps(t, p)
		}
	case "table":
		units = checkColumns(t, p)
	default:
		units = []unit{p.Yaxes[0].Format}
		for _, target := range p.Targets {
			if target.LegendFormat == "" {
				t.Errorf("%s: a line has no name: %s", p.Title, target.Expr)
			}
		}
	}
	for _, u := range units {
		if !slices.Contains(consoleUnits, u) {
			t.Errorf("%s: the unit %q is not known", p.Title, u)
		}
	}
}

// checkSteps: the console searches them as a sorted list.
func checkSteps(t *testing.T, p consolePanel) {
	t.Helper()
	steps := p.Options.FieldOptions.Thresholds
	if !slices.IsSortedFunc(steps, func(a, b consoleStep) int { return int(a.Value - b.Value) }) {
		t.Errorf("%s: steps out of order: %v", p.Title, steps)
	}
	for _, s := range steps {
		if !slices.Contains(consoleColours, s.Color) {
			t.Errorf("%s: there is no colour %q", p.Title, s.Color)
		}
	}
}

// checkColumns returns the units of a table's columns. Rows of several queries are joined by the
// values of all their labels, so that each query must have the same labels.
func checkColumns(t *testing.T, p consolePanel) (units []unit) {
	t.Helper()
	for _, c := range p.Styles {
		if c.Alias == "" || strings.HasPrefix(c.Pattern, "/") {
			t.Errorf("%s: the column %q is not shown", p.Title, c.Pattern)
		}
		if c.Type == "number" {
			units = append(units, c.Unit)
			continue
		}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, " by ("+c.Pattern+") ") {
				t.Errorf("%s: not by %s alone: %s", p.Title, c.Pattern, target.Expr)
			}
		}
	}
	return units
}

// TestGrafana: every panel is there, on a place of its own.
func TestGrafana(t *testing.T) {
	m, err := ForGrafana()
	if err != nil {
		t.Fatal(err)
	}
	if m.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v", m.Labels)
	}
	var b grafanaBoard
	decode(t, m, &b)
	want, got := 0, 0
	for _, r := range rows() {
		want += len(r.panels) + 1
	}
	taken := map[[2]int]string{}
	for _, p := range b.Panels {
		got++
		at := p.GridPos
		if at.X < 0 || at.X+at.W > grafanaColumns {
			t.Errorf("%s is beyond the edge: %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s is where %s is", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if got != want {
		t.Errorf("%d panels and rows, want %d", got, want)
	}
}

// decode reads the dashboard in m, and fails for whatever into has no field for.
func decode(t *testing.T, m *corev1.ConfigMap, into any) {
	t.Helper()
	for _, text := range m.Data {
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
}
