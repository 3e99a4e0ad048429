package records

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// recorded returns the line of a decision at a minute of a day.
func recorded(t *testing.T, minute int, d auditv1alpha1.Decision) string {
	t.Helper()
	d.Time = time.Date(2026, 11, 22, 10, minute, 0, 0, time.UTC)
	if d.UID == "" {
		d.UID = fmt.Sprint(minute)
	}
	line, err := d.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// recordedStory is a few decisions, and a loss.
func recordedStory(t *testing.T) string {
	t.Helper()
	object := auditv1alpha1.Object{Group: "config.openshift.io", Version: "v1", Kind: "ImageTagMirrorSet", Name: "apps"}
	loss, err := auditv1alpha1.Loss{Time: time.Date(2026, 11, 22, 10, 5, 0, 0, time.UTC), Since: time.Date(2026, 11, 22, 10, 4, 0, 0, time.UTC), Lost: 7, Reason: "the queue is full", Guard: auditv1alpha1.Guard{Replica: "guard-1"}}.Line()
	if err != nil {
		t.Fatal(err)
	}
	confirmed, err := auditv1alpha1.Confirmation{Time: time.Date(2026, 11, 22, 10, 3, 4, 0, time.UTC), UID: "3", Confirmed: true, User: auditv1alpha1.User{Name: "alice"}, Object: object}.Line()
	if err != nil {
		t.Fatal(err)
	}
	return recorded(t, 1, auditv1alpha1.Decision{Verdict: "denied", Operation: "CREATE", User: auditv1alpha1.User{Name: "alice"}, Object: object, Rules: []auditv1alpha1.RuleCount{{Rule: "ImageMissing", Severity: "deny", Count: 1200}, {Rule: "TagDrift", Severity: "warn", Count: 1}}}) +
		recorded(t, 2, auditv1alpha1.Decision{Verdict: "allowed", Operation: "UPDATE", User: auditv1alpha1.User{Name: "x\x1b[2J\u202e\nFORGED"}, Object: object, DryRun: true}) +
		recorded(t, 3, auditv1alpha1.Decision{Verdict: "overridden", Operation: "CREATE", User: auditv1alpha1.User{Name: "alice", Impersonator: "root"}, Object: object, Override: &auditv1alpha1.Override{Result: "used", Reason: "tonight"}, Rules: []auditv1alpha1.RuleCount{{Rule: "ImageMissing", Severity: "deny", Count: 1}}}) +
		string(confirmed) + string(loss) +
		recorded(t, 6, auditv1alpha1.Decision{Verdict: "none", Operation: "DELETE", User: auditv1alpha1.User{Name: "bob"}, Object: object, Reason: "there is no verdict"})
}

const tableOfStory = `TIME                  USER             OPERATION         OBJECT                  VERDICT     BECAUSE
2026-11-22T10:01:00Z  alice            CREATE            ImageTagMirrorSet/apps  denied      ImageMissing 1,200, TagDrift (warn)
2026-11-22T10:02:00Z  x[2J FORGED      UPDATE (dry run)  ImageTagMirrorSet/apps  allowed     -
2026-11-22T10:03:00Z  alice (by root)  CREATE            ImageTagMirrorSet/apps  overridden  override: tonight
2026-11-22T10:03:04Z  alice            -                 ImageTagMirrorSet/apps  confirmed   the override is in force
2026-11-22T10:06:00Z  bob              DELETE            ImageTagMirrorSet/apps  none        there is no verdict

4 decisions from 2026-11-22T10:01:00Z to 2026-11-22T10:06:00Z: allowed 1, denied 1, none 1, overridden 1
by user: alice 2, bob 1, x[2J FORGED 1
by object: ImageTagMirrorSet/apps 4
by rule: ImageMissing 2, TagDrift 1
dry runs: 1
overrides: in force 1, never in force 0
lost: 7 records
`

func TestAuditCommand(t *testing.T) {
	file := clitest.Written(t, "audit.log", recordedStory(t))
	broken := clitest.Written(t, "broken.log", recorded(t, 1, auditv1alpha1.Decision{Verdict: "denied"})+strings.Repeat("oh no\n", 12)+`{"apiVersion":`)
	whole := clitest.Written(t, "whole.log", recorded(t, 1, auditv1alpha1.Decision{Verdict: "denied", User: auditv1alpha1.User{Name: "alice"}}))
	const lost = "mirrorset-guard: 7 records were lost by guard-1 from 2026-11-22T10:04:00Z to 2026-11-22T10:05:00Z: the queue is full\n"
	for _, tt := range []struct {
		args     string
		stdin    string
		code     int
		out, err string // "..." stands for anything at the end
	}{
		{file, "", 1, tableOfStory, lost},
		{"-", recordedStory(t), 1, tableOfStory, lost},
		{file + " - " + file, recordedStory(t), 1, tableOfStory[:strings.Index(tableOfStory, "lost")] + "...", lost + lost + lost},
		{whole, "", 0, "TIME ...", ""},
		{whole + " --verdict DENIED --user alice", "", 0, "TIME ...", ""},
		{whole + " --user bob", "", 0, "No decision matches.\n", ""},
		{file + " --since 2026-11-22T10:06:00Z --summary -o json", "", 0, `{
  "apiVersion": "mirrorset-guard.io/v1alpha1",
  "kind": "AuditSummary",
  "decisions": 1,
...`, ""},
		{file + " --overridden --until 2026-11-22T10:04:00Z -o json", "", 0, `{"apiVersion":"audit.mirrorset-guard.io/v1alpha1","kind":"Decision","time":"2026-11-22T10:03:00Z","uid":"3","verdict":"overridden"...`, ""},
		{file + " --until 2026-11-22T10:02:00Z --summary", "", 0, "\n1 decision from ...", ""},
		{broken, "", 1, "TIME ...", "mirrorset-guard: " + broken + ", line 2: this is not a JSON object\nmirrorset-guard: " + broken + ", line 3: ..."},
		{whole + " " + file + ".none", "", 2, "", "mirrorset-guard: lstat ..."},
		{"", "", 2, "", "mirrorset-guard: requires at least 1 arg(s), only received 0\n"},
		{whole + " --since yesterday", "", 2, "", `mirrorset-guard: --since "yesterday": want a duration such as 24h or 7d, or a time such as ...`},
		{whole + " --since -1h", "", 2, "", `mirrorset-guard: --since "-1h": want a duration ...`},
		{whole + " --since 1h --until 2d", "", 2, "", "mirrorset-guard: --since 1h is not before --until 2d\n"},
		{whole + " --verdict maybe", "", 2, "", `mirrorset-guard: --verdict "maybe": choose among allowed, denied, ...`},
		{whole + " --rule ImageMising", "", 2, "", `mirrorset-guard: --rule "ImageMising": there is no such rule; choose one of ...`},
		{whole + " --dry-run=maybe", "", 2, "", `mirrorset-guard: --dry-run "maybe": choose true or false` + "\n"},
		{whole + " -o yaml", "", 2, "", `mirrorset-guard: --output "yaml": choose one of table, json` + "\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			got := invoke(t, tt.stdin, append([]string{"audit"}, strings.Fields(tt.args)...)...)
			if got.Code != tt.code || !isLike(got.Out, tt.out) || !isLike(got.Err, tt.err) {
				t.Errorf("exit code %d\n%s\n%s\nwant %d\n%s\n%s", got.Code, got.Out, got.Err, tt.code, tt.out, tt.err)
			}
			for _, s := range []string{got.Out, got.Err} {
				if i := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && !text.IsPrintable(r) }); i >= 0 {
					t.Errorf("it does something to a terminal: %q", s[max(0, i-20):i+1])
				}
			}
		})
	}
	got := invoke(t, "", "audit", broken)
	if !strings.Contains(got.Err, "and 3 more lines that cannot be read") {
		t.Errorf("%s", got.Err)
	}
}

