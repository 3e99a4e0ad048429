package scenarios

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// TestPages: the page of each story says what its verdict says: the sentence, each rule, each image, and
// each command. With PAGES=FOLDER the pages are left there, for a browser (test/browser).
func TestPages(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		s := &all[i]
		if _, invalid := s.Invalid(); invalid {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			record := decide(t, s)
			doc, a := record.Document(), record.Answer()
			out, err := a.HTML(answer.Page{Time: time.Unix(0, 0), Cluster: s.Name, Requester: s.As.User, Whole: "mirrorset-guard check -o json"})
			if err != nil {
				t.Fatal(err)
			}
			shown, said := html.UnescapeString(out), a.String()
			want := []string{text.Line(doc.Summary)}
			for _, f := range doc.Findings {
				want = append(want, f.Rule, text.Line(f.Image), text.Line(f.Reason))
				for line := range strings.Lines(text.Lines(f.Remedy)) {
					if strings.Contains(said, "To do: "+line) { // else one command copies all
						want = append(want, line)
					}
				}
			}
			results := map[string]int{}
			for i, r := range doc.Rerouted {
				want = append(want, text.Line(r.Image))
				if i == 0 || doc.Rerouted[i-1].Image != r.Image { // else it is the same on nodes of other pools
					results[r.Result]++
				}
			}
			if results["verified"] != doc.Images.Verified || results["unverified"] != doc.Images.Unverified {
				t.Errorf("the images have the results %v, and the counts are %+v", results, doc.Images)
			}
			for _, w := range want {
				if !strings.Contains(shown, strings.TrimSpace(w)) {
					t.Errorf("the page lacks %q", w)
				}
			}
			if dir := os.Getenv("PAGES"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, s.Name+".html"), []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
