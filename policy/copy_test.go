package policy

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestCopies holds a verdict's copies to the commands of its findings, and to their order.
func TestCopies(t *testing.T) {
	at := func(ref string) mirrors.Location { return mirrors.Location{Ref: ref} }
	missing := func(name string, rank int) Finding {
		return Finding{Severity: Deny, Image: Image{Ref: "quay.io/" + name}, Copy: &Copy{Rank: rank, From: []mirrors.Location{at("quay.io/" + name)}, Found: true, To: at("m.example.com/" + name)}}
	}
	unsigned := missing("b:1", 1)
	unsigned.Copy.OnlyAttachments = true
	unsigned.Copy.Attachments = []AttachmentCopy{{at("quay.io/b:s.sig"), mirrors.Location{Ref: "m.example.com/b:s.sig", Insecure: true}}}
	ignored := missing("c:1", 0)
	ignored.Severity = Info
	v := Verdict{Findings: []Finding{missing("a:1", 5), unsigned, missing("b:1", 3), ignored, {Severity: Deny}}}
	copies := v.Copies()
	if len(copies) != 2 || copies[0].To.Ref != "m.example.com/b:1" || copies[1].To.Ref != "m.example.com/a:1" {
		t.Fatalf("copies of what is protected first, each place once: %+v", copies)
	}
	if b := copies[0]; b.OnlyAttachments || b.Rank != 1 || len(b.Attachments) != 1 {
		t.Errorf("what two findings ask for together: %+v", b)
	}
	if got, want := strings.Join(unsigned.Copy.Commands(), "\n"), "skopeo copy --preserve-digests --dest-tls-verify=false docker://quay.io/b:s.sig docker://m.example.com/b:s.sig"; got != want {
		t.Errorf("commands %q, want %q", got, want)
	}
	obstacle := Copy{Obstacle: ownPlace, From: []mirrors.Location{at("a/b")}}
	if got := obstacle.Commands(); len(got) != 1 || got[0] != ownPlace {
		t.Errorf("with an obstacle: %q", got)
	}
}
