// Package dashboard describes the guard's dashboard once, and writes it in the two forms in which
// clusters show one:
//
//	dashboard.ForConsole() // OpenShift's console, Observe > Dashboards
//	dashboard.ForGrafana() // a Grafana that collects ConfigMaps
//
// The files in manifests are made by its test (go test ./test/dashboard -update). It is not
// part of the program.
package dashboard

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	name  = "mirrorset-guard"
	title = "Mirrors / mirrorset-guard"
	// columns is how wide a row is, in the console.
	columns = 12
)

// A row is a line of panels under a heading.
type row struct {
	title  string
	panels []panel
}

// A panel shows what some queries find.
type panel struct {
	title   string
	kind    kind
	width   int // of columns
	unit    unit
	stacked bool    // of a graph
	steps   []step  // of a number: its colour from a value on, in ascending order
	words   []word  // of a number: shown instead of a value
	columns []field // of a table, besides the values of the queries
	queries []query
}

// A kind is a way to show values.
type kind int

const (
	graph kind = iota
	number
	table
)

// A unit is one that both consoles know by this name.
type unit string

const (
	count   unit = "short"
	seconds unit = "s"
	size    unit = "bytes"
	share   unit = "percentunit" // 1 is the whole
)

// A query asks Prometheus.
type query struct {
	expr string
	// legend names a line of a graph, with labels as {{label}}, or a column of a table.
	legend string
	// unit of a column, if it is not that of the panel.
	unit unit
}

// A step is a colour that both consoles know by this name.
type step struct {
	from   float64
	colour string
}

// A word stands for a value. The value "null" is that of a query that finds nothing.
type word struct{ value, text string }

// A field is a column that shows a label.
type field struct{ label, heading string }

// configMap returns the object that carries a dashboard, with the label by which it is found. The console takes the first key,
// whatever it is (monitoring-plugin, useLegacyDashboards.ts), so that there must be only one.
func configMap(namespace, label, value string, dashboard any) (*corev1.ConfigMap, error) {
	text, err := json.MarshalIndent(dashboard, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the dashboard: %w", err)
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-dashboard", Namespace: namespace,
			Labels: map[string]string{"app.kubernetes.io/name": name, label: value},
		},
		Data: map[string]string{name + ".json": string(text) + "\n"},
	}, nil
}

// letter names the k-th query of a panel, of at most 26.
func letter(k int) string { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[k : k+1] }
