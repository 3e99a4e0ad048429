package nextrelease

import (
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// metrics describe the next release, in the replica that judges it and while one is marked; elsewhere they are
// absent.
type metrics struct {
	state  *prometheus.GaugeVec
	rounds *prometheus.GaugeVec
	images *prometheus.GaugeVec
	judged *prometheus.GaugeVec
	info   *prometheus.GaugeVec

	of string // the release that they are about; for Run alone
}

const only = " Only of the replica that verifies, while a release is marked."

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	var t prom.Table
	return &metrics{
		state:  t.Gauge("mirrorset_guard_update_state", "1 for what the release that the cluster is to be updated to is, else 0, by state (ready, not_ready, unknown) and by what has marked it (desired, recommended)."+only, "marked", "state"),
		rounds: t.Gauge("mirrorset_guard_update_not_ready_rounds", "How many rounds in a row have found that the release that the cluster is to be updated to is not ready, by what has marked it (desired, recommended)."+only, "marked"),
		images: t.Gauge("mirrorset_guard_update_images", "Images of the release that the cluster is to be updated to, by state (ready, not_ready, unknown)."+only, "state"),
		judged: t.Gauge("mirrorset_guard_update_judged_timestamp_seconds", "When the release that the cluster is to be updated to was judged last."+only),
		info:   t.Gauge("mirrorset_guard_update_info", "Always 1; the label says to which version the cluster is to be updated."+only, "version"),
	}, t.Register(r, "updates")
}

// states has the label of each state.
var states = map[readiness.State]string{readiness.Ready: "ready", readiness.NotReady: "not_ready", readiness.Unknown: "unknown"}

// found notes what a round has found.
func (m *metrics) found(v verdict, notReadyRounds int, now time.Time) {
	if of := v.marked + " " + v.version(); of != m.of {
		m.none()
		m.of = of
	}
	for s, label := range states {
		for _, by := range []string{target.Desired, target.Recommended} {
			m.state.WithLabelValues(by, label).Set(prom.Bool(v.marked == by && v.state() == s))
			m.rounds.WithLabelValues(by).Set(0)
		}
		n := 0
		if v.readiness != nil {
			n = v.readiness.Count(s)
		}
		m.images.WithLabelValues(label).Set(float64(n))
	}
	m.rounds.WithLabelValues(v.marked).Set(float64(notReadyRounds))
	m.judged.WithLabelValues().Set(float64(now.UnixMilli()) / 1000)
	m.info.WithLabelValues(versionLabel(v.version())).Set(1)
}

// versionShape is that of versions of releases. Whatever else ClusterVersion may say is no label.
var versionShape = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]{0,64}$`)

func versionLabel(version string) string {
	if !versionShape.MatchString(version) {
		return "unknown"
	}
	return version
}

// none removes what nothing would update.
func (m *metrics) none() {
	m.of = ""
	for _, v := range []*prometheus.GaugeVec{m.state, m.rounds, m.images, m.judged, m.info} {
		v.Reset()
	}
}
