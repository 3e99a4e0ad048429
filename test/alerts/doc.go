// Package alerts tests the alerts and the dashboards in manifests with Prometheus' own engine: what
// fires when, that every expression can be parsed, and that the metrics and labels in it are
// those that docs/metrics.md has of a guard that runs.
//
// It is a module of its own, as Prometheus brings in more than the guard itself.
package alerts
