package page

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// A written page has a name and what writes it.
type written struct {
	name  string
	write func(io.Writer) error
}

func samples() []written {
	c, status := sampleContext(), sampleContext()
	status.Whole = "mirrorset-guard rollout status -o json"
	review := func(doc v1alpha1.Review) func(io.Writer) error {
		return func(w io.Writer) error { return WriteReview(w, doc, c) }
	}
	release := func(doc v1alpha1.ReleaseReview) func(io.Writer) error {
		return func(w io.Writer) error { return WriteRelease(w, doc, c) }
	}
	empty := v1alpha1.Review{Allowed: true, Subject: "ImageTagMirrorSet other", Summary: "ImageTagMirrorSet other is admitted: it reroutes 0 of 1 image, so there was nothing to verify.", Mode: "enforce"}
	crowd := sampleReview()
	for i := range 5000 {
		crowd.Findings[0].Consumers = append(crowd.Findings[0].Consumers, consumer("Deployment", fmt.Sprintf("team-%d", i), "app", "main"))
		crowd.Rerouted[0].Consumers = crowd.Findings[0].Consumers
	}
	untimed := sampleReview()
	for i := range untimed.Rerouted {
		untimed.Rerouted[i].After.Sources[0].Fact.Time = nil
	}
	return []written{
		{"review", review(sampleReview())},
		{"review-empty", review(empty)},
		{"review-hostile", review(hostile())},
		{"review-crowd", review(crowd)},
		{"review-untimed", review(untimed)},
		{"review-10000", review(manyRerouted(10_000, false))},
		{"review-10000-refused", review(manyRerouted(10_000, true))},
		{"rollout", func(w io.Writer) error { return WriteRolloutStatus(w, sampleStatus(), status) }},
		{"rollout-empty", func(w io.Writer) error { return WriteRolloutStatus(w, v1alpha1.RolloutStatus{}, c) }},
		{"diagnosis", func(w io.Writer) error { return WriteDiagnosis(w, sampleDiagnosis(), c) }},
		{"report", func(w io.Writer) error { return WriteReport(w, sampleReport(), c) }},
		{"report-empty", func(w io.Writer) error { return WriteReport(w, Report{}, c) }},
		{"decision", func(w io.Writer) error { return WriteDecision(w, sampleReport().Decisions[0], c) }},
		{"decision-none", func(w io.Writer) error {
			return WriteDecision(w, auditv1alpha1.Decision{Time: noon, UID: "1", Verdict: "none", Operation: "CREATE", Object: auditv1alpha1.Object{Kind: "ImageTagMirrorSet", Name: "shop"}, Reason: "the inventory has not been read yet"}, c)
		}},
		{"release", release(sampleRelease())},
		{"release-ready", release(manyReleased(190, "READY"))},
		{"release-unknown", release(manyReleased(190, "UNKNOWN"))},
		{"release-empty", release(v1alpha1.ReleaseReview{})},
		{"release-hostile", release(hostileRelease())},
		{"diagnosis-well", func(w io.Writer) error { return WriteDiagnosis(w, v1alpha1.Diagnosis{}, c) }},
	}
}

func sampleStatus() v1alpha1.RolloutStatus {
	at := noon
	return v1alpha1.RolloutStatus{
		Operator: &v1alpha1.Operator{Conditions: []v1alpha1.Condition{{Type: "Degraded", Status: "False", Since: &at}, {Type: "Progressing", Status: "True", Reason: "Working", Message: "Working towards the target", Since: &at}}},
		Pools: []v1alpha1.PoolStatus{
			{Name: "master", State: "updated", Machines: 3, Updated: 3, Ready: 3, Present: 3},
			{Name: "worker", State: "updating", Machines: 5, Updated: 2, Ready: 2, Unavailable: 1, Degraded: 1, Present: 5, Target: "rendered-worker-2", Action: "drains and reloads CRI-O", Nodes: []v1alpha1.NodeStatus{
				{Name: "worker-3", State: "is being drained", Daemon: "Degraded", Reason: "the drain takes more than an hour", Current: "a", Desired: "b"},
				{Name: "worker-4", State: "waits", Current: "a", Desired: "a"},
				{Name: "worker-5", State: "waits", Current: "a", Desired: "a"},
			}},
		},
		Remaining: &v1alpha1.Remaining{MinSeconds: 900, MaxSeconds: 2700, Text: "15 to 45 minutes"},
		Notes:     []string{"MachineConfigNodes could not be read"},
	}
}

