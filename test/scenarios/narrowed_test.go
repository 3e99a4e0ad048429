package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// testNarrowed: for a refused change, `check -o narrowed` prints an object that is
// admitted.
func testNarrowed(t *testing.T, w *world) {
	s := load(t, "36_broad_source_says_what_would_do")
	w.arrange(t, &s)
	got := w.checkAs(t, &s, "narrowed")
	want := `---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
  name: quay
spec:
  imageTagMirrors:
  - mirrors:
    - mirror.example.com/shop
    source: quay.io/shop
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("narrowed (-want +got):\n%s", diff)
	}
	s.Change = []string{strings.TrimPrefix(got, "---\n")}
	answer := w.askAPIServer(t, &s)
	wantWarning := "ImageTagMirrorSet quay reroutes 2 of 3 images: all verified"
	if !answer.Allowed || len(answer.Warnings) != 1 || answer.Warnings[0] != wantWarning {
		t.Errorf("applying it:\n%s", answer)
	}
	testNarrowedKeeps(t, w, &s)
}

// testNarrowedKeeps: entries that the change leaves as they are in force are printed with the narrowed
// ones, and what is still wrong with the result is said.
func testNarrowedKeeps(t *testing.T, w *world, s *Scenario) {
	const other = "\n  - {source: registry.example.com/other, mirrors: [mirror.example.com/other]}"
	set := func(entry string) []string {
		return []string{"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: quay}\nspec:\n  imageTagMirrors:" + other + entry + "\n"}
	}
	s.Before, s.Change = set(""), set("\n  - {source: quay.io, mirrors: [mirror.example.com]}")
	if got := w.checkAs(t, s, "narrowed"); !strings.Contains(got, "source: quay.io/shop\n") || !strings.Contains(got, "source: registry.example.com/other\n") || strings.Contains(got, "refused") {
		t.Errorf("narrowed, beside an entry in force:\n%s", got)
	}
	// What is pulled by digest has no mirror in the narrowed set either.
	pay, err := fill("quay.io/shop/pay@{cart}")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.readImages(pay + " Deployment shop/pay (app)\n"); err != nil {
		t.Fatal(err)
	}
	s.Before, s.Change, s.States[pay] = nil, set("\n  - {source: quay.io, mirrors: [mirror.example.com], mirrorSourcePolicy: NeverContactSource}"), registries.Honest
	w.arrange(t, s)
	if got := w.checkAs(t, s, "narrowed"); !strings.Contains(got, "# Even so it would be refused") || !strings.Contains(got, "\n# kind: ") || strings.Contains(got, "\nkind: ") || !strings.Contains(got, "# NoRoute:") {
		t.Errorf("narrowed, and still refused:\n%s", got)
	}
}

func load(t *testing.T, name string) Scenario {
	t.Helper()
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no story %s", name)
	return Scenario{}
}

// testApplyTimes reports how long kubectl waits for the answer about 200 images,
// with and without known facts. It asserts the answers, not the times.
func testApplyTimes(t *testing.T, w *world) {
	s := Scenario{States: map[string]registries.Behaviour{}, Change: []string{
		"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: many}\nspec: {imageTagMirrors: [{source: quay.io/many, mirrors: [mirror.example.com/many]}]}\n",
	}}
	for i := range 200 {
		ref := fmt.Sprintf("many/app-%d:v%d", i/10, i%10)
		s.States["mirror.example.com/"+ref] = registries.Honest
		if err := s.readImages(fmt.Sprintf("quay.io/%s Deployment many/app-%d (app)\n", ref, i)); err != nil {
			t.Fatal(err)
		}
	}
	w.arrange(t, &s)
	for _, round := range []string{"cold", "warm"} {
		start := time.Now()
		requests := w.front.Requests()
		out, err := w.cluster.Kubectl(t.Context(), s.Change[0], "apply", "--dry-run=server", "-f", "-")
		for err != nil && strings.Contains(out, "looked up when time was up") && time.Since(start) < maxWait {
			out, err = w.cluster.Kubectl(t.Context(), s.Change[0], "apply", "--dry-run=server", "-f", "-")
		}
		took := time.Since(start)
		if err != nil || !strings.Contains(out, "reroutes 200 of 200 images: all verified") {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("200 images, %s facts: kubectl took %v, %d requests to registries", round, took.Round(time.Millisecond), w.front.Requests()-requests)
	}
	start := time.Now()
	if out, err := w.cluster.Kubectl(t.Context(), "", "get", "namespaces"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("the floor, kubectl get namespaces: %v", time.Since(start).Round(time.Millisecond))
}
