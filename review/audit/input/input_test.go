package input

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
)

const webhook = "mirrorsets.mirrorset-guard.io"

// at returns the n-th minute of a day.
func at(n int) time.Time { return time.Date(2026, 11, 22, 10, n, 0, 0, time.UTC) }

// line returns the line of a decision at a minute.
func line(t *testing.T, minute int, uid string) string {
	t.Helper()
	d := auditv1alpha1.Decision{Time: at(minute), UID: uid, Verdict: "denied", Operation: "CREATE", Object: auditv1alpha1.Object{Kind: "ImageTagMirrorSet", Name: "a"}}
	data, err := d.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// event returns the line of an event of the API server.
func apiEvent(t *testing.T, minute int, stage, auditID string, annotations map[string]string) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": auditID, "stage": stage, "verb": "create",
		"requestURI":     "/apis/config.openshift.io/v1/imagetagmirrorsets?dryRun=All&fieldManager=kubectl",
		"user":           map[string]any{"username": "alice", "groups": []string{"system:authenticated"}},
		"objectRef":      map[string]any{"resource": "imagetagmirrorsets", "name": "a", "apiGroup": "config.openshift.io", "apiVersion": "v1"},
		"responseStatus": map[string]any{"code": 403}, "annotations": annotations,
		"requestReceivedTimestamp": at(minute), "stageTimestamp": at(minute).Add(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// reading is what came of reading files.
type reading struct {
	uids     []string
	records  []Record
	troubles []string
	stats    Stats
}

// read reads files, which are written to a folder, in the order of their names in order.
func read(t *testing.T, files map[string][]byte, order ...string) reading {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range order {
		paths = append(paths, filepath.Join(dir, name))
	}
	if len(order) == 0 {
		paths = []string{dir}
	}
	var got reading
	r := Reader{Webhooks: []string{webhook}, Full: true, Trouble: func(trouble Trouble) {
		got.troubles = append(got.troubles, strings.ReplaceAll(trouble.String(), dir+"/", ""))
	}}
	var err error
	got.stats, err = r.Read(t.Context(), paths, func(record Record) error {
		got.records = append(got.records, record)
		uid := record.Decision.UID
		if record.Loss != nil {
			uid = fmt.Sprintf("lost %d", record.Loss.Lost)
		}
		got.uids = append(got.uids, uid)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.stats.Troubles != len(got.troubles) {
		t.Errorf("%d troubles, and %d were told", got.stats.Troubles, len(got.troubles))
	}
	return got
}

// TestTroubles: what cannot be read is named, and the rest is read.
func TestTroubles(t *testing.T) {
	a, b, c := line(t, 1, "a"), line(t, 2, "b"), line(t, 3, "c")
	half := strings.TrimSuffix(b[:len(b)/2], "\n")
	packed := zipped(t, strings.Repeat(a+b, 2000))
	for _, tt := range []struct {
		reason   string
		data     string
		uids     []string
		troubles []string
	}{
		{"nothing", "", nil, nil},
		{"empty lines", "\n\n" + a + "\n \n", []string{"a"}, nil},
		{"no line feed at the end", a + strings.TrimSuffix(b, "\n"), []string{"a", "b"}, nil},
		{"half a line at the end", a + half, []string{"a"}, []string{"f, line 2: the file ends in half a line"}},
		{"half a line at the end that looks whole", a + b[:strings.Index(b, "}")+1], []string{"a"}, []string{"f, line 2: the file ends in half a line"}},
		{"half a line in the middle", a + half + "\n" + c, []string{"a", "c"}, []string{"f, line 2: the line is not complete"}},
		{"half a line, and another behind it", a + half + c + b, []string{"a", "b"}, []string{"f, line 2: the line cannot be read: invalid character"}},
		{"the end of a line", a[20:] + b, []string{"b"}, []string{"f, line 1: this is not a JSON object"}},
		{"garbage", "\x00\xff\xfe\n" + a + "panic: oh no\n", []string{"a"}, []string{"f, line 1: this is not a JSON object", "f, line 3: this is not a JSON object"}},
		{"a line that is too long", a + `{"x":"` + strings.Repeat("x", maxLine) + "\"}\n" + c, []string{"a", "c"}, []string{"f, line 2: the line has more than 16 MiB"}},
		{"a line that is too long, at the end", a + strings.Repeat("x", maxLine+bufferSize), []string{"a"}, []string{"f, line 2: the line has more than 16 MiB"}},
		{"a newer version", a + strings.Replace(b, "v1alpha1", "v2", 1), []string{"a"}, []string{"f, line 2: a record of audit.mirrorset-guard.io/v2, which this version does not know: it reads audit.mirrorset-guard.io/v1alpha1"}},
		{"a new kind", a + strings.Replace(b, `"Decision"`, `"Vision"`, 1), []string{"a"}, []string{`f, line 2: a record of the kind "Vision", which this version does not know`}},
		{"a new version of events", strings.Replace(apiEvent(t, 1, "ResponseComplete", "x", map[string]string{webhook + "/verdict": "denied"}), "audit.k8s.io/v1", "audit.k8s.io/v2", 1), nil, []string{"f, line 1: an event of audit.k8s.io/v2, which this version does not know: it reads audit.k8s.io/v1"}},
		{"a record without a time", strings.Replace(a, `"time":"2026-11-22T10:01:00Z",`, "", 1), nil, []string{"f, line 1: the record lacks its time or its verdict"}},
		{"values of other types", strings.Replace(a, `"dryRun":false`, `"dryRun":"no"`, 1), nil, []string{"f, line 1: the line cannot be read: json: cannot unmarshal string"}},
		{"something else", `{"level":"info","msg":"Reviewed mirror change of mirrorset-guard.io"}` + "\n" + a + `{"kind":"Event","apiVersion":"audit.k8s.io/v1"}` + "\n", []string{"a"}, nil},
		{"with what tools put before a line", "master-0.example.com " + a + "2026-11-22T10:00:00.000000001Z stdout F " + b + "[pod/guard-1/guard] " + c, []string{"a", "b", "c"}, nil},
		{"fields in another order", `{"kind":"Decision","verdict":"denied","uid":"z","time":"2026-11-22T10:00:00Z","apiVersion":"audit.mirrorset-guard.io/v1alpha1"}`, []string{"z"}, nil},
		{"compressed", string(zipped(t, a+b)), []string{"a", "b"}, nil},
		{"compressed in two parts", string(zipped(t, a)) + string(zipped(t, b)), []string{"a", "b"}, nil},
		{"compressed, and cut in the middle", string(packed[:len(packed)/2]), []string{"a", "b"}, []string{"the compressed data ends here, in the middle; what follows is missing"}},
		{"compressed, and cut in its header", "\x1f\x8b\x08", nil, []string{"f: the compressed data cannot be read: unexpected EOF"}},
		{"compressed, and damaged", string(packed[:len(packed)-8]) + "12345678", []string{"a", "b"}, []string{"what follows cannot be read: gzip: invalid checksum"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got := read(t, map[string][]byte{"f": []byte(tt.data)}, "f")
			if diff := cmp.Diff(tt.uids, got.uids); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(got.troubles) != len(tt.troubles) {
				t.Fatalf("troubles %q, want %q", got.troubles, tt.troubles)
			}
			for i, want := range tt.troubles {
				if !strings.Contains(got.troubles[i], want) {
					t.Errorf("trouble %q, want %q", got.troubles[i], want)
				}
			}
		})
	}
}

// TestOrder: files are merged by time, whatever their names and formats, and each decision
// comes once.
func TestOrder(t *testing.T) {
	files := map[string][]byte{
		"audit.log":       []byte(line(t, 7, "g") + line(t, 9, "i")),
		"audit-2.log.gz":  zipped(t, line(t, 1, "a")+line(t, 3, "c")+line(t, 5, "e")),
		"other.log":       []byte(line(t, 2, "b") + line(t, 3, "c") + line(t, 8, "h")),
		"kube-apiserver":  []byte(apiEvent(t, 5, "ResponseComplete", "1", map[string]string{webhook + "/verdict": "denied", webhook + "/uid": "e"}) + apiEvent(t, 6, "ResponseComplete", "2", map[string]string{webhook + "/verdict": "denied", webhook + "/uid": "f"})),
		"audit-2.log.bak": zipped(t, line(t, 1, "a")),
	}
	got := read(t, files)
	if diff := cmp.Diff(strings.Split("abcefghi", ""), got.uids); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.stats.Repeated != 3 || got.stats.Files != 5 || got.stats.Backwards != 0 {
		t.Errorf("%+v", got.stats)
	}
}

// TestClockThatJumps: within a file, the order is that of the file.
func TestClockThatJumps(t *testing.T) {
	got := read(t, map[string][]byte{"f": []byte(line(t, 5, "a") + line(t, 6, "b") + line(t, 1, "c") + line(t, 2, "d") + line(t, 7, "e"))}, "f")
	if diff := cmp.Diff(strings.Split("abcde", ""), got.uids); diff != "" || got.stats.Backwards != 2 {
		t.Errorf("%+v, -want +got:\n%s", got.stats, diff)
	}
}

// TestEvents: the API server's log has an event for each stage, of which the last counts, and
// tells what the guard did not.
func TestEvents(t *testing.T) {
	annotations := map[string]string{
		"authorization.k8s.io/decision": "allow", webhook + "/verdict": "denied", webhook + "/reason": "it is refused", webhook + "/rules": "ImageMissing,NoEffect", webhook + "/findings": "3",
		webhook + "/rerouted": "5", webhook + "/verified": "3", webhook + "/unverified": "1", webhook + "/uid": "u", webhook + "/newSpecHash": "sha256:1", webhook + "/operation": "CREATE", webhook + "/dryRun": "true",
		webhook + "/override": "does not count: its code is for another change",
	}
	failed := strings.Replace(apiEvent(t, 2, "ResponseComplete", "2", map[string]string{failedOpen + "round_0_index_0": webhook}), `"code":403`, `"code":200`, 1)
	unanswered := strings.Replace(apiEvent(t, 3, "ResponseComplete", "3", nil), `"code":403`, `"code":500,"message":"Internal error occurred: failed calling webhook \"`+webhook+`\": connection refused"`, 1)
	impersonated := strings.Replace(apiEvent(t, 4, "Panic", "4", map[string]string{webhook + "/verdict": "overridden", webhook + "/override": "used abcd: disk: is full"}), `"user":`, `"impersonatedUser":{"username":"bob"},"user":`, 1)
	got := read(t, map[string][]byte{"f": []byte(apiEvent(t, 1, "RequestReceived", "1", nil) + apiEvent(t, 1, "ResponseStarted", "1", annotations) + apiEvent(t, 1, "ResponseComplete", "1", annotations) +
		apiEvent(t, 1, "ResponseComplete", "5", map[string]string{"strangers.example.com/verdict": "denied", "x": "mirrorset-guard.io"}) + failed + unanswered + impersonated)}, "f")
	var decisions []auditv1alpha1.Decision
	for _, r := range got.records {
		decisions = append(decisions, r.Decision)
	}
	base := auditv1alpha1.Decision{
		APIVersion: auditv1alpha1.APIVersion, Kind: auditv1alpha1.Kind, Source: "kube-apiserver", Operation: "CREATE", DryRun: true, Seconds: 1,
		User:   auditv1alpha1.User{Name: "alice", Groups: []string{"system:authenticated"}},
		Object: auditv1alpha1.Object{Group: "config.openshift.io", Version: "v1", Kind: "ImageTagMirrorSet", Name: "a"},
	}
	denied, open, none, over := base, base, base, base
	denied.Time, denied.UID, denied.Verdict, denied.Mode, denied.Reason, denied.NewSpecHash = at(1).Add(time.Second), "u", "denied", "enforce", "it is refused", "sha256:1"
	denied.Rules, denied.FindingsOmitted, denied.Images = []auditv1alpha1.RuleCount{{Rule: "ImageMissing"}, {Rule: "NoEffect"}}, 3, &auditv1alpha1.Images{Rerouted: 5, Verified: 3, Unverified: 1}
	denied.Override = &auditv1alpha1.Override{Result: "unused", Refused: "its code is for another change"}
	open.Time, open.Verdict, open.Admitted, open.Reason = at(2).Add(time.Second), "unreviewed", true, "the guard gave no answer, and the webhook fails open"
	none.Time, none.Verdict, none.Reason = at(3).Add(time.Second), "none", `Internal error occurred: failed calling webhook "mirrorsets.mirrorset-guard.io": connection refused`
	over.Time, over.Verdict, over.Mode, over.Admitted = at(4).Add(time.Second), "overridden", "enforce", true
	over.User, over.Override = auditv1alpha1.User{Name: "bob", Impersonator: "alice"}, &auditv1alpha1.Override{Result: "used", Code: "abcd", Reason: "disk: is full", Confirmed: true}
	if diff := cmp.Diff([]auditv1alpha1.Decision{denied, open, none, over}, decisions); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLoss: the record of a loss is told in its place.
func TestLoss(t *testing.T) {
	loss, err := auditv1alpha1.Loss{Time: at(2), Since: at(1), Lost: 7, Reason: "the queue is full"}.Line()
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, map[string][]byte{"f": []byte(line(t, 1, "a") + string(loss)), "g": []byte(line(t, 3, "b"))})
	if diff := cmp.Diff([]string{"a", "lost 7", "b"}, got.uids); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestKinds: the resource of each kind of mirror object is known by its kind.
func TestKinds(t *testing.T) {
	for resource, want := range map[string]string{
		"imagetagmirrorsets": "ImageTagMirrorSet", "imagedigestmirrorsets": "ImageDigestMirrorSet", "images": "Image",
		"imagecontentsourcepolicies": "ImageContentSourcePolicy", "clusterimagepolicies": "ClusterImagePolicy", "imagepolicies": "ImagePolicy", "pods": "pods",
	} {
		if got := kindOf(resource); got != want {
			t.Errorf("%s: got %s, want %s", resource, got, want)
		}
	}
}

// TestReadFails: what cannot be opened ends the reading, and so do its callers.
func TestReadFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte(line(t, 1, "a")), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := func(Record) error { return nil }
	if _, err := (Reader{}).Read(t.Context(), []string{filepath.Join(dir, "none")}, nothing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := (Reader{}).Read(t.Context(), []string{t.TempDir()}, nothing); err == nil || err.Error() != "there is no file to read" {
		t.Errorf("an empty folder: %v", err)
	}
	stop := errors.New("stop")
	if _, err := (Reader{}).Read(t.Context(), []string{file}, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Reader{}).Read(ended, []string{file}, nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestFilter: all that a filter says must hold, each list by one of its entries.
func TestFilter(t *testing.T) {
	yes, no := true, false
	d := auditv1alpha1.Decision{
		Time: at(5), User: auditv1alpha1.User{Name: "system:serviceaccount:gitops:argo"}, Verdict: "overridden", DryRun: true,
		Object: auditv1alpha1.Object{Kind: "ImagePolicy", Namespace: "shop", Name: "cart"}, Rules: []auditv1alpha1.RuleCount{{Rule: "ImageMissing"}}, Override: &auditv1alpha1.Override{Result: "used"},
	}
	for _, tt := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{Since: at(5), Until: at(6)}, true},
		{Filter{Since: at(6)}, false},
		{Filter{Until: at(5)}, false},
		{Filter{Users: []string{"alice", "system:serviceaccount:gitops:*"}}, true},
		{Filter{Users: []string{"system:serviceaccount:gitops"}}, false},
		{Filter{Verdicts: []string{"denied", "overridden"}}, true},
		{Filter{Verdicts: []string{"denied"}}, false},
		{Filter{Objects: []string{"cart"}}, true},
		{Filter{Objects: []string{"imagepolicy/shop/cart"}}, true},
		{Filter{Objects: []string{"ImagePolicy/*"}}, true},
		{Filter{Objects: []string{"ImagePolicy/cart", "shop"}}, false},
		{Filter{Rules: []string{"imagemissing"}}, true},
		{Filter{Rules: []string{"NoRoute"}}, false},
		{Filter{Overridden: true, DryRun: &yes}, true},
		{Filter{DryRun: &no}, false},
	} {
		if got := tt.filter.Covers(&d); got != tt.want {
			t.Errorf("%+v: got %t", tt.filter, got)
		}
	}
	d.Override = &auditv1alpha1.Override{Result: "wrong_code"}
	if (Filter{Overridden: true}).Covers(&d) {
		t.Error("an override that did not count")
	}
}

// TestSummaryIsBounded: a million users take no more room than the bound.
func TestSummaryIsBounded(t *testing.T) {
	var s Summer
	for i := range maxCounted + 5 {
		s.Add(&auditv1alpha1.Decision{Time: at(1), User: auditv1alpha1.User{Name: fmt.Sprint(i)}, Verdict: "allowed", Rules: []auditv1alpha1.RuleCount{{Rule: "A", Severity: "deny"}, {Rule: "A", Severity: "warn"}}})
	}
	sum := s.Summary()
	if len(sum.Users) != maxCounted+1 || sum.Users[0] != (v1alpha1.AuditCount{Decisions: 5}) || sum.Rules[0] != (v1alpha1.AuditCount{Name: "A", Decisions: maxCounted + 5}) {
		t.Errorf("%d users, the first %+v; rules %+v", len(sum.Users), sum.Users[0], sum.Rules)
	}
}

// FuzzRead: no line makes it fail or be silent: it is a record, or about something else, or
// trouble.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"audit.mirrorset-guard.io/v1alpha1","kind":"Decision","time":"2026-11-22T10:00:00Z","verdict":"denied"}`))
	f.Add([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","annotations":{"mirrorsets.mirrorset-guard.io/verdict":"denied"}}`))
	f.Add([]byte("\x1f\x8b\x08\x00\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, troubles := 0, 0
		r := Reader{Stdin: bytes.NewReader(data), Webhooks: []string{webhook}, Full: true, Trouble: func(Trouble) { troubles++ }}
		stats, err := r.Read(t.Context(), []string{"-"}, func(record Record) error {
			records++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if records+stats.Repeated+stats.Others+troubles < stats.Lines || stats.Troubles != troubles {
			t.Errorf("%d records, %d troubles, %+v", records, troubles, stats)
		}
	})
}
