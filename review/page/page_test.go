package page_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// A written page has a name and the answer that it is of.
type written struct {
	name   string
	answer *answer.Answer
}

func samples() []written {
	crowd := sampleReview()
	for i := range 5000 {
		crowd.Findings[0].Consumers = append(crowd.Findings[0].Consumers, consumer("Deployment", fmt.Sprintf("team-%d", i), "app", "main"))
		crowd.Rerouted[0].Consumers = crowd.Findings[0].Consumers
	}
	untimed := sampleReview()
	for i := range untimed.Rerouted {
		untimed.Rerouted[i].After.Sources[0].Fact.Time = nil
	}
	empty := v1alpha1.Review{Allowed: true, Subject: "ImageTagMirrorSet other", Summary: "ImageTagMirrorSet other is admitted: it reroutes 0 of 1 image, so there was nothing to verify.", Mode: "enforce"}
	none := auditv1alpha1.Decision{Time: noon, UID: "1", Verdict: "none", Operation: "CREATE", Object: auditv1alpha1.Object{Kind: "ImageTagMirrorSet", Name: "shop"}, Reason: "the inventory has not been read yet"}
	var all []written
	for name, doc := range map[string]v1alpha1.Review{
		"review": sampleReview(), "review-empty": empty, "review-hostile": hostile(), "review-crowd": crowd, "review-untimed": untimed,
		"review-10000": manyRerouted(10_000, false), "review-10000-refused": manyRerouted(10_000, true),
	} {
		all = append(all, written{name, answerOf(doc, page.Review)})
	}
	for name, r := range map[string]*readiness.Readiness{
		"release": sampleRelease(), "release-ready": manyReleased(190, readiness.Ready), "release-unknown": manyReleased(190, readiness.Unknown), "release-empty": {}, "release-hostile": hostileRelease(),
	} {
		all = append(all, written{name, r.Answer()})
	}
	return append(all,
		written{"rollout", rollouts.StatusAnswer(sampleStatus(), noon)}, written{"rollout-empty", rollouts.StatusAnswer(status.Status{}, noon)},
		written{"diagnosis", rollouts.DiagnosisAnswer(sampleDiagnosis())}, written{"diagnosis-well", rollouts.DiagnosisAnswer(causes.Diagnosis{})},
		written{"report", sampleReport()}, written{"report-empty", answerOf(v1alpha1.Review{Allowed: true}, page.Standing)},
		written{"decision", page.Decision(sampleDecisions()[0])}, written{"decision-none", page.Decision(none)},
	)
}

func sampleStatus() status.Status {
	at := noon
	node := func(name string, state status.NodeState, daemon, reason, current, desired string) status.Node {
		return status.Node{Node: rollout.Node{Name: name}, State: state, Report: rollout.Report{State: daemon, Reason: reason, Current: current, Desired: desired}}
	}
	return status.Status{
		Operator: &status.Operator{Conditions: []status.Condition{{Type: "Degraded", Status: "False", Since: &at}, {Type: "Progressing", Status: "True", Reason: "Working", Message: "Working towards the target", Since: &at}}},
		Pools: []status.Pool{
			{Pool: rollout.Pool{Name: "master"}, State: status.PoolUpdated, Machines: 3, Updated: 3, Ready: 3},
			{Pool: rollout.Pool{Name: "worker"}, State: status.PoolUpdating, Machines: 5, Updated: 2, Ready: 2, Unavailable: 1, Degraded: 1, Target: "rendered-worker-2", From: "rendered-worker-1", Action: "drains and reloads CRI-O", Left: []status.Node{
				node("worker-3", status.NodeDraining, "Degraded", "the drain takes more than an hour", "a", "b"), node("worker-4", status.NodeWaits, "", "", "a", "a"), node("worker-5", status.NodeWaits, "", "", "a", "a"),
			}},
		},
		Remaining: rollout.Range{Min: 15 * time.Minute, Max: 45 * time.Minute},
		Notes:     []string{"MachineConfigNodes could not be read"},
	}
}

func sampleDiagnosis() causes.Diagnosis {
	return causes.Diagnosis{
		HoldUps: []causes.HoldUp{{
			Cause: "ImageMissing", Pool: "worker", Node: "worker-3", AlsoNodes: []string{"worker-4"},
			Chain:    causes.Chain{Symptom: "node worker-3 is being drained for 70 minutes", Links: []string{"budget openshift-ingress/router-default allows no eviction", "pod openshift-ingress/router-default-7f8b9c-abc12 cannot pull its image"}},
			Remedies: []causes.Remedy{{Command: "skopeo copy --all docker://quay.io/a docker://mirror.example.com/a", Effect: "puts the image where nodes look for it"}, {Command: "oc -n openshift-ingress describe pod", Effect: "shows the pod", ReadOnly: true}},
		}},
		Notes: []string{"the rollout began 80 minutes ago"},
	}
}

