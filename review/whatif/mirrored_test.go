package whatif

import (
	"context"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// TestMirrored: what will be at a place after a mirroring, by what is there today and what the source has. Only what the source
// is known to have is assumed.
func TestMirrored(t *testing.T) {
	const mapping = "quay.io/a:1=m.local/a:1\nquay.io/b@" + digestA + "=m.local/b:" + "1\noci:///disk=m.local/disk:1\n"
	at := func(presence policy.Presence, digest string) *policy.Fact {
		return &policy.Fact{Presence: presence, Digest: digest, AsNodes: true}
	}
	there, other := at(policy.Present, digestA), at(policy.Present, digestB)
	sparse := &policy.Fact{Presence: policy.Present, Digest: digestA, Missing: []string{"linux/arm64"}}
	index := &policy.Fact{Presence: policy.Present, Digest: digestB, Children: []string{digestA}}
	for _, tt := range []struct {
		reason         string
		place          string
		before, source *policy.Fact
		want           policy.Presence
		assumed        bool
	}{
		{"it comes", "m.local/a:1", at(policy.Absent, ""), there, policy.Present, true},
		{"the source lacks it", "m.local/a:1", at(policy.Absent, ""), at(policy.Absent, ""), policy.Absent, false},
		{"the source lacks layers", "m.local/a:1", at(policy.Absent, ""), at(policy.Incomplete, ""), policy.Absent, false},
		{"the source has something else", "m.local/a:1", at(policy.Absent, ""), at(policy.Mismatch, ""), policy.Absent, false},
		{"the source does not answer", "m.local/a:1", at(policy.Absent, ""), at(policy.Unreachable, ""), policy.Inconclusive, false},
		{"the source denies", "m.local/a:1", at(policy.Absent, ""), at(policy.Denied, ""), policy.Inconclusive, false},
		{"the source was not asked in time", "m.local/a:1", at(policy.Absent, ""), at(policy.Unknown, ""), policy.Inconclusive, false},
		{"nor was the mirror", "m.local/a:1", at(policy.Unknown, ""), there, policy.Unknown, false},
		{"a mirror that denies goes on to do so", "m.local/a:1", at(policy.Denied, ""), there, policy.Denied, false},
		{"and so does one that does not answer", "m.local/a:1", at(policy.Unreachable, ""), there, policy.Unreachable, false},
		{"or has something else", "m.local/a:1", at(policy.Mismatch, ""), there, policy.Mismatch, false},
		{"layers come", "m.local/a:1", at(policy.Incomplete, ""), there, policy.Present, true},
		{"a tag is moved", "m.local/a:1", other, there, policy.Present, true},
		{"a tag stays, as it names the same", "m.local/a:1", there, at(policy.Present, digestA), policy.Present, false},
		{"a tag stays where the source has lost it", "m.local/a:1", there, at(policy.Absent, ""), policy.Present, false},
		{"a digest stays what it is", "m.local/b@" + digestA, there, other, policy.Present, false},
		{"but for its parts", "m.local/a@" + digestA, sparse, there, policy.Present, true},
		{"a digest comes under a tag", "m.local/a@" + digestA, at(policy.Absent, ""), there, policy.Present, true},
		{"and as a part of what has the tag", "m.local/a@" + digestA, at(policy.Absent, ""), index, policy.Present, true},
		{"the tag is of something else", "m.local/a@" + digestA, at(policy.Absent, ""), other, policy.Absent, false},
		{"a digest under a tag of its own", "m.local/b:1", at(policy.Absent, ""), there, policy.Present, true},
		{"from a disk", "m.local/disk:1", at(policy.Absent, ""), there, policy.Inconclusive, false},
		{"nothing is copied there", "m.local/c:1", at(policy.Absent, ""), there, policy.Absent, false},
		{"nor under another tag", "m.local/a:2", at(policy.Absent, ""), there, policy.Absent, false},
	} {
		m, err := ReadMapping("mapping.txt", strings.NewReader(mapping))
		if err != nil {
			t.Fatal(err)
		}
		place := mirrors.Location{Ref: tt.place}
		r := m.Of(review.RegistriesFunc(func(_ context.Context, locs []mirrors.Location) policy.Facts {
			facts := policy.Facts{}
			for _, l := range locs {
				fact := *tt.source
				switch {
				case l.Ref == place.Ref:
					fact = *tt.before
				case mirrors.ByDigest(l.Ref): // nothing else may answer
					fact.Digest = digestA
				}
				facts[l] = &fact
			}
			return facts
		}))
		f := r.Presence(t.Context(), []mirrors.Location{place}, policy.Freshness{}).At(place)
		if f.Presence != tt.want || (f.Assumed != "") != tt.assumed || f.Never != strings.Contains(tt.place, "disk") || tt.assumed && f.Digest != digestA {
			t.Errorf("%s: %+v, want %v, assumed %t", tt.reason, f, tt.want, tt.assumed)
		}
		referrers := mirrors.Location{Ref: tt.place, Depth: mirrors.DepthReferrers}
		if f := r.Presence(t.Context(), []mirrors.Location{referrers}, policy.Freshness{}).At(referrers); f.Assumed != "" {
			t.Errorf("%s: referrers are assumed: %+v", tt.reason, f)
		}
		if notes := r.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "mapping.txt") {
			t.Errorf("notes %q", notes)
		}
	}
}