func sampleDiagnosis() v1alpha1.Diagnosis {
	return v1alpha1.Diagnosis{
		Findings: []v1alpha1.HoldUp{{
			Cause: "ImageMissing", Pool: "worker", Node: "worker-3", AlsoNodes: []string{"worker-4"},
			Chain:    []string{"node worker-3 is being drained for 70 minutes", "budget openshift-ingress/router-default allows no eviction", "pod openshift-ingress/router-default-7f8b9c-abc12 cannot pull its image"},
			Remedies: []v1alpha1.Remedy{{Command: "skopeo copy --all docker://quay.io/a docker://mirror.example.com/a", Effect: "puts the image where nodes look for it"}, {Command: "oc -n openshift-ingress describe pod", Effect: "shows the pod", ReadOnly: true}},
		}},
		Notes: []string{"the rollout began 80 minutes ago"},
	}
}

func sampleReport() Report {
	status := sampleStatus()
	next := sampleRelease()
	r := Report{Standing: sampleReview(), Rollout: &status, Release: &v1alpha1.NextRelease{Updates: "desired", Marked: "desired", Version: next.Version, Verdict: next.Verdict, Judged: &noon, Review: &next}}
	r.Standing.Forecast = nil
	for i, verdict := range []string{"denied", "allowed", "overridden"} {
		r.Decisions = append(r.Decisions, auditv1alpha1.Decision{
			Time: noon, UID: fmt.Sprintf("0000-%d", i), Verdict: verdict, SenderNotKnown: i == 1, Operation: "CREATE", User: auditv1alpha1.User{Name: "jane", Groups: []string{"admins"}},
			Object: auditv1alpha1.Object{Kind: "ImageTagMirrorSet", Name: "shop"}, Reason: "ImageTagMirrorSet shop is refused" + hostileText, Forecast: "drains 8 nodes",
			Findings: []v1alpha1.Finding{{Rule: "ImageMissing", Severity: "deny", Image: "quay.io/shop/cart:v1", Reason: "no mirror has it", Detail: "mirror.example.com/shop/cart:v1: absent"}},
		})
	}
	return r
}

