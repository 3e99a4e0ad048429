package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

func specOf(t *testing.T, text string) *Spec {
	t.Helper()
	o, err := mirrors.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	gvk := o.(runtime.Object).GetObjectKind().GroupVersionKind()
	s, err := SpecOf(o, gvk)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	tagSet   = "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\n"
	policyOf = "apiVersion: operator.openshift.io/v1alpha1\nkind: ImageContentSourcePolicy\nmetadata: {name: a}\nspec: {repositoryDigestMirrors: [{source: %q, mirrors: [%q]}]}\n"
)

// TestEqualSpecsHaveEqualHashes: and only those, however they are written.
func TestEqualSpecsHaveEqualHashes(t *testing.T) {
	hash := func(spec string) string { return specOf(t, tagSet+"metadata: {name: a}\nspec: "+spec+"\n").Hash }
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
	named := specOf(t, tagSet+"metadata: {name: b, labels: {a: b}, annotations: {c: d}}\nspec: {}\n")
	if named.Hash != hash("{}") {
		t.Error("the name or the metadata is in the hash")
	}
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
		x, err := SpecOf(a, mirrors.ImageConfigGVK)
		if err != nil {
			t.Fatal(err)
		}
		y, err := SpecOf(b, mirrors.ImageConfigGVK)
		if err != nil {
			t.Fatal(err)
		}
		if same := mirrors.SameSpec(a, b); same != (x.Hash == y.Hash) {
			t.Fatalf("SameSpec says %t\n%s\n%s", same, x.object, y.object)
		} else if same {
			equal++
		}
	}
	if equal < 20 {
		t.Errorf("only %d pairs were equal: this tests nothing", equal)
	}
}

