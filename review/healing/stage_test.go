package healing

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// A server is a real registry behind a proxy that counts, and may get in the way.
type server struct {
	host  string
	proxy httputil.ReverseProxy

	mu       sync.Mutex
	before   func(http.ResponseWriter, *http.Request) bool // answers instead of the registry, and says so
	requests int64
	bytes    int64 // of bodies
	puts     []string
	quiet    bool // the test's own requests are not counted
	login    string
	shown    map[string]bool // the headers that name who asks
}

func newServer(t *testing.T) *server {
	t.Helper()
	registries.Need(t)
	p, err := registries.StartProcess(t.TempDir(), "", "", io.Discard)
	must(t, err)
	t.Cleanup(func() { _ = p.Stop() }) // a registry that does not end fails no test of what it did
	s := &server{shown: map[string]bool{}, proxy: httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: p.Addr})
			r.Out.Host = r.In.Host
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	front := httptest.NewUnstartedServer(s)
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Start()
	t.Cleanup(front.Close)
	s.host = strings.TrimPrefix(front.URL, "http://")
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	before := s.before
	if s.quiet {
		before = nil
		if s.login != "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", s.login)
		}
	} else {
		s.requests++
		s.shown[r.Header.Get("Authorization")] = true
		r.Body = &counting{r.Body, s}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			s.puts = append(s.puts, r.URL.Path)
		}
	}
	s.mu.Unlock()
	if before == nil || !before(w, r) {
		s.proxy.ServeHTTP(w, r)
	}
}

type counting struct {
	io.ReadCloser
	of *server
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.bytes += int64(n)
	return n, err
}

func (s *server) set(before func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

func (s *server) counts() (requests, bytes int64, puts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.bytes, slices.Clone(s.puts)
}

// quietly does something that is the test's own.
func (s *server) quietly(f func()) {
	s.mu.Lock()
	s.quiet = true
	s.mu.Unlock()
	f()
	s.mu.Lock()
	s.quiet = false
	s.mu.Unlock()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A stage is a shop whose images are pulled by digest from a mirror that has them.
type stage struct {
	source, mirror *server
	set            mirrors.Set
	images         []policy.Image
	digests        map[string]string
	kube           *fake.Clientset
	registries     *registry.Client
	pushWith       registry.Credentials
	secretErr      error
	settings       Settings
	judged         policy.Settings

	resumed sync.Once
	mu      sync.Mutex
	told    []report.Report
	records []auditv1alpha1.Healing
	logged  []string
}

var plenty = Settings{Enabled: true, PushSecret: DefaultPushSecret, Limit: Limit{Bytes: 1 << 30, Requests: 100_000}}

func newStage(t *testing.T, n int) *stage {
	t.Helper()
	s := &stage{source: newServer(t), digests: map[string]string{}, kube: fake.NewClientset(), settings: plenty, judged: policy.Settings{Guesses: policy.GuessesDeny}}
	s.moveMirror(newServer(t))
	nodes, err := registry.ParseCredentials([]byte(`{"auths":{"elsewhere.example.com":{"auth":"YTpi"}}}`))
	must(t, err)
	s.registries = registry.NewClient(registry.Options{AllowLoopback: true, Credentials: nodes})
	t.Cleanup(s.registries.Close)
	for i := range n {
		s.add(t, fmt.Sprintf("app%03d", i))
	}
	return s
}

// moveMirror makes another registry the mirror.
func (s *stage) moveMirror(to *server) {
	s.mirror = to
	set := &configv1.ImageDigestMirrorSet{}
	set.Name, set.UID = "shop", types.UID("shop")
	set.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: s.source.host + "/shop", Mirrors: []configv1.ImageMirror{configv1.ImageMirror(s.mirror.host + "/shop")}}}
	s.set = mirrors.Set{Objects: []mirrors.Object{set}, Registries: configv1.RegistrySources{InsecureRegistries: []string{s.source.host, s.mirror.host}}}
}

// add has the source and the mirror hold an image of two platforms that the cluster pulls by digest.
func (s *stage) add(t *testing.T, app string) {
	t.Helper()
	index, err := registries.Index(app)
	must(t, err)
	digest, err := index.Digest()
	must(t, err)
	for _, at := range []*server{s.source, s.mirror} {
		at.quietly(func() { must(t, remote.WriteIndex(s.tag(t, at, app), index)) })
	}
	s.digests[app] = digest.String()
	s.images = append(s.images, policy.Image{
		Ref: s.source.host + "/shop/" + app + "@" + digest.String(), Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: app, Container: "app"}},
	})
}

// sign signs the parts of an image at a registry.
func (s *stage) sign(t *testing.T, at *server, app string) {
	t.Helper()
	at.quietly(func() {
		index, err := remote.Index(s.digest(t, at, app))
		must(t, err)
		list, err := index.IndexManifest()
		must(t, err)
		for _, part := range list.Manifests {
			digest := part.Digest.String()
			attached, err := registries.NewAttached(signer.Attach(signer.Key("release").Sign(s.source.host+"/shop/"+app+"@"+digest, digest)))
			must(t, err)
			must(t, remote.Write(s.tag(t, at, app).Context().Tag(signer.Tag(digest)), attached))
		}
	})
}