// TestPages: pages are the same each time, bounded, well formed, and fetch nothing. PAGES=FOLDER leaves
// them there, for a browser (test/browser).
func TestPages(t *testing.T) {
	for _, p := range samples() {
		t.Run(p.name, func(t *testing.T) {
			out := pageOf(t, p)
			if again := pageOf(t, p); again != out { // there are maps behind it
				t.Error("it differs the second time")
			}
			if len(out) > MaxBytes {
				t.Errorf("it has %d bytes", len(out))
			}
			checkMarkup(t, out)
			compare(t, p.name, out)
			if dir := os.Getenv("PAGES"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, p.name+".html"), []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func pageOf(t *testing.T, p written) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// compare holds what a page says, without its style and script, to the file in testdata: those of
// which a person can read the difference.
func compare(t *testing.T, name, out string) {
	t.Helper()
	if !slices.Contains([]string{"review", "rollout", "diagnosis", "report", "decision", "release"}, name) {
		return
	}
	path := filepath.Join("testdata", name+".html")
	out = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<meta http-equiv[^>]*>`).ReplaceAllString(out, "")
	golden.File(t, path, out)
}

// checkMarkup: one style and one script, which the policy names; no other element or attribute that
// runs, fetches or sends anything; ids are there once, and each link within the page leads somewhere.
func checkMarkup(t *testing.T, out string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	ids, links := map[string]int{}, []string{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "style":
			want := hashOf(n.FirstChild.Data)
			if !strings.Contains(securityPolicy, n.Data+"-src '"+want+"'") {
				t.Errorf("the policy lacks %s of <%s>", want, n.Data)
			}
		case "img", "link", "iframe", "object", "embed", "base", "audio", "video", "image", "use", "foreignobject":
			t.Errorf("there is an element <%s>", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src", a.Key == "srcset", a.Key == "action", a.Key == "background":
				t.Errorf("<%s> has an attribute %s", n.Data, a.Key)
			case a.Key == "id":
				ids[a.Val]++
			case a.Key == "href":
				links = append(links, a.Val)
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %s is there %d times", id, n)
		}
	}
	for _, l := range links {
		target, ok := strings.CutPrefix(l, "#")
		if !ok && !strings.HasPrefix(l, "?change=") {
			t.Errorf("a link leads out of the page: %s", l)
		} else if ok && ids[target] == 0 && !strings.HasPrefix(target, "finding-") {
			t.Errorf("a link leads nowhere: %s", l)
		}
	}
}

// TestHostile: nothing of what others write is markup, or does not print.
func TestHostile(t *testing.T) {
	for _, p := range []written{
		{"review", func(w io.Writer) error { return WriteReview(w, hostile(), sampleContext()) }},
		{"release", func(w io.Writer) error { return WriteRelease(w, hostileRelease(), sampleContext()) }},
	} {
		out := pageOf(t, p)
		if !strings.Contains(out, "&lt;script&gt;alert(1)&lt;/script&gt;") {
			t.Errorf("%s: the text is not there", p.name)
		}
		for _, bad := range []string{"<script>alert", "<img", "\u202e", "\x1b", "\x00", "ZgotmplZ"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: %q is in the page", p.name, bad)
			}
		}
	}
}

// TestLeftOut: a page that leaves something out says how much, and where it is.
func TestLeftOut(t *testing.T) {
	var b bytes.Buffer
	for _, deny := range []bool{true, false} {
		b.Reset()
		if err := WriteReview(&b, manyRerouted(10_000, deny), sampleContext()); err != nil {
			t.Fatal(err)
		}
		if shown := rowsIn(b.String()); shown != 10_000 {
			t.Errorf("of 10,000 images %d have a row", shown)
		}
	}
	b.Reset()
	if err := WriteReview(&b, manyRerouted(100_000, true), sampleContext()); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	shown, cards := rowsIn(out), strings.Count(out, `id="finding-`)
	for _, left := range []int{100_000 - shown, 100_000 - cards} {
		if want := grouped(left) + " more are left out here, as the page would become too large. <code>mirrorset-guard check -o json</code>"; !strings.Contains(out, want) {
			t.Errorf("%d rows and %d findings, but not: %s", shown, cards, want)
		}
	}
	if len(out) > MaxBytes {
		t.Errorf("it has %d bytes", len(out))
	}
}

// rowsIn counts the images that have a row.
func rowsIn(out string) int {
	_, list, _ := strings.Cut(out, `id="image-rows"`)
	return strings.Count(list, "<td class=\"good\">") + strings.Count(list, "<td class=\"bad\">")
}

// TestBounded: names of a thousand characters, all of them different, make no page larger.
func TestBounded(t *testing.T) {
	long := func(i int, what string) string { return fmt.Sprintf("%s-%d-%s", what, i, strings.Repeat("long", 250)) }
	doc := manyRerouted(2000, true)
	doc.Forecast = &v1alpha1.Forecast{Pools: []v1alpha1.PoolStep{{Name: long(0, "pool"), Part: "takes"}}}
	var diagnosis v1alpha1.Diagnosis
	release := manyReleased(2000, "NOT READY")
	for i := range doc.Rerouted {
		r := &doc.Rerouted[i]
		r.Consumers[0].Namespace, r.After.Entry = long(i, "namespace"), long(i, "entry")
		for k := range r.After.Sources {
			r.After.Sources[k].Reference = long(i, "registry") + "/" + long(i, "image")
			r.After.Sources[k].Fact = fact("absent", long(i, "answer"))
		}
		r.Image = r.After.Sources[0].Reference
		f := &doc.Findings[i]
		f.Rule, f.Reason, f.Image, f.Consumers = "TagDrift", long(i, "reason"), r.Image, r.Consumers
		doc.Forecast.Pools[0].Nodes = append(doc.Forecast.Pools[0].Nodes, long(i, "node"))
		img := &release.Images[i]
		img.Name, img.Image, img.At, img.Pools = long(i, "name"), r.Image, r.Image, []string{long(i, "pool")}
		img.Findings = slices.Repeat([]v1alpha1.Finding{*f}, 20)
		release.Problems = append(release.Problems, v1alpha1.ReleaseProblem{About: long(i, "what"), State: "NOT READY", Reason: long(i, "reason"), Detail: []string{long(i, "detail")}})
		diagnosis.Findings = append(diagnosis.Findings, v1alpha1.HoldUp{Cause: "x", Chain: []string{long(i, "symptom"), long(i, "cause")}})
	}
	for _, p := range []written{
		{"review", func(w io.Writer) error { return WriteReview(w, doc, sampleContext()) }},
		{"report", func(w io.Writer) error { return WriteReport(w, Report{Standing: doc}, sampleContext()) }},
		{"diagnosis", func(w io.Writer) error { return WriteDiagnosis(w, diagnosis, sampleContext()) }},
		{"release", func(w io.Writer) error { return WriteRelease(w, release, sampleContext()) }},
	} {
		if out := pageOf(t, p); len(out) > MaxBytes || len(out) < 100_000 {
			t.Errorf("%s has %d bytes", p.name, len(out))
		}
	}
}

func grouped(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

func BenchmarkReview(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		doc := manyRerouted(n, n != 10_000)
		b.Run(fmt.Sprintf("images=%d", n), func(b *testing.B) {
			var size counter
			for b.Loop() {
				size = 0
				if err := WriteReview(&size, doc, sampleContext()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}

// A counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
