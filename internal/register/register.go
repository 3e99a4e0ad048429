// Package register registers the metrics of a part of the guard, and has their value for a bool.
package register

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
)

// Metrics registers collectors with r, if there is one. The error names the part and every collector
// that could not be registered.
func Metrics(r prometheus.Registerer, part string, collectors ...prometheus.Collector) error {
	if r == nil {
		return nil
	}
	if err := errors.Join(each.Of(collectors, r.Register)...); err != nil {
		return fmt.Errorf("%s: registering metrics: %w", part, err)
	}
	return nil
}

// Bool returns the value of a metric that says whether something is so: 1 or 0.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
