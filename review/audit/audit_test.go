package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// TestEqualSpecsHaveEqualHashes: and only those, however they are written.
func TestEqualSpecsHaveEqualHashes(t *testing.T) {
	of := func(spec string) string {
		t.Helper()
		o, err := mirrors.Parse([]byte("apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\n" + spec + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return hashOf(t, o)
	}
	hash := func(spec string) string { return of("metadata: {name: a}\nspec: " + spec) }
	base := hash("{imageTagMirrors: [{source: quay.io/a, mirrors: [m.io/a, n.io/a]}]}")
	for spec, equal := range map[string]bool{
		"{imageTagMirrors: [{mirrors: [m.io/a, n.io/a], source: quay.io/a}]}":                                          true,
		"{imageTagMirrors: [{source: quay.io/a, mirrors: [m.io/a, n.io/a], mirrorSourcePolicy: \"\"}], unknown: true}": true,
		"{imageTagMirrors: [{source: quay.io/a, mirrors: [n.io/a, m.io/a]}]}":                                          false,
		"{imageTagMirrors: [{source: quay.io/a, mirrors: [m.io/a, n.io/a], mirrorSourcePolicy: NeverContactSource}]}":  false,
		"{imageTagMirrors: []}": false,
	} {
		if got := hash(spec) == base; got != equal {
			t.Errorf("%s: equal is %t, want %t", spec, got, equal)
		}
	}
	if hash("{imageTagMirrors: []}") != hash("{}") {
		t.Error("an empty list is no list")
	}
	if of("metadata: {name: b, labels: {a: b}, annotations: {c: d}}\nspec: {}") != hash("{}") {
		t.Error("the name or the metadata is in the hash")
	}
}

func hashOf(t *testing.T, o mirrors.Object) string {
	t.Helper()
	hash, err := SpecHash(o)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// TestHashesAgreeWithSameSpec: for random specs, a hash says what an API server says.
func TestHashesAgreeWithSameSpec(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	spec := func() *configv1.Image {
		list := func() []string {
			switch random.IntN(4) {
			case 0:
				return nil
			case 1:
				return []string{}
			default:
				return strings.Fields(strings.Repeat("a ", random.IntN(2)) + "b")
			}
		}
		o := &configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		o.Spec.RegistrySources = configv1.RegistrySources{InsecureRegistries: list(), BlockedRegistries: list(), AllowedRegistries: list()}
		o.Spec.ExternalRegistryHostnames = list()
		return o
	}
	equal := 0
	for range 3000 {
		a, b := spec(), spec()
		if same := mirrors.SameSpec(a, b); same != (hashOf(t, a) == hashOf(t, b)) {
			t.Fatalf("SameSpec says %t\n%+v\n%+v", same, a.Spec, b.Spec)
		} else if same {
			equal++
		}
	}
	if equal < 20 {
		t.Errorf("only %d pairs were equal: this tests nothing", equal)
	}
}

// TestNothingIsLostSilently: lists are cut and say by how much, and no rule is lost.
func TestNothingIsLostSilently(t *testing.T) {
	record := review.Record{Notes: slicesOf(20, "note")}
	for i := range 100 {
		severity := policy.Deny
		if i >= 90 {
			severity = policy.Warn
		}
		record.Verdict.Findings = append(record.Verdict.Findings, policy.Finding{
			Rule: "ImageMissing", Severity: severity, Image: policy.Image{Ref: fmt.Sprintf("quay.io/a:%d", i), Consumers: make([]policy.Consumer, i)}, Detail: slicesOf(11, "place"),
		})
	}
	var d auditv1alpha1.Decision
	Rest(&d, record)
	want := []auditv1alpha1.RuleCount{{Rule: "ImageMissing", Severity: "deny", Count: 90}, {Rule: "ImageMissing", Severity: "warn", Count: 10}}
	if diff := cmp.Diff(want, d.Rules); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(d.Findings) != 20 || d.FindingsOmitted != 80 || len(d.Findings[7].Consumers) != 5 || d.Findings[7].ConsumersOmitted != 2 || !strings.HasSuffix(d.Findings[0].Detail, "and 3 more lines") || len(d.Notes) != 16 {
		t.Errorf("%d + %d findings, one of them %+v, %d notes", len(d.Findings), d.FindingsOmitted, d.Findings[7], len(d.Notes))
	}
}

func slicesOf(n int, s string) []string { return strings.Fields(strings.Repeat(s+" ", n)) }

// TestLineIsSafe: a line is one line of valid JSON that does nothing to a terminal, keeps who
// it was, and holds no secrets.
func TestLineIsSafe(t *testing.T) {
	const hostile = "x\x1b[2J\u009b31m\u202e\r\nFORGED <&>"
	record := review.Record{
		Notes: []string{"the registry https://me:hunter2@quay.io says " + hostile},
		Verdict: policy.Verdict{Judgement: policy.Judgement{Findings: []policy.Finding{{
			Rule: "NoEffect", Reason: "an entry for me:hunter2@quay.io " + hostile, Detail: []string{"https://me:hunter2@m.io" + hostile}, Image: policy.Image{Ref: "me:hunter2@quay.io" + hostile},
		}}}},
	}
	d := auditv1alpha1.Decision{User: UserOf(settings.Requester{User: hostile, Groups: slicesOf(100, "g")}), Reason: Text("me:hunter2@quay.io " + hostile)}
	Rest(&d, record)
	line, err := d.Line()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(line, []byte("\n")) != 1 || bytes.ContainsAny(line, "\x1b\r\u009b\u202e") || bytes.Contains(line, []byte("hunter2")) {
		t.Errorf("%q", line)
	}
	var back auditv1alpha1.Decision
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	if back.User.Name != hostile || back.User.GroupsOmitted != 36 || back.APIVersion != auditv1alpha1.APIVersion || back.Kind != auditv1alpha1.Kind {
		t.Errorf("%+v", back)
	}
}
