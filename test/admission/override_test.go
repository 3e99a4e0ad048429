package admission

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// printed finds the annotation that a refusal prints.
var printed = regexp.MustCompile(regexp.QuoteMeta(webhook.OverrideAnnotation) + `(?:: |=)"([0-9a-f]{8}): <your reason>"`)

// codeIn returns the code of that annotation.
func codeIn(t *testing.T, output string) string {
	t.Helper()
	found := printed.FindStringSubmatch(output)
	if found == nil {
		t.Fatalf("the refusal prints no annotation:\n%s", output)
	}
	return found[1]
}

// overrides returns how many of a result the guards that share have counted.
func (s *stage) overrides(result string) (n float64) {
	for _, g := range s.guards[:2] {
		n += g.Value("mirrorset_guard_overrides_total", result)
	}
	return n
}

// events returns the notes of the Events about overrides of an ImageTagMirrorSet.
func (s *stage) events(t *testing.T, name string) string {
	t.Helper()
	return s.stage(t, "", "get", "events", "-n", "default", "-o", "jsonpath={.items[*].message}", "--field-selector", "reason=Overridden,involvedObject.kind=ImageTagMirrorSet,involvedObject.name="+name)
}

func testOverrides(t *testing.T, s *stage) {
	t.Run("create", func(t *testing.T) { testOverrideCreation(t, s) })
	t.Run("delete", func(t *testing.T) { testOverrideDeletion(t, s) })
}

// testOverrideCreation: who may not override, and what is no reason, does not count; a dry run
// says what the change will get, and is told nowhere; the change itself is told.
func testOverrideCreation(t *testing.T, s *stage) {
	create := func(override string) (string, []string) {
		return tagSet("cart", "quay.io/shop", override), []string{"create", "-f", "-"}
	}
	text, args := create("")
	code := codeIn(t, s.mustFail(t, "alice", text, "is refused", args...))

	text, args = create(code + ": ")
	s.mustFail(t, "alice", text, "it gives no reason", args...)
	text, args = create("the mirror is being rebuilt")
	s.mustFail(t, "alice", text, "it does not begin with the code of this change", args...)
	text, args = create(code + ": the mirror is being rebuilt")
	bobs := codeIn(t, s.mustFail(t, "bob", text, "is for another change or user", args...))
	carols := codeIn(t, s.mustFail(t, "carol", text, "is for another change or user", append(args, "--as-group=on-call")...))
	text, args = create(bobs + ": the mirror is being rebuilt")
	s.mustFail(t, "bob", text, `user "bob" may not override imagetagmirrorsets.config.openshift.io "cart"`, args...)
	for user, code := range map[string]string{"alice": code, "carol": carols} {
		text, args = create(code + ": the mirror is being rebuilt")
		dry := append(args, "--dry-run=server")
		if user == "carol" {
			dry = append(dry, "--as-group=on-call")
		}
		var out string
		// A dry run is not kept waiting for what becomes of a change that another webhook refused just before.
		s.guards[0].Eventually(t, "changes of before are forgotten", func() bool {
			out, _ = s.do(t, user, text, dry...)
			return !strings.Contains(out, "admitted a moment ago")
		})
		if !strings.Contains(out, "OVERRIDDEN by "+user) {
			t.Errorf("a dry run by %s does not warn:\n%s", user, out)
		}
	}
	if n := s.overrides("used"); n != 0 {
		t.Errorf("%v overrides are counted after dry runs", n)
	}

	text, args = create(code + ": the mirror is being rebuilt")
	out := s.mustDo(t, "alice", text, args...)
	for _, want := range []string{"Warning: OVERRIDDEN by alice, and admitted although it was refused: the mirror is being rebuilt", "ImageMissing"} {
		if !strings.Contains(out, want) {
			t.Errorf("the user is not told %q:\n%s", want, out)
		}
	}
	s.guards[0].Eventually(t, "there is an Event", func() bool { return s.events(t, "cart") != "" })
	if got := s.events(t, "cart"); !strings.Contains(got, "alice overrode the refusal of this change (the mirror is being rebuilt)") || strings.Contains(got, "carol") {
		t.Errorf("Events: %s", got)
	}
	s.stage(t, "", "delete", "imagetagmirrorset/cart")
	if used, forbidden := s.overrides("used"), s.overrides("forbidden"); used != 1 || forbidden != 1 {
		t.Errorf("%v overrides used, %v forbidden, want one of each", used, forbidden)
	}
}

// testOverrideDeletion: the annotation is on the stored object, and counts for who was refused
// before, and no others who delete it.
func testOverrideDeletion(t *testing.T, s *stage) {
	const set = "imagetagmirrorset/legacy"
	remove := []string{"delete", set}
	refused := s.mustFail(t, "alice", "", "Deleting ImageTagMirrorSet legacy is refused", remove...)
	code := codeIn(t, refused)
	if !strings.Contains(refused, "oc annotate --overwrite imagetagmirrorsets.config.openshift.io/legacy "+webhook.OverrideAnnotation) {
		t.Errorf("it does not say how:\n%s", refused)
	}
	s.mustDo(t, "bob", "", "annotate", set, webhook.OverrideAnnotation+"="+code+": it is retired")
	s.mustFail(t, "bob", "", "is for another change or user", remove...)
	s.mustFail(t, "carol", "", "is for another change or user", "delete", "imagetagmirrorsets", "--all", "--as-group=on-call") // who may override, and has not read it
	s.mustDo(t, "alice", "", "delete", set, "--dry-run=server")
	s.mustDo(t, "alice", "", "get", set)
	// A finalizer of somebody's: the deletion marks it, and the last finalizer has the same code.
	s.stage(t, "", "patch", set, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	s.mustDo(t, "alice", "", append(remove, "--wait=false")...)
	release := []string{"patch", set, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`}
	s.mustFail(t, "bob", "", "is for another change or user", release...)
	s.mustDo(t, "alice", "", release...)
	s.mustFail(t, "alice", "", "not found", "get", set)
}