// isLike compares texts, of which want may end in "...", for anything.
func isLike(got, want string) bool {
	beginning, open := strings.CutSuffix(want, "...")
	return got == want || open && strings.HasPrefix(got, beginning)
}

// TestAuditReadsItsOwnOutput: what -o json prints says the same.
func TestAuditReadsItsOwnOutput(t *testing.T) {
	first := invoke(t, recordedStory(t), "audit", "-", "-o", "json")
	if second := invoke(t, first.Out, "audit", "-", "-o", "json"); first.Out == "" || second.Out != first.Out {
		t.Errorf("first:\n%s\nsecond:\n%s", first.Out, second.Out)
	}
}

// TestTableIsPrintedInPages: however long it is, it has one heading.
func TestTableIsPrintedInPages(t *testing.T) {
	var lines strings.Builder
	for i := range 2*pageRows + 1 {
		lines.WriteString(recorded(t, 1, auditv1alpha1.Decision{Verdict: "denied", UID: fmt.Sprint("u", i)}))
	}
	got := invoke(t, lines.String(), "audit", "-")
	if strings.Count(got.Out, "VERDICT") != 1 || strings.Count(got.Out, "denied") != 2*pageRows+2 {
		t.Errorf("%d headings, %d rows", strings.Count(got.Out, "VERDICT"), strings.Count(got.Out, "denied"))
	}
}

