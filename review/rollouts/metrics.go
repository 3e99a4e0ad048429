package rollouts

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
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

const only = " Only of the replica that follows rollouts."

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	var t prom.Table
	m := &metrics{
		following: t.Gauge("mirrorset_guard_rollout_following", "1 in the replica that follows the rollouts of mirror changes, else 0.").WithLabelValues(),
		active:    t.Gauge("mirrorset_guard_rollout_active", "1 while a change of registries.conf is on its way to nodes of the pool, else 0."+only, "pool"),
		stalled:   t.Gauge("mirrorset_guard_rollout_stalled", "1 while such a rollout stands still, else 0."+only, "pool"),
		unmoved:   t.Gauge("mirrorset_guard_rollout_unmoved_seconds", "For how long nothing has moved in such a rollout; 0 if there is none."+only, "pool"),
		nodes:     t.Gauge("mirrorset_guard_rollout_nodes", "Nodes of the pool by state (waiting, updating, draining, drained, rebooting, done, degraded, unknown)."+only, "pool", "state"),
		changes: t.Counter("mirrorset_guard_rollout_reports_total",
			"What was reported of the rollouts of mirror objects, by change (began, stalled, resumed, ended).", "change"),
	}
	for _, change := range changeOf {
		m.changes.WithLabelValues(change) // to be there from the start
	}
	return m, t.Register(r, "rollouts")
}

// pools writes how the pools are, and removes those that are gone.
func (m *metrics) pools(pools []mirrorPool) {
	before := m.known
	m.known = map[string]bool{}
	for _, p := range pools {
		m.known[p.Name] = true
		delete(before, p.Name)
		m.active.WithLabelValues(p.Name).Set(prom.Bool(p.ByMirrors))
		m.stalled.WithLabelValues(p.Name).Set(prom.Bool(p.ByMirrors && p.Stall != nil))
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
	m.following.Set(prom.Bool(does))
	if !does {
		m.pools(nil)
	}
}
