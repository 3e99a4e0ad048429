package rollouts

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/register"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
)

// metrics describe the rollouts of the pools, in the replica that follows them; they are absent
// elsewhere. The label pool has as many values as there are pools, which only administrators
// make, and no label holds anything that somebody else may choose.
type metrics struct {
	following prometheus.Gauge
	active    *prometheus.GaugeVec
	stalled   *prometheus.GaugeVec
	unmoved   *prometheus.GaugeVec
	nodes     *prometheus.GaugeVec
	changes   *prometheus.CounterVec

	known map[string]bool // the pools that have series
}

func newMetrics() *metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help + " Only of the replica that follows rollouts."}, labels)
	}
	m := &metrics{
		following: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mirrorset_guard_rollout_following",
			Help: "1 in the replica that follows the rollouts of mirror changes, else 0.",
		}),
		active:  gauge("mirrorset_guard_rollout_active", "1 while a change of registries.conf is on its way to nodes of the pool, else 0.", "pool"),
		stalled: gauge("mirrorset_guard_rollout_stalled", "1 while such a rollout stands still, else 0.", "pool"),
		unmoved: gauge("mirrorset_guard_rollout_unmoved_seconds", "For how long nothing has moved in such a rollout; 0 if there is none.", "pool"),
		nodes:   gauge("mirrorset_guard_rollout_nodes", "Nodes of the pool by state (waiting, updating, draining, drained, rebooting, done, degraded, unknown).", "pool", "state"),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mirrorset_guard_rollout_reports_total",
			Help: "What was reported of the rollouts of mirror objects, by change (began, stalled, resumed, ended).",
		}, []string{"change"}),
	}
	for _, change := range changeOf {
		m.changes.WithLabelValues(change) // to be there from the start
	}
	return m
}

// register registers the metrics with r, if there is one.
func (m *metrics) register(r prometheus.Registerer) error {
	return register.Metrics(r, "rollouts", m.following, m.active, m.stalled, m.unmoved, m.nodes, m.changes)
}

// pools writes how the pools are, and removes those that are gone.
func (m *metrics) pools(pools []mirrorPool) {
	before := m.known
	m.known = map[string]bool{}
	for _, p := range pools {
		m.known[p.Name] = true
		delete(before, p.Name)
		m.active.WithLabelValues(p.Name).Set(register.Bool(p.ByMirrors))
		m.stalled.WithLabelValues(p.Name).Set(register.Bool(p.ByMirrors && p.Stall != nil))
		seconds := 0.0
		if p.ByMirrors {
			seconds = p.Unmoved.Seconds()
		}
		m.unmoved.WithLabelValues(p.Name).Set(seconds)
		for _, stage := range progress.Stages {
			m.nodes.WithLabelValues(p.Name, string(stage)).Set(float64(p.Counts[stage]))
		}
	}
	for name := range before {
		for _, v := range []*prometheus.GaugeVec{m.active, m.stalled, m.unmoved, m.nodes} {
			v.DeletePartialMatch(prometheus.Labels{"pool": name})
		}
	}
}

// changeOf is the label change by the reason of a Report.
var changeOf = map[string]string{
	MirrorRolloutBegan: "began", MirrorRolloutStalled: "stalled", MirrorRolloutResumed: "resumed", MirrorRolloutEnded: "ended",
}

func (m *metrics) reported(reason string) { m.changes.WithLabelValues(changeOf[reason]).Inc() }

// follows notes whether this replica follows rollouts, and removes what it found when it no
// longer does, as nothing would update that.
func (m *metrics) follows(does bool) {
	m.following.Set(register.Bool(does))
	if !does {
		m.pools(nil)
	}
}
