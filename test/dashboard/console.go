package dashboard

import (
	corev1 "k8s.io/api/core/v1"
)

// ForConsole returns the ConfigMap that OpenShift's console shows, in the format that Grafana had
// up to its version 6. Of that format the console reads little: the types below have what
// web/src/features/legacy-dashboards of github.com/openshift/monitoring-plugin reads (as of
// August 2026), and nothing else but schemaVersion.
func ForConsole() (*corev1.ConfigMap, error) {
	b := consoleBoard{
		Title: title, Tags: []string{name}, SchemaVersion: 16,
		// The console leaves out variables of this type, and asks the cluster's Prometheus.
		Templating: consoleVariables{List: []consoleVariable{{Name: "datasource", Type: "datasource", Query: "prometheus"}}},
	}
	id := 0
	for _, r := range rows() {
		out := consoleRow{Title: r.title, ShowTitle: true}
		for _, p := range r.panels {
			id++
			out.Panels = append(out.Panels, forConsole(p, id))
		}
		b.Rows = append(b.Rows, out)
	}
	return configMap("openshift-config-managed", "console.openshift.io/dashboard", "true", b)
}

type consoleBoard struct {
	Title         string           `json:"title"`
	Tags          []string         `json:"tags"`
	SchemaVersion int              `json:"schemaVersion"`
	Templating    consoleVariables `json:"templating"`
	Rows          []consoleRow     `json:"rows"`
}

type consoleVariables struct {
	List []consoleVariable `json:"list"`
}

type consoleVariable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Query string `json:"query"`
	Hide  int    `json:"hide"`
}

type consoleRow struct {
	Title     string         `json:"title"`
	ShowTitle bool           `json:"showTitle"`
	Collapse  bool           `json:"collapse"`
	Panels    []consolePanel `json:"panels"`
}

type consolePanel struct {
	ID         int             `json:"id"`
	Title      string          `json:"title"`
	Type       string          `json:"type"`
	Datasource string          `json:"datasource"`
	Span       int             `json:"span"`
	Targets    []consoleTarget `json:"targets"`

	// Of a graph.
	Stack  bool           `json:"stack,omitempty"`
	Legend *consoleLegend `json:"legend,omitempty"`
	Yaxes  []consoleAxis  `json:"yaxes,omitempty"`

	// Of a number.
	Format    unit              `json:"format,omitempty"`
	Decimals  *int              `json:"decimals,omitempty"`
	ValueMaps []consoleWord     `json:"valueMaps,omitempty"`
	Options   *consoleColouring `json:"options,omitempty"`

	// Of a table.
	Transform string          `json:"transform,omitempty"`
	Styles    []consoleColumn `json:"styles,omitempty"`
}

type consoleTarget struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat,omitempty"`
	RefID        string `json:"refId"`
}

type consoleLegend struct {
	Show bool `json:"show"`
}

type consoleAxis struct {
	Format unit `json:"format"`
}

type consoleWord struct {
	Op    string `json:"op"`
	Value string `json:"value"`
	Text  string `json:"text"`
}

type consoleColouring struct {
	FieldOptions consoleThresholds `json:"fieldOptions"`
}

type consoleThresholds struct {
	Thresholds []consoleStep `json:"thresholds"`
}

type consoleStep struct {
	Value float64 `json:"value"`
	Color string  `json:"color"`
}

type consoleColumn struct {
	Alias    string `json:"alias"`
	Pattern  string `json:"pattern"`
	Type     string `json:"type"`
	Unit     unit   `json:"unit,omitempty"`
	Decimals int    `json:"decimals"`
}

func forConsole(p panel, id int) consolePanel {
	out := consolePanel{ID: id, Title: p.title, Datasource: "$datasource", Span: p.width}
	for k, q := range p.queries {
		t := consoleTarget{Expr: q.expr, RefID: letter(k)}
		if p.kind == graph {
			t.LegendFormat = q.legend
		}
		out.Targets = append(out.Targets, t)
	}
	switch p.kind {
	case number:
		out.Type, out.Format, out.Decimals = "singlestat", p.unit, new(int)
		out.colour(p)
	case table:
		out.Type, out.Transform, out.Styles = "table", "table", consoleColumns(p)
	default:
		out.Type, out.Stack, out.Legend, out.Yaxes = "graph", p.stacked, &consoleLegend{Show: true}, []consoleAxis{{Format: p.unit}}
	}
	return out
}

func (out *consolePanel) colour(p panel) {
	for _, w := range p.words {
		out.ValueMaps = append(out.ValueMaps, consoleWord{Op: "=", Value: w.value, Text: w.text})
	}
	if len(p.steps) == 0 {
		return
	}
	out.Options = &consoleColouring{}
	for _, s := range p.steps {
		t := &out.Options.FieldOptions.Thresholds
		// The console takes the step before the first that is not below the value
		// (SingleStat.tsx), so that a value on the step itself would be left with the colour before it.
		*t = append(*t, consoleStep{Value: s.from - justBelow, Color: s.colour})
	}
}

// justBelow is less than the numbers that are coloured differ by.
const justBelow = 0.001

func consoleColumns(p panel) []consoleColumn {
	var columns []consoleColumn
	for _, f := range p.columns {
		columns = append(columns, consoleColumn{Alias: f.heading, Pattern: f.label, Type: "string"})
	}
	for k, q := range p.queries {
		columns = append(columns, consoleColumn{Alias: q.legend, Pattern: "Value #" + letter(k), Type: "number", Unit: q.unitIn(p)})
	}
	return columns
}

func (q query) unitIn(p panel) unit {
	if q.unit != "" {
		return q.unit
	}
	return p.unit
}