func (s *stage) tag(t *testing.T, at *server, app string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(at.host+"/shop/"+app+":v1", name.Insecure)
	must(t, err)
	return tag
}

func (s *stage) digest(t *testing.T, at *server, app string) name.Digest {
	t.Helper()
	return s.tag(t, at, app).Context().Digest(s.digests[app])
}

// remove deletes an image from the mirror.
func (s *stage) remove(t *testing.T, apps ...string) {
	t.Helper()
	s.mirror.quietly(func() {
		for _, app := range apps {
			must(t, remote.Delete(s.digest(t, s.mirror, app)))
		}
	})
}

func (s *stage) has(t *testing.T, app string) (there bool) {
	t.Helper()
	s.mirror.quietly(func() {
		index, err := remote.Index(s.digest(t, s.mirror, app))
		if err != nil {
			return
		}
		list, err := index.IndexManifest()
		must(t, err)
		there = !slices.ContainsFunc(list.Manifests, func(d v1.Descriptor) bool {
			_, err := remote.Head(s.digest(t, s.mirror, app).Digest(d.Digest.String()))
			return err != nil
		})
	})
	return there
}

// tags returns those of an image at the mirror.
func (s *stage) tags(t *testing.T, app string) (tags []string) {
	t.Helper()
	s.mirror.quietly(func() {
		var err error
		tags, err = remote.List(s.tag(t, s.mirror, app).Context())
		must(t, err)
	})
	return tags
}

// A healer is a process: a Healer, and what the standing verification would tell it.
type healer struct {
	*Healer
	stage   *stage
	metrics *prometheus.Registry
}

// process starts one, which sees what the mirror has now.
func (s *stage) process(t *testing.T) *healer {
	t.Helper()
	h := &healer{stage: s, metrics: prometheus.NewRegistry()}
	logger := funcr.New(func(_, args string) { s.mu.Lock(); defer s.mu.Unlock(); s.logged = append(s.logged, args) }, funcr.Options{})
	var err error
	h.Healer, err = New(Options{
		Registries: s.registries,
		Credentials: func(context.Context, string) (registry.Credentials, error) {
			return s.pushWith, s.secretErr
		},
		Lease: NewLease(s.kube.CoordinationV1(), "guard", "replica-"+fmt.Sprint(len(s.logged))),
		Outlet: report.Outlet{Reporter: func(_ context.Context, r report.Report) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, r)
			return nil
		}, Log: logger},
		Record:  func(d auditv1alpha1.Healing) { s.mu.Lock(); defer s.mu.Unlock(); s.records = append(s.records, d) },
		Log:     logger,
		Metrics: h.metrics,
	})
	must(t, err)
	h.Configure(s.settings)
	h.work = newWork()
	plan, facts := s.look(t)
	h.Seen(plan, facts)
	return h
}

// look plans the standing verification and asks the registries.
func (s *stage) look(t *testing.T) (policy.Plan, policy.Facts) {
	t.Helper()
	plan := policy.NewStanding(s.set, policy.Cluster{Images: policy.NewImages(s.images...)}, s.judged)
	facts := policy.Facts{}
	s.source.quietly(func() {
		s.mirror.quietly(func() {
			for lookups := plan.StandingLookups(facts); len(lookups) > 0; lookups = plan.StandingLookups(facts) {
				for _, l := range lookups {
					fact := s.registries.Probe(t.Context(), l)
					facts[l] = &fact
				}
			}
		})
	})
	return plan, facts
}

// round passes on what is lost, and waits until it was looked at.
func (h *healer) round(t *testing.T) {
	t.Helper()
	began := time.Now()
	h.pass(t, began, h.lost(t))
}

// lost returns what the standing verification finds to be lost.
func (h *healer) lost(t *testing.T) (lost []policy.Standing) {
	t.Helper()
	plan, facts := h.stage.look(t)
	h.Seen(plan, facts)
	for _, standing := range plan.Standings(facts) {
		if standing.Outcome == policy.Fails {
			lost = append(lost, standing)
		}
	}
	return lost
}

// pass passes on losses, and waits until they were looked at.
func (h *healer) pass(t *testing.T, began time.Time, lost []policy.Standing) {
	t.Helper()
	h.Lost(began, lost)
	<-h.news
	h.protected(t.Context())
}

// aMinuteLater has all rests be over.
func (h *healer) aMinuteLater() {
	for what, r := range h.work.rests {
		h.work.rests[what] = rest{times: r.times, reason: r.reason}
	}
}

// events returns what was told since, as "MirrorHealed: note".
func (s *stage) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, r := range s.told {
		all = append(all, fmt.Sprintf("%s %s: %s", r.Name(), r.Reason, r.Note))
	}
	s.told = nil
	return all
}

// value returns that of a metric with a label, -1 if there is none.
func (h *healer) value(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := h.metrics.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (label == "" || m.Label[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// annotate does what the Event of a stop says: oc annotate lease.
func (s *stage) annotate(t *testing.T, value string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{ResumeAnnotation: value}}})
	must(t, err)
	_, err = s.kube.CoordinationV1().Leases("guard").Patch(t.Context(), LeaseName, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

func wantEvents(t *testing.T, s *stage, want ...string) {
	t.Helper()
	got := s.events()
	if len(got) != len(want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("told\n%s\nwant\n%s", got[i], want[i])
		}
	}
}

func apps(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
