package serve

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
)

// prepareMetrics registers the metrics of the process as a whole.
func (g *guard) prepareMetrics() {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mirrorset_guard_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": cli.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	ready := prom.Gauge("mirrorset_guard_ready", "1 if this replica can review changes, 0 while it cannot: see /readyz for the reason.",
		func(give prom.Give) { give(prom.Bool(g.notReady() == nil)) })
	g.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build, prom.Sources{ready}, g.options.lines.lost,
	)
}