// changeOf returns a recorded change of manifests; "" for no object.
func changeOf(t *testing.T, step, before, after string) *auditv1alpha1.Change {
	t.Helper()
	spec := func(manifest string) *audit.Spec {
		if manifest == "" {
			return nil
		}
		o, err := mirrors.Parse([]byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		s, err := audit.SpecOf(o, o.(runtime.Object).GetObjectKind().GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return audit.ChangeOf(step, spec(before), spec(after))
}

// recordOf returns the line about a change of a mirror set.
func recordOf(t *testing.T, minute int, verdict, name string, c *auditv1alpha1.Change, facts ...auditv1alpha1.Fact) string {
	t.Helper()
	return recorded(t, minute, auditv1alpha1.Decision{
		Verdict: verdict, Admitted: verdict != "denied", Operation: "CREATE", User: auditv1alpha1.User{Name: "alice"}, Change: c, Facts: facts,
		Object: auditv1alpha1.Object{Group: "config.openshift.io", Version: "v1", Kind: "ImageTagMirrorSet", Name: name},
	})
}

func mirrorSet(name, source, mirror string) string {
	return fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: %s}\nspec: {imageTagMirrors: [{source: %q, mirrors: [%q]}]}\n", name, source, mirror)
}

// factsAbout says of places at every depth the same.
func factsAbout(presence string, places ...string) []auditv1alpha1.Fact {
	var facts []auditv1alpha1.Fact
	age := 60.0
	for _, place := range places {
		for _, depth := range []string{"exists", "manifest", "blobs"} {
			facts = append(facts, auditv1alpha1.Fact{Location: place, Depth: depth, Presence: presence, Age: &age, AsNodes: true, Digest: clitest.TestDigest, MediaType: "application/vnd.oci.image.manifest.v1+json"})
		}
	}
	return facts
}

// TestReplay: changes are judged in the state that the records tell of, not in that of the dump.
func TestReplay(t *testing.T) {
	const cart = `apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {namespace: shop, name: cart}
  spec: {template: {spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}]}}}
`
	a, b := mirrorSet("a", "quay.io/shop", "m.example.com/shop"), mirrorSet("a", "quay.io/shop", "n.example.com/shop")
	wide, narrow := mirrorSet("wide", "quay.io", "m.example.com"), mirrorSet("narrow", "quay.io/shop/cart", "n.example.com/cart")
	const onM, onN, source = "m.example.com/shop/cart:v1", "n.example.com/shop/cart:v1", "quay.io/shop/cart:v1"
	good, bad := factsAbout("present", onM, onN, source), append(factsAbout("absent", onM, onN), factsAbout("present", source)...)
	inDump := func(set string) string {
		o, err := json.Marshal(mustParse(t, set))
		if err != nil {
			t.Fatal(err)
		}
		return cart + "- " + string(o) + "\n"
	}
	large := changeOf(t, auditv1alpha1.StepPut, "", mirrorSet("a", "quay.io/shop", "m.example.com/"+strings.Repeat("a", audit.MaxSpec)))
	for _, tt := range []struct {
		reason, dump, records, args string
		code                        int
		want                        []string
	}{
		{"as it was", cart, recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a), bad...) + recordOf(t, 2, "allowed", "a", changeOf(t, "put", "", a), good...), "", 0, []string{"2 changes: 2 decided as then, 0 differently, 0 without an answer"}},
		{"the dump has the object already", inDump(a), recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a), bad...), "", 0, []string{"1 change: 1 decided as then"}},
		{"the dump has what came later", inDump(b), recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a), bad...) + recordOf(t, 2, "allowed", "a", changeOf(t, "put", a, b), good...), "", 0, []string{"2 changes: 2 decided as then"}},
		{"it would be denied now", cart, recordOf(t, 1, "allowed", "a", changeOf(t, "put", "", a), bad...), "", 1, []string{"allowed  denied  now also ImageMissing"}},
		{"it would be allowed now", cart, recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a), good...), "", 1, []string{"denied  allowed", "1 differently"}},
		{"a deletion", cart, recordOf(t, 1, "allowed", "a", changeOf(t, "delete", a, ""), good...), "", 0, []string{"1 change: 1 decided as then"}},
		{"an overridden denial", cart, recorded(t, 1, auditv1alpha1.Decision{Verdict: "overridden", Change: changeOf(t, "put", "", a), Facts: bad, Override: &auditv1alpha1.Override{Result: "used", Of: "denied"}}), "", 0, []string{"overridden  denied", "1 decided as then"}},
		{"no facts", cart, recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a)), "", 2, []string{"no answer: it would be denied only because the record lacks facts about ", "1 without an answer"}},
		{"no change", cart, recordOf(t, 1, "denied", "a", nil), "", 2, []string{"no answer: the record does not hold the change"}},
		{"too large a change", cart, recordOf(t, 1, "denied", "a", large), "", 2, []string{"no answer: the record leaves it out: the new object has "}},
		{"a change of what is no mirror object", cart, recordOf(t, 1, "denied", "a", &auditv1alpha1.Change{Step: "put", New: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`)}), "", 2, []string{"no answer: the new object: v1 Pod: not a mirror object"}},
		{"a step that is not known", cart, recordOf(t, 1, "denied", "a", &auditv1alpha1.Change{Step: "patch"}), "", 2, []string{`no answer: the record has the step "patch" without its object`}},
		{"a fact that is not known", cart, recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a), auditv1alpha1.Fact{Location: "x", Depth: "exists", Presence: "perhaps"}), "", 2, []string{`no answer: the fact about x: presence: "perhaps" is not known`}},
		{"half a line", cart, recordOf(t, 1, "denied", "a", changeOf(t, "put", "", a), bad...) + `{"api`, "", 2, []string{"1 decided as then", "line 2: the file ends in half a line", "not all records could be read"}},
		{"what was not reviewed", cart, recorded(t, 1, auditv1alpha1.Decision{Verdict: "skipped"}) + recorded(t, 2, auditv1alpha1.Decision{Verdict: "malformed"}), "", 0, []string{"0 changes: 0 decided as then"}},
		{"filtered, in the state that others tell of", cart, recordOf(t, 1, "allowed", "wide", changeOf(t, "put", "", wide), good...) + recordOf(t, 2, "allowed", "narrow", changeOf(t, "put", "", narrow), append(factsAbout("present", "n.example.com/cart:v1"), good...)...), "--object narrow -o json", 0, []string{`"rule": "MirrorHidden"`}},
		{"bad facts", cart, "", "--facts later", 2, []string{`--facts "later": choose now or recorded`}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"dump.yaml": tt.dump, "audit.log": tt.records}
			for name, content := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"replay", filepath.Join(dir, "audit.log"), "--from", filepath.Join(dir, "dump.yaml")}
			if !strings.Contains(tt.args, "--facts") {
				args = append(args, "--facts", "recorded")
			}
			got := invoke(t, "", append(args, strings.Fields(tt.args)...)...)
			if got.Code != tt.code {
				t.Errorf("exit code %d, want %d\n%s%s", got.Code, tt.code, got.Out, got.Err)
			}
			for _, want := range tt.want {
				if !strings.Contains(got.Out+got.Err, want) {
					t.Errorf("want %s\n%s%s", want, got.Out, got.Err)
				}
			}
		})
	}
}