// TestFormsAgree: whatever form a deletion is written in, it has the same answer, and each place that nodes need.
func TestFormsAgree(t *testing.T) {
	const now = "m.example.com:8443/team/app-0"
	for _, filled := range [][]string{nil, {now}, {now, "quay.io/team/app-0"}, {"quay.io/team/app-0"}} {
		w := newPartsWorld(t, "AllowContactingSource")
		for _, repository := range filled {
			w.fill(repository, 0)
		}
		d := w.judge(t, now+"@"+digestOf(0), "quay.io/team/app-0@"+digestOf(0), "elsewhere.example.com/x:1")
		doc := d.Document()
		if doc.Allowed != d.Allowed || len(doc.Needed) != len(d.Needed) || len(doc.Findings) != len(d.Findings) || doc.Items != 3 || doc.Elsewhere != 1 {
			t.Errorf("%q: %+v", filled, doc)
		}
		said := d.Answer()
		markdown := said.Markdown()
		junit, err := said.JUnit()
		if err != nil {
			t.Fatal(err)
		}
		if failed := strings.Contains(junit, "<failure"); failed == d.Allowed || strings.Contains(markdown, "Refused") == d.Allowed || strings.Contains(said.String(), "is refused") == d.Allowed {
			t.Errorf("%q: allowed %t, but\n%s\n%s\n%s", filled, d.Allowed, said, markdown, junit)
		}
		for _, n := range doc.Needed {
			if !strings.Contains(junit, n.Reference) || !n.Broken && !strings.Contains(said.String(), n.Reference) {
				t.Errorf("%q: %s is not told in\n%s\n%s", filled, n.Reference, said, junit)
			}
		}
	}
}

// TestKeepForms: what is kept is in each form, and what is not known of it as well.
func TestKeepForms(t *testing.T) {
	r := reviewerOf(t, 2, 2)
	for scope, want := range map[string]int{"m.example.com:8443": 4, "m.example.com:8443/team/app-1": 2, "elsewhere.example.com": 0} {
		kept, err := Keep(t.Context(), r, scope, review.Coming{})
		if err != nil || len(kept.Kept) != want || (len(kept.Unknown) > 0) != (want == 0) || want == 0 && !strings.HasPrefix(kept.Unknown[0], "whether "+scope+" is the place that is meant: nodes ask for nothing there") {
			t.Fatalf("%s: %+v, %v", scope, kept, err)
		}
		doc := kept.Document()
		for i, k := range kept.Kept {
			if doc.Items[i].Reference != k.Reference || len(doc.Items[i].Images) != 1 || !strings.Contains(kept.Lines(), "\n"+k.Reference+"\n") || !strings.Contains(kept.Answer().String(), k.Reference) {
				t.Errorf("%s: %+v\n%s\n%s", scope, doc.Items[i], kept.Lines(), kept.Answer().String())
			}
		}
		if lines := strings.Count(kept.Lines(), "\n#"); len(doc.Unknown) != len(kept.Unknown) || lines != len(kept.Unknown) {
			t.Errorf("%s: %q in\n%s", scope, doc.Unknown, kept.Lines())
		}
	}
	for _, bad := range []string{"", "team", "m.example.com/a:1", "m.example.com/a@" + digestA, "m.example.com//a"} {
		if _, err := Keep(t.Context(), r, bad, review.Coming{}); err == nil {
			t.Errorf("%q is a scope", bad)
		}
	}
}
