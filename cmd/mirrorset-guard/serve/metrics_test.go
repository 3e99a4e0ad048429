package serve

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// ownMetrics is how the names of the guard's metrics begin. The others are those of Go programs.
const ownMetrics = "mirrorset_guard_"

// TestMetrics scrapes a guard that runs as it is installed, on a real API server. Whatever it
// registers is there, before it has had anything to do, and docs/metrics.md says so.
func TestMetrics(t *testing.T) {
	c := cluster.New(t)
	c.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`)
	c.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: mirrorset-guard}}`)
	c.Apply(t, clitest.CartDeployment)
	c.Apply(t, clitest.ShopMirror)
	c.Apply(t, clitest.WatchPool) // there are no series of pools without one
	c.Apply(t, `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, spec: {clusterID: 0b3e4f2a-8a1c-4d2e-9f10-2f4a5b6c7d8e, desiredUpdate: {version: 4.21.3}}}`)
	families := scrapeGuard(t, c)

	t.Run("conventions", func(t *testing.T) { testConventions(t, families) })
	t.Run("document", func(t *testing.T) { testDocument(t, families) })
	t.Run("labels", func(t *testing.T) { testLabels(t, families) })
	t.Run("of the API server", func(t *testing.T) { testAPIServerMetrics(t, c) })
}

// scrapeGuard runs a guard until all that it registers is in a scrape, and returns that.
func scrapeGuard(t *testing.T, c *cluster.Cluster) map[string]*dto.MetricFamily {
	t.Helper()
	settings := config.Default()
	settings.Updates = "desired" // there are no series of a release that is not looked after
	defaults, err := settings.YAML()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca, err := certificates.SelfSigned(dir, []string{"127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	g := runGuard(t, c.Config, logr.Discard(), append(clitest.RegistryAt(t, holdsAll), "--tls-dir", dir, "--config", clitest.Written(t, "config.yaml", string(defaults)),
		"--metrics-plain", "--leader-elect", "--verify-every", "200ms")...)
	applyWebhooks(t, c, "https://"+g.options.listen, ca)

	registered := registeredNames(g.registry)
	if len(registered) < 20 {
		t.Fatalf("%q: these are not all", registered)
	}
	var families map[string]*dto.MetricFamily
	var missing []string
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) { // a scrape is all there is to see
		families = scrape(t, "http://"+g.options.observe.address+"/metrics")
		missing = slices.DeleteFunc(slices.Clone(registered), func(name string) bool { return families[name] != nil })
		if len(missing) == 0 {
			return families
		}
		if time.Now().After(deadline) {
			t.Fatalf("registered, and in no scrape: %q", missing)
		}
	}
}

var fullName = regexp.MustCompile(`fqName: "([^"]*)"`)

// registeredNames returns the names of the guard's own metrics in r, sorted. A Desc shows its
// name in no other way.
func registeredNames(r *prometheus.Registry) []string {
	descs := make(chan *prometheus.Desc)
	go func() {
		r.Describe(descs)
		close(descs)
	}()
	var names []string
	for d := range descs {
		if name := fullName.FindStringSubmatch(d.String())[1]; strings.HasPrefix(name, ownMetrics) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// scrape returns what is served at url, nothing as long as nobody listens there.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// own returns those families that are the guard's, by name.
func own(families map[string]*dto.MetricFamily) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if strings.HasPrefix(name, ownMetrics) {
			out = append(out, families[name])
		}
	}
	return out
}

func testConventions(t *testing.T, families map[string]*dto.MetricFamily) {
	problems, err := promlint.NewWithMetricFamilies(own(families)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// testLabels: no label holds what somebody may choose, and so none has many values.
func testLabels(t *testing.T, families map[string]*dto.MetricFamily) {
	for _, f := range own(families) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				for _, chosen := range []string{"example.com", "cart", "shop"} {
					if strings.Contains(l.GetValue(), chosen) {
						t.Errorf("%s has the label %s=%q, which an object of the cluster says", f.GetName(), l.GetName(), l.GetValue())
					}
				}
			}
		}
		if n := len(f.GetMetric()); n > 200 {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
	}
}

func testDocument(t *testing.T, families map[string]*dto.MetricFamily) {
	golden.File(t, filepath.FromSlash("../../../docs/metrics.md"), string(metricsDocument(own(families))))
}

