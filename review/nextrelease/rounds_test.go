package nextrelease

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A stage is a release on a mirror, and a Watcher of a cluster that is offered it.
type stage struct {
	*testrelease.Stage
	environment.Cluster
	version  *configv1.ClusterVersion // nil for none
	watcher  *Watcher
	told     []watchloop.Report
	registry *prometheus.Registry
}

func (s *stage) RolloutObjects() workloads.Objects {
	o := s.Cluster.RolloutObjects()
	o.Version = s.version
	return o
}

func (s *stage) ProgressObjects() workloads.Objects { return s.RolloutObjects() }

// A store remembers nothing: what it is said to know, it asks for. It keeps topics.
type store struct {
	*presence.Store
	kept *[]mirrors.Location
}

func (s store) Known(locs []mirrors.Location) policy.Facts {
	return s.Presence(context.Background(), locs, policy.Freshness{})
}

func (s store) Keep(_ string, locs []mirrors.Location, _ time.Duration) { *s.kept = locs }

func newStage(t *testing.T) (s *stage, kept *[]mirrors.Location) {
	t.Helper()
	s, kept = &stage{Stage: testrelease.Mirrored(t, 5), registry: prometheus.NewRegistry()}, new([]mirrors.Location)
	dump, err := snapshot.ReadFrom(strings.NewReader(s.Objects(s.Signed)), "the dump")
	if err != nil {
		t.Fatal(err)
	}
	w := environment.FromDump(dump, environment.Options{
		Registry: wire.Options{AllowLoopback: true},
		Facts:    presence.Options{Lifetimes: presence.Lifetimes{PresentDigest: 1, PresentTag: 1, Absent: 1, Recalled: 1, Trouble: 1}},
	})
	t.Cleanup(w.Close)
	s.Cluster, s.version = w.Cluster, w.Cluster.RolloutObjects().Version.DeepCopy()
	reviewer := w.Reviewer()
	reviewer.InForce = new(review.InForce)
	s.watcher, err = New(Options{
		Cluster: s, Reviewer: reviewer, Store: store{w.Registries.Store, kept}, Client: w.Registries.Client, Every: time.Millisecond,
		Elsewhere: "ask the leader", Metrics: s.registry,
		Outlet: watchloop.Outlet{Reporter: func(_ context.Context, r watchloop.Report) error {
			s.told = append(s.told, r)
			return nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Without()
	return s, kept
}

// series returns the metrics that are not 0, without the time, by name and labels.
func (s *stage) series(t *testing.T) string {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "mirrorset_guard_update_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if n := m.GetGauge().GetValue(); n > 0 && f.GetName() != "mirrorset_guard_update_judged_timestamp_seconds" {
				all = append(all, name)
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestRounds goes through what may become of a release: what two rounds after each change find, tell and count.
func TestRounds(t *testing.T) {
	s, kept := newStage(t)
	desire := func(u configv1.Update) func() { return func() { s.version.Spec.DesiredUpdate = &u } }
	component := s.PartOf("component-004", "image").Path
	offered := configv1.Update{Version: testrelease.Version}
	const readySeries = "images ready, info 4.21.3, state desired ready"
	l := ledger{}
	for _, tt := range []struct {
		reason  string
		setting Setting
		change  func()
		marked  string
		verdict string
		why     string   // of the document
		told    string   // the reason of the Event
		note    []string // what it says
		series  string
	}{
		{"nothing is marked", Desired, func() {}, "", "", "names no release but the one that runs", "", nil, ""},
		{"what is recommended counts", Recommended, func() {}, "recommended", "READY", "", UpdateReady, []string{"Release 4.21.3 (the newest that is recommended) is READY: "}, "images ready, info 4.21.3, state recommended ready"},
		{"somebody chooses it", Recommended, desire(offered), "desired", "READY", "", UpdateReady, []string{"Release 4.21.3 (chosen by spec.desiredUpdate) is READY: 6 of 6 images can be pulled by all nodes that need them."}, readySeries},
		{"nothing changes", Desired, func() {}, "desired", "READY", "", "", nil, readySeries},
		{"the mirror loses an image", Desired, func() { s.Without(component) }, "desired", "NOT READY", "", UpdateNotReady, []string{
			"Release 4.21.3 (chosen by spec.desiredUpdate) is NOT READY: 5 of 6 images can be pulled by all nodes that need them, 1 cannot. component-004 " + testrelease.PayloadSource + "@",
			": NotFullySynced: the source may not be contacted, and no mirror has the image", `"mirrorset-guard release desired" shows all`,
		}, "images not_ready, images ready, info 4.21.3, not_ready_rounds desired, state desired not_ready"},
		{"the mirror throttles", Desired, func() { s.Refuse(http.StatusTooManyRequests) }, "desired", "UNKNOWN", "", "", nil, "images unknown, info 4.21.3, state desired unknown"},
		{"the image is back", Desired, func() { s.Refuse(0); s.Without() }, "desired", "READY", "", UpdateReady, nil, readySeries},
		{"the mirror loses a signature that the release's own policy asks for", Desired, func() { s.Without(s.PartOf("cluster-version-operator", "signature").Path) }, "desired", "NOT READY", "", UpdateNotReady, []string{"SignatureMissing"}, "images not_ready, images ready, info 4.21.3, not_ready_rounds desired, state desired not_ready"},
		{"a version that nobody offers", Desired, desire(configv1.Update{Version: "4.99.0"}), "desired", "UNKNOWN", "ClusterVersion does not offer this version; it offers 4.20.10, 4.21.3, 4.21.4", UpdateNotDetermined, []string{"It is UNKNOWN whether nodes could pull release 4.99.0 (chosen by spec.desiredUpdate): "}, "info 4.99.0, state desired unknown"},
		{"an image that is no release", Desired, desire(configv1.Update{Image: s.Stage.Images + "@" + component[strings.LastIndex(component, "/")+1:]}), "desired", "UNKNOWN", "it is no release image", UpdateNotDetermined, nil, "info unknown, state desired unknown"},
		{"what runs", Desired, desire(configv1.Update{Version: "4.20.9"}), "", "", "names no release but the one that runs", "", nil, ""},
		{"there is no ClusterVersion", Desired, func() { s.version = nil }, "", "", "there is no ClusterVersion", "", nil, ""},
	} {
		tt.change()
		s.told = nil
		s.watcher.Configure(tt.setting)
		s.watcher.lead(true)
		for range 2 {
			if _, err := s.watcher.round(t.Context(), tt.setting, &l); err != nil {
				t.Error(err)
			}
		}
		doc := s.watcher.Document()
		if doc == nil || doc.Marked != tt.marked || doc.Verdict != tt.verdict || !strings.Contains(doc.Reason, tt.why) || (doc.Reason == "") != (tt.why == "") || (doc.Judged == nil) != (tt.verdict == "") || (doc.Review == nil) != (tt.verdict == "" || tt.why != "") {
			t.Errorf("%s: got %+v", tt.reason, doc)
		}
		var told watchloop.Report
		if len(s.told) > 0 {
			told = s.told[0]
		}
		if told.Reason != tt.told || len(s.told) > 1 || told.Warning != (tt.told == UpdateNotReady) {
			t.Errorf("%s: told %+v, want %s", tt.reason, s.told, tt.told)
		}
		for _, want := range tt.note {
			if !strings.Contains(told.Note, want) {
				t.Errorf("%s: no %q in %s", tt.reason, want, told.Note)
			}
		}
		if got := s.series(t); got != tt.series {
			t.Errorf("%s: metrics %s, want %s", tt.reason, got, tt.series)
		}
		if (len(*kept) > 0) != (tt.series != "") {
			t.Errorf("%s: %d locations are kept fresh", tt.reason, len(*kept))
		}
	}
}

// TestReadsOnce: a payload is read by the first round alone.
func TestReadsOnce(t *testing.T) {
	s, _ := newStage(t)
	s.version.Spec.DesiredUpdate = &configv1.Update{Version: testrelease.Version}
	var l ledger
	_, _ = s.watcher.round(t.Context(), Desired, &l)
	s.Without()
	_, _ = s.watcher.round(t.Context(), Desired, &l)
	for _, asked := range s.Requests() {
		if strings.HasPrefix(asked, http.MethodGet+" ") && strings.HasSuffix(asked, s.PartOf("release", "layer").Path) {
			t.Errorf("read again: %s", asked)
		}
	}
}

// TestRun: once the setting is on, whoever runs judges, and others say who does; nothing is left when it ends.
func TestRun(t *testing.T) {
	s, kept := newStage(t)
	s.version.Spec.DesiredUpdate = &configv1.Update{Version: testrelease.Version}
	s.Without(s.PartOf("rhel-coreos", "image").Path)
	w := s.watcher
	told := make(chan watchloop.Report, 10)
	w.options.Outlet.Reporter = func(_ context.Context, r watchloop.Report) error {
		told <- r
		return nil
	}
	if doc := w.Document(); doc != nil {
		t.Errorf("off: %+v", doc)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	w.Configure(Desired)
	if n := <-told; n.Reason != UpdateNotReady {
		t.Errorf("got %+v", n)
	}
	cancel()
	<-ended
	if doc := w.Document(); doc == nil || doc.Verdict != "" || doc.Reason != "ask the leader" || s.series(t) != "" || len(*kept) > 0 {
		t.Errorf("it does not run any more: %+v, %s", doc, s.series(t))
	}
	w.lead(true)
	if doc := w.Document(); doc == nil || doc.Reason != "it was not judged yet" {
		t.Errorf("it begins: %+v", doc)
	}
	w.Configure(Off)
	if doc := w.Document(); doc != nil {
		t.Errorf("off again: %+v", doc)
	}
}
