// Package register registers the metrics of a part of the guard.
package register

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics registers collectors with r, if there is one. The error names the part and every collector
// that could not be registered.
func Metrics(r prometheus.Registerer, part string, collectors ...prometheus.Collector) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range collectors {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: registering metrics: %w", part, err)
	}
	return nil
}
