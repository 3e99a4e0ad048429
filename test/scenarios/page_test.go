package scenarios

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
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
			doc := decide(t, s).Document()
			var out bytes.Buffer
			if err := page.WriteReview(&out, doc, page.Context{Time: time.Unix(0, 0), Cluster: s.Name, Requester: s.As.User, Whole: "mirrorset-guard check -o json"}); err != nil {
				t.Fatal(err)
			}
			shown := html.UnescapeString(out.String())
			want := []string{text.Line(doc.Summary)}
			for _, f := range doc.Findings {
				want = append(want, f.Rule, text.Line(f.Image), text.Line(f.Reason))
				want = append(want, strings.Split(text.Lines(f.Remedy), "\n")...)
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
				if err := os.WriteFile(filepath.Join(dir, s.Name+".html"), out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