func sampleReport() *answer.Answer {
	doc := sampleReview()
	doc.Forecast = nil
	a := answerOf(doc, page.Standing)
	a.Add(rollouts.StatusAnswer(sampleStatus(), noon).Blocks...)
	a.Add(page.Decisions(sampleDecisions())...)
	return a
}

func sampleDecisions() (all []auditv1alpha1.Decision) {
	for i, verdict := range []string{"denied", "allowed", "overridden"} {
		all = append(all, auditv1alpha1.Decision{
			Time: noon, UID: fmt.Sprintf("0000-%d", i), Verdict: verdict, SenderNotKnown: i == 1, Operation: "CREATE", User: auditv1alpha1.User{Name: "jane", Groups: []string{"admins"}},
			Object: auditv1alpha1.Object{Kind: "ImageTagMirrorSet", Name: "shop"}, Reason: "ImageTagMirrorSet shop is refused" + hostileText, Forecast: "drains 8 nodes",
			Findings: []v1alpha1.Finding{{Rule: "ImageMissing", Severity: "deny", Image: "quay.io/shop/cart:v1", Reason: "no mirror has it", Detail: "mirror.example.com/shop/cart:v1: absent"}},
		})
	}
	return all
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
			if len(out) > answer.MaxPage {
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

func pageOf(t testing.TB, p written) string {
	t.Helper()
	out, err := p.answer.HTML(about())
	if err != nil {
		t.Fatal(err)
	}
	return out
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
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
			if !strings.Contains(answer.SecurityPolicy(), n.Data+"-src '"+want+"'") {
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
	for _, p := range []written{{"review", answerOf(hostile(), page.Review)}, {"release", hostileRelease().Answer()}} {
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
	for _, deny := range []bool{true, false} {
		if shown := rowsIn(pageOf(t, written{"", answerOf(manyRerouted(10_000, deny), page.Review)})); shown != 10_000 {
			t.Errorf("of 10,000 images %d have a row", shown)
		}
	}
	out := pageOf(t, written{"", answerOf(manyRerouted(40_000, true), page.Review)})
	shown, cards := rowsIn(out), strings.Count(out, `id="finding-`)
	for _, left := range []int{40_000 - shown, 40_000 - cards} {
		if want := grouped(left) + " more are left out here, as the page would become too large. <code>mirrorset-guard check -o json</code>"; !strings.Contains(out, want) {
			t.Errorf("%d rows and %d findings, but not: %s", shown, cards, want)
		}
	}
	if len(out) > answer.MaxPage {
		t.Errorf("it has %d bytes", len(out))
	}
	two := manyRerouted(2, false) // routes of one image, of consumers in different namespaces
	two.Rerouted[1].Image, two.Rerouted[1].Consumers[0].Namespace = two.Rerouted[0].Image, "of-the-second"
	if out := pageOf(t, written{"", answerOf(two, page.Review)}); !strings.Contains(out, "of-the-second") || rowsIn(out) != 1 {
		t.Errorf("%d rows, without the second namespace", rowsIn(out))
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
	var diagnosis causes.Diagnosis
	release := manyReleased(2000, readiness.NotReady)
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
		img.Name, img.Ref, img.At, img.Pools = long(i, "name"), r.Image, r.Image, []string{long(i, "pool")}
		img.Findings = slices.Repeat([]policy.Finding{{Rule: "TagDrift", Severity: policy.Deny, Reason: f.Reason, Image: policy.Image{Ref: r.Image}}}, 20)
		release.Problems = append(release.Problems, readiness.Problem{About: long(i, "what"), State: readiness.NotReady, Reason: long(i, "reason"), Detail: []string{long(i, "detail")}})
		diagnosis.HoldUps = append(diagnosis.HoldUps, causes.HoldUp{Cause: "x", Chain: causes.Chain{Symptom: long(i, "symptom"), Links: []string{long(i, "cause")}}})
	}
	for _, p := range []written{
		{"review", answerOf(doc, page.Review)}, {"report", answerOf(doc, page.Standing)}, {"release", release.Answer()}, {"diagnosis", rollouts.DiagnosisAnswer(diagnosis)},
	} {
		if out := pageOf(t, p); len(out) > answer.MaxPage || len(out) < 20_000 {
			t.Errorf("%s has %d bytes", p.name, len(out))
		}
	}
}

func grouped(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

func BenchmarkReview(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		doc := manyRerouted(n, n != 10_000)
		b.Run(fmt.Sprintf("images=%d", n), func(b *testing.B) {
			var size int
			for b.Loop() {
				size = len(pageOf(b, written{"", answerOf(doc, page.Review)}))
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}