// TestReplayAsksRegistries: unless what they said is to count, and never both.
func TestReplayAsksRegistries(t *testing.T) {
	var asked atomic.Int32
	flags := clitest.RegistryAt(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	})
	dump := clitest.Written(t, "dump.json", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"cart"},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/shop/cart:v1"}]}}}}`)
	file := clitest.Written(t, "audit.log", recordOf(t, 1, "allowed", "a", changeOf(t, "put", "", mirrorSet("a", "example.com/shop", "other.example.com/shop")), factsAbout("present", "other.example.com/shop/cart:v1", "example.com/shop/cart:v1")...))
	args := append([]string{"replay", file, "--from", dump}, flags...)
	if got := invoke(t, "", append(args, "--facts", "recorded")...); got.Code != 0 || asked.Load() != 0 {
		t.Errorf("exit code %d after %d requests\n%s%s", got.Code, asked.Load(), got.Out, got.Err)
	}
	if got := invoke(t, "", args...); got.Code != 1 || asked.Load() == 0 || !strings.Contains(got.Out, "allowed  denied") {
		t.Errorf("exit code %d after %d requests\n%s%s", got.Code, asked.Load(), got.Out, got.Err)
	}
}

func mustParse(t *testing.T, manifest string) mirrors.Object {
	t.Helper()
	o, err := mirrors.Parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