// TestChange: what is too large or secret is left out, and the record says so.
func TestChange(t *testing.T) {
	small := specOf(t, fmt.Sprintf(policyOf, "quay.io/a", "m.io/a"))
	large := specOf(t, fmt.Sprintf(policyOf, "quay.io/a", "m.io/"+strings.Repeat("a", MaxSpec)))
	secret := specOf(t, fmt.Sprintf(policyOf, "quay.io/a", "https://me:hunter2@m.io/a"))
	const object = `{"apiVersion":"operator.openshift.io/v1alpha1","kind":"ImageContentSourcePolicy","metadata":{"name":"a"},"spec":{"repositoryDigestMirrors":[{"mirrors":["%s"],"source":"quay.io/a"}]}}`
	for _, tt := range []struct {
		reason      string
		before, now *Spec
		want        auditv1alpha1.Change
	}{
		{"a creation", nil, small, auditv1alpha1.Change{Step: auditv1alpha1.StepPut, New: fmt.Appendf(nil, object, "m.io/a")}},
		{"too large", small, large, auditv1alpha1.Change{Step: auditv1alpha1.StepPut, Old: fmt.Appendf(nil, object, "m.io/a"), Omitted: fmt.Sprintf("the new object has %d bytes, and 65536 is the most", len(large.object))}},
		{"both too large", large, large, auditv1alpha1.Change{Step: auditv1alpha1.StepPut, Omitted: fmt.Sprintf("the old object has %d bytes, and 65536 is the most; the new object has %[1]d bytes, and 65536 is the most", len(large.object))}},
		{"credentials", nil, secret, auditv1alpha1.Change{Step: auditv1alpha1.StepPut, New: fmt.Appendf(nil, object, "https://***@m.io/a"), Omitted: "credentials in the new object"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(&tt.want, ChangeOf(auditv1alpha1.StepPut, tt.before, tt.now)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNothingIsLostSilently: lists are cut and say by how much, and no rule is lost.
func TestNothingIsLostSilently(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	record := review.Record{Facts: policy.Facts{}, Notes: slicesOf(20, "note")}
	for i := range 100 {
		place := mirrors.Location{Ref: fmt.Sprintf("m.io/a:%d", i)}
		record.Facts[place] = &policy.Fact{Presence: policy.Absent, AsNodes: true, Time: now.Add(-time.Minute)}
		record.Asked = append(record.Asked, place)
		severity := policy.Deny
		if i >= 90 {
			severity = policy.Warn
		}
		record.Verdict.Findings = append(record.Verdict.Findings, policy.Finding{
			Rule: "ImageMissing", Severity: severity, Image: policy.Image{Ref: fmt.Sprintf("quay.io/a:%d", i)}, Detail: slicesOf(11, "place"),
		})
	}
	d := auditv1alpha1.Decision{Time: now}
	Rest(&d, record, 30)
	want := []auditv1alpha1.RuleCount{{Rule: "ImageMissing", Severity: "deny", Count: 90}, {Rule: "ImageMissing", Severity: "warn", Count: 10}}
	if diff := cmp.Diff(want, d.Rules); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(d.Findings) != 20 || d.FindingsOmitted != 80 || len(d.Facts) != 30 || d.FactsOmitted != 70 || d.Findings[0].PlacesOmitted != 3 || len(d.Notes) != 16 {
		t.Errorf("%d + %d findings, %d + %d facts, %d places left out, %d notes", len(d.Findings), d.FindingsOmitted, len(d.Facts), d.FactsOmitted, d.Findings[0].PlacesOmitted, len(d.Notes))
	}
	if *d.Facts[0].Age != 60 {
		t.Errorf("the age is %g", *d.Facts[0].Age)
	}
}

func slicesOf(n int, s string) []string { return strings.Fields(strings.Repeat(s+" ", n)) }

// TestDecisiveFactsComeFirst: those about images with findings, before those that were looked
// up earlier.
func TestDecisiveFactsComeFirst(t *testing.T) {
	route := func(ref string, depth mirrors.Depth) mirrors.Route {
		return mirrors.Route{Sources: []mirrors.PullSource{{Location: mirrors.Location{Ref: ref, Depth: depth}}}}
	}
	record := review.Record{
		Plan: policy.Plan{Reroutes: []policy.Reroute{
			{Image: policy.Image{Ref: "quay.io/a"}, After: route("m.io/a", mirrors.DepthBlobs), Before: route("quay.io/a", 0)},
			{Image: policy.Image{Ref: "quay.io/b"}, After: route("m.io/b", mirrors.DepthBlobs), Before: route("quay.io/b", 0)},
		}},
		Facts: policy.Facts{
			{Ref: "m.io/a", Depth: mirrors.DepthBlobs}: {}, {Ref: "m.io/b", Depth: mirrors.DepthManifest}: {}, {Ref: "quay.io/b"}: {}, {Ref: "m.io/forecast"}: {},
		},
		Asked:   []mirrors.Location{{Ref: "m.io/a", Depth: mirrors.DepthBlobs}, {Ref: "m.io/b", Depth: mirrors.DepthManifest}, {Ref: "quay.io/b"}},
		Verdict: policy.Verdict{Findings: []policy.Finding{{Rule: "ImageMissing", Image: policy.Image{Ref: "quay.io/b"}}}},
	}
	var d auditv1alpha1.Decision
	Rest(&d, record, 10)
	var got []string
	for _, f := range d.Facts {
		got = append(got, f.Location+" "+f.Depth)
	}
	if diff := cmp.Diff([]string{"m.io/b manifest", "quay.io/b exists", "m.io/a blobs", "m.io/forecast exists"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLineIsSafe: a line is one line of valid JSON that does nothing to a terminal, keeps who
// it was, and holds no secrets.
func TestLineIsSafe(t *testing.T) {
	const hostile = "x\x1b[2J\u009b31m\u202e\r\nFORGED <&>"
	record := review.Record{
		Notes: []string{"the registry https://me:hunter2@quay.io says " + hostile},
		Verdict: policy.Verdict{Findings: []policy.Finding{{
			Rule: "NoEffect", Reason: "an entry for me:hunter2@quay.io " + hostile, Detail: []string{"https://me:hunter2@m.io" + hostile}, Image: policy.Image{Ref: "me:hunter2@quay.io" + hostile},
		}}},
		Facts: policy.Facts{{Ref: "m.io/a"}: {Detail: "https://me:hunter2@m.io " + hostile}},
	}
	d := auditv1alpha1.Decision{User: UserOf(policy.Requester{User: hostile, Groups: slicesOf(100, "g")}), Reason: Text("me:hunter2@quay.io " + hostile)}
	Rest(&d, record, 10)
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
