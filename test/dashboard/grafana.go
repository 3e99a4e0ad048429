package dashboard

import (
	corev1 "k8s.io/api/core/v1"
)

// ForGrafana returns the ConfigMap for a Grafana whose sidecar collects those with the label
// grafana_dashboard, in the namespace of the guard. It has today's panels: Grafana no longer has
// those that the console shows (since its version 12), and migrates them as well as it can.
func ForGrafana() (*corev1.ConfigMap, error) {
	b := grafanaBoard{
		Title: title, UID: name, Tags: []string{name}, SchemaVersion: 39, Refresh: "1m", Time: grafanaTime{From: "now-6h", To: "now"},
		Templating: grafanaVariables{List: []grafanaVariable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}},
	}
	id, y := 0, 0
	for _, r := range rows() {
		id++
		b.Panels = append(b.Panels, grafanaPanel{ID: id, Title: r.title, Type: "row", GridPos: grafanaPlace{H: 1, W: grafanaColumns, Y: y}})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			id++
			at := grafanaPlace{H: p.height(), W: p.width * grafanaColumns / columns, X: x, Y: y}
			if at.X+at.W > grafanaColumns {
				at.X, at.Y, height = 0, y+height, 0
			}
			x, y, height = at.X+at.W, at.Y, max(height, at.H)
			b.Panels = append(b.Panels, forGrafana(p, id, at))
		}
		y += height
	}
	return configMap(name, "grafana_dashboard", "1", b)
}

// grafanaColumns is how wide a row is in Grafana.
const grafanaColumns = 24

func (p panel) height() int {
	if p.kind == number {
		return 4
	}
	return 8
}

type grafanaBoard struct {
	Title         string           `json:"title"`
	UID           string           `json:"uid"`
	Tags          []string         `json:"tags"`
	SchemaVersion int              `json:"schemaVersion"`
	Refresh       string           `json:"refresh"`
	Time          grafanaTime      `json:"time"`
	Templating    grafanaVariables `json:"templating"`
	Panels        []grafanaPanel   `json:"panels"`
}

type grafanaTime struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type grafanaVariables struct {
	List []grafanaVariable `json:"list"`
}

type grafanaVariable struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Type  string `json:"type"`
	Query string `json:"query"`
}

type grafanaPlace struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type grafanaPanel struct {
	ID              int                     `json:"id"`
	Title           string                  `json:"title"`
	Type            string                  `json:"type"`
	GridPos         grafanaPlace            `json:"gridPos"`
	Datasource      *grafanaSource          `json:"datasource,omitempty"`
	Targets         []grafanaTarget         `json:"targets,omitempty"`
	FieldConfig     *grafanaFields          `json:"fieldConfig,omitempty"`
	Options         map[string]any          `json:"options,omitempty"`
	Transformations []grafanaTransformation `json:"transformations,omitempty"`
}

type grafanaSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type grafanaTarget struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat,omitempty"`
	RefID        string `json:"refId"`
	Instant      bool   `json:"instant,omitempty"`
	Format       string `json:"format,omitempty"`
}

type grafanaFields struct {
	Defaults  grafanaDefaults   `json:"defaults"`
	Overrides []grafanaOverride `json:"overrides"`
}

type grafanaDefaults struct {
	Unit       unit               `json:"unit"`
	Custom     map[string]any     `json:"custom,omitempty"`
	Mappings   []grafanaMapping   `json:"mappings,omitempty"`
	Thresholds *grafanaThresholds `json:"thresholds,omitempty"`
}

type grafanaMapping struct {
	Type    string         `json:"type"`
	Options map[string]any `json:"options"`
}

type grafanaThresholds struct {
	Mode  string        `json:"mode"`
	Steps []grafanaStep `json:"steps"`
}

type grafanaStep struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

type grafanaOverride struct {
	Matcher    grafanaMatcher    `json:"matcher"`
	Properties []grafanaProperty `json:"properties"`
}

type grafanaMatcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

type grafanaProperty struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

type grafanaTransformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

func forGrafana(p panel, id int, at grafanaPlace) grafanaPanel {
	out := grafanaPanel{
		ID: id, Title: p.title, GridPos: at, Datasource: &grafanaSource{Type: "prometheus", UID: "${datasource}"},
		FieldConfig: &grafanaFields{Defaults: grafanaDefaults{Unit: p.unit}, Overrides: []grafanaOverride{}},
	}
	for k, q := range p.queries {
		t := grafanaTarget{Expr: q.expr, RefID: letter(k), Instant: p.kind != graph}
		if p.kind == graph {
			t.LegendFormat = q.legend
		}
		out.Targets = append(out.Targets, t)
	}
	switch p.kind {
	case number:
		out.asNumber(p)
	case table:
		out.asTable(p)
	default:
		out.asGraph(p)
	}
	return out
}

func (out *grafanaPanel) asGraph(p panel) {
	out.Type = "timeseries"
	custom := map[string]any{"fillOpacity": 0, "showPoints": "never"}
	if p.stacked {
		custom["fillOpacity"], custom["stacking"] = 20, map[string]any{"mode": "normal"}
	}
	out.FieldConfig.Defaults.Custom = custom
}

func (out *grafanaPanel) asNumber(p panel) {
	out.Type = "stat"
	out.Options = map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}, "graphMode": "none"}
	d := &out.FieldConfig.Defaults
	for _, w := range p.words {
		if w.value == "null" {
			d.Mappings = append(d.Mappings, grafanaMapping{Type: "special", Options: map[string]any{"match": "null", "result": map[string]any{"text": w.text}}})
			continue
		}
		d.Mappings = append(d.Mappings, grafanaMapping{Type: "value", Options: map[string]any{w.value: map[string]any{"text": w.text}}})
	}
	if len(p.steps) == 0 {
		return
	}
	d.Thresholds = &grafanaThresholds{Mode: "absolute"}
	for k, s := range p.steps {
		step := grafanaStep{Color: s.colour}
		if k > 0 { // the first is for whatever is less
			step.Value = new(s.from)
		}
		d.Thresholds.Steps = append(d.Thresholds.Steps, step)
	}
}

func (out *grafanaPanel) asTable(p panel) {
	out.Type = "table"
	headings := map[string]string{}
	for _, f := range p.columns {
		headings[f.label] = f.heading
	}
	for k, q := range p.queries {
		out.Targets[k].Format = "table"
		value := "Value #" + letter(k)
		if len(p.queries) == 1 {
			value = "Value"
		}
		headings[value] = q.legend
		out.FieldConfig.Overrides = append(out.FieldConfig.Overrides, grafanaOverride{
			Matcher:    grafanaMatcher{ID: "byName", Options: q.legend},
			Properties: []grafanaProperty{{ID: "unit", Value: q.unitIn(p)}},
		})
	}
	out.Transformations = []grafanaTransformation{
		{ID: "merge", Options: map[string]any{}},
		{ID: "organize", Options: map[string]any{"excludeByName": map[string]bool{"Time": true}, "renameByName": headings}},
	}
}
