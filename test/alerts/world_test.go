package alerts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const (
	// scrapeEvery is the interval of the manifests' ServiceMonitor.
	scrapeEvery = 30 * time.Second
	// evaluateEvery is what OpenShift's Prometheus does.
	evaluateEvery = 30 * time.Second
)

// A world is what Prometheus has scraped: values in its notation for tests ("0x20 1x40": 21 times
// 0, 41 times 1), by series. A series is written as METRIC{LABELS} REPLICA, without the labels
// that the scrape adds; REPLICA is a or b, or - for an API server.
type world map[string]string

// forLong is longer than any scenario lasts.
const forLong = "x400"

// healthy is a world of two replicas in which all is well. The first leads.
func healthy() world {
	w := world{}
	for _, replica := range []string{"a", "b"} {
		for series, values := range map[string]string{
			`up`:                    "1" + forLong,
			`mirrorset_guard_ready`: "1" + forLong,
			`mirrorset_guard_config_last_reload_successful`:                "1" + forLong,
			`mirrorset_guard_inventory_source_stale{source="pods"}`:        "0" + forLong,
			`mirrorset_guard_inventory_source_stale{source="nodes"}`:       "0" + forLong,
			`mirrorset_guard_standing_registries{state="reachable"}`:       "2" + forLong,
			`mirrorset_guard_standing_registries{state="unreachable"}`:     "0" + forLong,
			`mirrorset_guard_standing_rounds_total{result="failed"}`:       "0" + forLong,
			`mirrorset_guard_audit_records_total{result="lost"}`:           "0" + forLong,
			`mirrorset_guard_audit_oldest_queued_seconds`:                  "0" + forLong,
			`mirrorset_guard_recent_edits_shared`:                          "1" + forLong,
			`mirrorset_guard_recent_edits_disturbed_total{what="garbage"}`: "0" + forLong,
			`mirrorset_guard_recent_edits_disturbed_total{what="deleted"}`: "0" + forLong,
			`mirrorset_guard_certificate_verified`:                         "1" + forLong,
			`mirrorset_guard_certificate_last_reload_successful`:           "1" + forLong,
			`mirrorset_guard_certificate_expiry_timestamp_seconds`:         "864000" + forLong, // the tests begin at 0
			`mirrorset_guard_overrides_total{result="used"}`:               "0" + forLong,
			`mirrorset_guard_overrides_total{result="forbidden"}`:          "0" + forLong,
			`mirrorset_guard_review_deadline_ratio_count`:                  "0+1" + forLong,
			`mirrorset_guard_review_deadline_ratio_bucket{le="0.9"}`:       "0+1" + forLong,
			`mirrorset_guard_review_deadline_ratio_bucket{le="+Inf"}`:      "0+1" + forLong,
		} {
			w[series+" "+replica] = values
		}
	}
	maps.Copy(w, leads("a", "2x400"))
	maps.Copy(w, follows("b"))
	return w
}

// next are series about a release that was marked, of which rounds in a row have found that it is not ready.
func next(marked, rounds string) world {
	return world{
		`mirrorset_guard_update_not_ready_rounds{marked="` + marked + `"} a`: rounds,
		`mirrorset_guard_update_info{version="4.21.3"} a`:                    "_x20 1x200",
	}
}

// leads are the series of the replica that verifies, which holds images in such a number.
func leads(replica, held string) world {
	return world{
		`mirrorset_guard_standing_verifying ` + replica:                      "1" + forLong,
		`mirrorset_guard_standing_rounds_total{result="done"} ` + replica:    "0+1" + forLong,
		`mirrorset_guard_rollout_stalled{pool="worker"} ` + replica:          "0" + forLong,
		`mirrorset_guard_standing_images{state="held"} ` + replica:           held,
		`mirrorset_guard_standing_images{state="lost"} ` + replica:           "0" + forLong,
		`mirrorset_guard_standing_images{state="unverified"} ` + replica:     "0" + forLong,
		`mirrorset_guard_standing_findings{rule="RejectedByMCO"} ` + replica: "0" + forLong,
		`mirrorset_guard_standing_findings{rule="ImageMissing"} ` + replica:  "0" + forLong,
	}
}

func follows(replica string) world {
	return world{
		`mirrorset_guard_standing_verifying ` + replica:                   "0" + forLong,
		`mirrorset_guard_standing_rounds_total{result="done"} ` + replica: "0" + forLong,
	}
}

// with returns w, changed; what is changed to "" is not there.
func (w world) with(change world) world {
	w = maps.Clone(w)
	for series, values := range change {
		if w[series] = values; values == "" {
			delete(w, series)
		}
	}
	return w
}

// load returns w as Prometheus' test language has it.
func (w world) load() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s\n", scrapeEvery)
	for _, key := range slices.Sorted(maps.Keys(w)) {
		series, replica, _ := strings.Cut(key, " ")
		metric, own, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		all := []string{`namespace="mirrorset-guard"`, `job="mirrorset-guard"`, `service="mirrorset-guard"`, `endpoint="metrics"`, fmt.Sprintf("pod=%q", replica)}
		if replica == "-" {
			all = []string{`namespace="default"`, `job="apiserver"`, `endpoint="https"`}
		}
		if own != "" {
			all = append(all, own)
		}
		fmt.Fprintf(&b, "  %s{%s} %s\n", metric, strings.Join(all, ","), w[key])
	}
	return b.String()
}

// A fired alert has the labels and annotations that somebody sees.
type fired struct{ labels, annotations labels.Labels }

// firing returns which alerts fire in w after some time, sorted by name.
func firing(t *testing.T, w world, after time.Duration) []fired {
	t.Helper()
	loader, err := promqltest.NewLazyLoader(w.load(), promqltest.LazyLoaderOpts{})
	if err != nil {
		t.Fatalf("%v\n%s", err, w.load())
	}
	defer func() {
		if err := loader.Close(); err != nil {
			t.Error(err)
		}
	}()
	groups := loadGroups(t, loader)
	start := time.Unix(0, 0).UTC()
	for at := time.Duration(0); at <= after; at += evaluateEvery {
		ts := start.Add(at)
		loader.WithSamplesTill(ts, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(t.Context(), ts)
				for _, r := range g.Rules() {
					if r.LastError() != nil {
						t.Fatalf("%s: %v", r.Name(), r.LastError())
					}
				}
			}
		})
	}
	var out []fired
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				if a.State == rules.StateFiring {
					out = append(out, fired{a.Labels, a.Annotations})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b fired) int { return labels.Compare(a.labels, b.labels) })
	return out
}

func loadGroups(t *testing.T, loader *promqltest.LazyLoader) []*rules.Group {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, ruleGroups(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		Appendable: loader.Storage(),
		Queryable:  loader.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     expressions,
	})
	groups, errs := m.LoadGroups(evaluateEvery, labels.EmptyLabels(), "", nil, false, file)
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	return slices.Collect(maps.Values(groups))
}
