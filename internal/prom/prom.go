// Package prom makes the metrics of a part of the guard, as a table: each is a name, a help text, its labels and
// the source of its value.
//
//	var t prom.Table
//	m := &metrics{findings: t.Gauge("mirrorset_guard_findings", "What is wrong.", "rule")}
//	return m, t.Register(registerer, "standing")
package prom

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// A Table holds metrics that are registered together.
type Table []prometheus.Collector

// Gauge enters a gauge. One without labels is there once WithLabelValues was called.
func (t *Table) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return enter(t, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// Counter enters a counter.
func (t *Table) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return enter(t, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Histogram enters a histogram.
func (t *Table) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return enter(t, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

// Func enters a gauge whose value is asked for.
func (t *Table) Func(name, help string, value func() float64) prometheus.GaugeFunc {
	return enter(t, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func enter[C prometheus.Collector](t *Table, c C) C {
	*t = append(*t, c)
	return c
}

// Register registers the metrics with r, if there is one. The error names the part and every metric that could not be
// registered.
func (t Table) Register(r prometheus.Registerer, part string) error {
	if r == nil {
		return nil
	}
	if err := errors.Join(convert.Each(t, r.Register)...); err != nil {
		return fmt.Errorf("%s: registering metrics: %w", part, err)
	}
	return nil
}

// Give gives a value of a Source, with those of its labels.
type Give func(value float64, labels ...string)

// A Source is a metric whose values are read when they are asked for.
type Source struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(Give)
}

// Gauge returns a Source of gauges.
func Gauge(name, help string, read func(Give), labels ...string) Source {
	return Source{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, read}
}

// Counter returns a Source of counters.
func Counter(name, help string, read func(Give), labels ...string) Source {
	return Source{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, read}
}

// Sources implement prometheus.Collector.
type Sources []Source

// Describe implements prometheus.Collector.
func (s Sources) Describe(descs chan<- *prometheus.Desc) {
	for _, one := range s {
		descs <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (s Sources) Collect(metrics chan<- prometheus.Metric) {
	for _, one := range s {
		one.read(func(value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(one.desc, one.kind, value, labels...)
		})
	}
}

// Bool returns the value of a metric that says whether something is so: 1 or 0.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