// metricsDocument returns docs/metrics.md.
func metricsDocument(families []*dto.MetricFamily) []byte {
	var b bytes.Buffer
	b.WriteString(`<!-- Made by go test -tags=integration ./cmd/mirrorset-guard/serve -run TestMetrics -update, from a guard that runs. -->
# Metrics

What a guard serves at /metrics, beside the metrics of any Go program (` + "`go_*`, `process_*`" + `).
[monitoring.md](monitoring.md) says how to install what reads them, and which alerts there are.

No label holds what somebody may choose, such as a registry, an image or a user, so that the number of series is bounded; the values of
` + "`rule`" + ` are the [rules](rules.md). All metrics are there from the start, at 0 where nothing has happened yet. Those about rollouts, about
findings and images of the configuration in force, and about the next release are served by the replica that leads alone, the last while a
release is marked.

`)
	for _, f := range families {
		meaning := onlyOf.ReplaceAllString(f.GetHelp(), "")
		labels := labelNames(f)
		meaning = values.ReplaceAllStringFunc(meaning, func(list string) string {
			names := strings.Split(strings.Trim(list, " ()"), ", ")
			slices.Sort(names)
			if strings.Contains(labels, "("+strings.Join(names, ", ")+")") {
				return ""
			}
			return list
		})
		fmt.Fprintf(&b, "- `%s` %s: %s\n", f.GetName(), strings.TrimSuffix(strings.ToLower(f.GetType().String())+" "+labels, " "), meaning)
	}
	return b.Bytes()
}

// onlyOf is what the page says once, values a list that stands beside the label as well.
var (
	onlyOf = regexp.MustCompile(` Only of the replica that [^.]*\.`)
	values = regexp.MustCompile(` \([a-z_, ]+\)`)
)

// labelNames returns those of f as Markdown, without those that a histogram has of itself, and
// their values where there is a fixed number of them.
func labelNames(f *dto.MetricFamily) string {
	values := map[string]map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if values[l.GetName()] == nil {
				values[l.GetName()] = map[string]bool{}
			}
			values[l.GetName()][l.GetValue()] = true
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := "`" + name + "`"
		if !slices.Contains(openLabels, name) {
			text += " (" + strings.Join(slices.Sorted(maps.Keys(values[name])), ", ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// openLabels are those whose values are not listed: they differ from one build or cluster to the
// next, or are many.
var openLabels = []string{"goversion", "version", "source", "pool", "profile", "min_version", "rule"}

// testAPIServerMetrics: what an API server counts where it cannot call the guard is called as
// the alerts have it.
func testAPIServerMetrics(t *testing.T, c *cluster.Cluster) {
	applyWebhooks(t, c, "https://127.0.0.1:1", nil)
	other := strings.ReplaceAll(clitest.ShopMirror, `"name":"shop"`, `"name":"other"`)
	eventually(t, "an API server that cannot call the guard refuses a change", func() bool {
		out, err := c.Kubectl(t.Context(), other, "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "127.0.0.1:1")
	})
	if out, err := c.Kubectl(t.Context(), "", "delete", "imagetagmirrorset", "shop"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := c.Kubectl(t.Context(), "", "get", "--raw", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="mirrorsets.mirrorset-guard.io",operation="CREATE",rejection_code="[0-9]+",type="validating"}`,
		`apiserver_admission_webhook_fail_open_count{name="mirrorset-deletions.mirrorset-guard.io",type="validating"}`,
	} {
		if !regexp.MustCompile("(?m)^" + want + " [1-9]").MatchString(text) {
			t.Errorf("no series %s", want)
		}
	}
}

// applyWebhooks makes the API server ask a guard at url.
func applyWebhooks(t *testing.T, c *cluster.Cluster, url string, ca []byte) {
	t.Helper()
	hooks, err := process.WebhooksAt(url, ca)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(hooks)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(data))
}

// nearDeadline returns how many reviews of g took over 90 % of their time, as the alert counts them.
func nearDeadline(t *testing.T, g *guard) uint64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "mirrorset_guard_review_deadline_ratio" })
	h := families[i].GetMetric()[0].GetHistogram()
	k := slices.IndexFunc(h.GetBucket(), func(b *dto.Bucket) bool { return b.GetUpperBound() == .9 })
	return h.GetSampleCount() - h.GetBucket()[k].GetCumulativeCount()
}

// eventually waits for another process, which has no event for what.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
