package standing

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
)

// metrics describe the state of the configuration in force. No label holds anything that a user
// or a stranger may choose.
type metrics struct {
	// Of the replica that verifies; absent elsewhere.
	findings *prometheus.GaugeVec
	images   *prometheus.GaugeVec
	rounds   *prometheus.CounterVec
	leads    prometheus.Gauge
	// Of every replica.
	facts  *prometheus.GaugeVec
	hosts  *prometheus.GaugeVec
	oldest atomic.Int64 // Unix time in ns of the oldest fact, 0 for none
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	var t prom.Table
	m := &metrics{
		findings: t.Gauge("mirrorset_guard_standing_findings",
			"What is wrong with the mirror configuration in force, by rule. Only of the replica that verifies it.", "rule"),
		images: t.Gauge("mirrorset_guard_standing_images",
			"Images that the configuration in force sends to mirrors, by state (held, lost, unverified). Only of the replica that verifies it.", "state"),
		rounds: t.Counter("mirrorset_guard_standing_rounds_total",
			"Verifications of the configuration in force, by result (done, failed).", "result"),
		leads: t.Gauge("mirrorset_guard_standing_verifying",
			"1 in the replica that verifies the configuration in force and reports what changes, else 0.").WithLabelValues(),
		facts: t.Gauge("mirrorset_guard_standing_facts",
			"What is known about the places that the configuration in force rests on, by presence.", "presence"),
		hosts: t.Gauge("mirrorset_guard_standing_registries",
			"Registries that are mirrors in the configuration in force, by state (reachable, unreachable).", "state"),
	}
	t.Func("mirrorset_guard_standing_oldest_fact_age_seconds", "Age of the oldest fact that the configuration in force rests on; 0 if there is none.", m.oldestAge)
	m.knows(nil)
	m.reaches(nil)
	for _, result := range []string{done, failed} {
		m.rounds.WithLabelValues(result)
	}
	return m, t.Register(r, "standing")
}

// The results of rounds.
const (
	done   = "done"
	failed = "failed"
)

func (m *metrics) oldestAge() float64 {
	oldest := m.oldest.Load()
	if oldest == 0 {
		return 0
	}
	return time.Since(time.Unix(0, oldest)).Seconds()
}

// knows counts facts.
func (m *metrics) knows(facts policy.Facts) {
	counts := map[policy.Presence]int{}
	var oldest time.Time
	for _, f := range facts {
		counts[f.Presence]++
		if !f.Time.IsZero() && (oldest.IsZero() || f.Time.Before(oldest)) {
			oldest = f.Time
		}
	}
	for p := policy.Unknown; p <= policy.Inconclusive; p++ {
		m.facts.WithLabelValues(p.String()).Set(float64(counts[p]))
	}
	if oldest.IsZero() {
		m.oldest.Store(0)
		return
	}
	m.oldest.Store(oldest.UnixNano())
}

// reaches counts registries, by whether they answer.
func (m *metrics) reaches(registries map[string]bool) {
	reachable := 0
	for _, answers := range registries {
		if answers {
			reachable++
		}
	}
	m.hosts.WithLabelValues("reachable").Set(float64(reachable))
	m.hosts.WithLabelValues("unreachable").Set(float64(len(registries) - reachable))
}

// found counts findings and images. Every rule has a series, so that an alert on one
// has something to compare.
func (m *metrics) found(v policy.StandingVerdict, standings []rules.Standing) {
	found := map[string]int{}
	for _, id := range rules.IDs() {
		found[id] = 0
	}
	for _, f := range v.Findings {
		if f.Severity > policy.Info {
			found[f.Rule]++
		}
	}
	for rule, n := range found {
		m.findings.WithLabelValues(rule).Set(float64(n))
	}
	states := map[evidence.Outcome]int{}
	for _, s := range standings {
		states[s.Outcome]++
	}
	for outcome, state := range map[evidence.Outcome]string{evidence.Works: "held", evidence.Fails: "lost", evidence.Unsure: "unverified"} {
		m.images.WithLabelValues(state).Set(float64(states[outcome]))
	}
}

func (m *metrics) round(err error) {
	result := done
	if err != nil {
		result = failed
	}
	m.rounds.WithLabelValues(result).Inc()
}

// verifies notes whether this replica verifies, and removes what it found when it no longer
// does, as nothing would update that.
func (m *metrics) verifies(does bool) {
	m.leads.Set(prom.Bool(does))
	if !does {
		m.findings.Reset()
		m.images.Reset()
	}
}
