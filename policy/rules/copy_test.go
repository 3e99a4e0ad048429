package rules

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// TestCopies holds a verdict's copies to its findings, and to their order.
func TestCopies(t *testing.T) {
	at := func(ref string) mirrors.Location { return mirrors.Location{Ref: ref} }
	missing := func(name string, rank int) policy.Finding {
		return policy.Finding{Severity: policy.Deny, Image: policy.Image{Ref: "quay.io/" + name}, Copy: &policy.Copy{Rank: rank, From: []mirrors.Location{at("quay.io/" + name)}, Found: true, To: at("m.example.com/" + name)}}
	}
	unsigned := missing("b:1", 1)
	unsigned.Copy.OnlyAttachments = true
	unsigned.Copy.Attachments = []policy.AttachmentCopy{{From: at("quay.io/b:s.sig"), To: at("m.example.com/b:s.sig")}}
	ignored := missing("c:1", 0)
	ignored.Severity = policy.Info
	v := policy.Judgement{Findings: []policy.Finding{missing("a:1", 5), unsigned, missing("b:1", 3), ignored, {Severity: policy.Deny}}}
	copies := v.Copies()
	if len(copies) != 2 || copies[0].To.Ref != "m.example.com/b:1" || copies[1].To.Ref != "m.example.com/a:1" {
		t.Fatalf("copies of what is protected first, each place once: %+v", copies)
	}
	if b := copies[0]; b.OnlyAttachments || b.Rank != 1 || len(b.Attachments) != 1 {
		t.Errorf("what two findings ask for together: %+v", b)
	}
}

// TestDeniedAndShared: that a mirror lets nobody in does not hide that two images would have to share a place there.
func TestDeniedAndShared(t *testing.T) {
	var copies []policy.Copy
	for _, contact := range []configv1.MirrorSourcePolicy{never, allow} {
		change := policy.Change{Before: set(), After: set(itms("a", "quay.io", contact, "m.local"), itms("b", "other.io", contact, "m.local"), itms("c", "third.io", contact, "m.local/own"), itms("d", "docker.io", contact, "m.local/hub"))}
		plan := shallow(change, []policy.Image{{Ref: "quay.io/x:1", Consumers: running}, {Ref: "other.io/x:1", Consumers: running}, {Ref: "third.io/x:1", Consumers: running}, {Ref: "x:1", Consumers: running}}, settings.Settings{})
		found := Decide(plan, facts("m.local/x:1 denied", "m.local/own/x:1 denied", "quay.io/x:1 present", "other.io/x:1 present", "third.io/x:1 present", "registry.access.redhat.com/x:1 unreachable", "m.local/hub/library/x:1 denied", "docker.io/library/x:1 present")).Copies()
		if len(found) != 2+policy.Bit(contact == allow) {
			t.Fatalf("%s: %+v", contact, found)
		}
		copies = append(copies, found...)
	}
	for _, c := range copies {
		denied, shared := strings.Contains(c.Obstacle, evidence.CredentialsFor(&policy.Fact{}, "m.local/x")), strings.HasPrefix(c.Obstacle, ownPlace)
		if isShared := c.To.Ref == "m.local/x:1"; !denied || shared != isShared || c.Denied == isShared || c.ToSource {
			t.Errorf("%+v", c)
		}
		other := map[string]string{"quay.io/x:1": "other.io/x:1", "other.io/x:1": "quay.io/x:1"}[c.Image.Ref]
		if other != "" && (!strings.Contains(c.Obstacle, "m.local/x:1") || !strings.Contains(c.Obstacle, other)) {
			t.Errorf("the obstacle of %s does not name %s: %s", c.Image.Ref, other, c.Obstacle)
		}
	}
}

// TestPartial: whatever rule finds it, a copy says whether its place is known to lack a part of what it serves.
func TestPartial(t *testing.T) {
	lacksPart := &policy.Fact{Presence: policy.Present, Digest: sumA, MediaType: policy.IndexTypes[0], Missing: []string{"linux/arm64"}, Serves: []string{"linux/amd64"}, AsNodes: true}
	whole := &policy.Fact{Presence: policy.Present, Digest: sumA, MediaType: signer.MediaType, AsNodes: true}
	pinned := []policy.Consumer{{Kind: plan.PinnedSetKind, Name: "pins"}}
	for _, row := range []struct {
		rule      string
		consumers []policy.Consumer
		mirror    *policy.Fact
		signature policy.Presence
		partial   bool
	}{
		{policy.ImageMissing, consumers(), &policy.Fact{Presence: policy.Absent, AsNodes: true}, policy.Unknown, false},
		{policy.BlobsMissing, consumers(), &policy.Fact{Presence: policy.Incomplete, AsNodes: true}, policy.Unknown, true},
		{policy.PlatformMissing, consumers(), lacksPart, policy.Unknown, true},
		{policy.PinnedImageMissing, pinned, &policy.Fact{Presence: policy.Incomplete, AsNodes: true}, policy.Unknown, true},
		{policy.PinnedImageMissing, pinned, lacksPart, policy.Unknown, true},
		{policy.SignatureMissing, consumers(), whole, policy.Absent, false},
		{policy.SignatureRejected, consumers(), whole, policy.Incomplete, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			objects := []mirrors.Object{idms("a", "quay.io", allow, "m.local")}
			if row.signature != policy.Unknown {
				objects = append(objects, signedBy(release, "quay.io/x"))
			}
			mirror, source := mirrors.Location{Ref: "m.local/x" + digestA}, mirrors.Location{Ref: dig}
			found := policy.Facts{mirror: row.mirror, source: whole}
			l, _ := mirror.Signatures(sumA)
			found[l] = &policy.Fact{Presence: row.signature, AsNodes: true}
			l, _ = source.Signatures(sumA)
			found[l] = &policy.Fact{Presence: policy.Present, AsNodes: true, Signatures: &signing.Signatures{All: []signing.Signature{release.Sign("quay.io/x:1", sumA)}}}
			verdict := Judge(shallower(plan.NewPulls(withPolicies(objects...), plan.Cluster{Images: policy.NewImages(policy.Image{Ref: dig, Consumers: row.consumers})}, settings.Settings{})), found)
			copies := verdict.Copies()
			if len(copies) != 1 || copies[0].Rule != row.rule || copies[0].Partial != row.partial {
				t.Errorf("got %+v, want one of %s, with Partial %t", copies, row.rule, row.partial)
			}
		})
	}
}

// TestUselessCopy: of what lacks a part, only a place that may have it is copied.
func TestUselessCopy(t *testing.T) {
	sparse := &policy.Fact{Presence: policy.Present, Digest: sumA, MediaType: policy.IndexTypes[0], Missing: []string{"linux/arm64"}, AsNodes: true}
	for _, row := range []struct {
		contact configv1.MirrorSourcePolicy
		old     policy.Presence // at the mirror in force
		source  *policy.Fact    // of the new route: where it is blocked, it is not asked
		copies  int
	}{
		{allow, policy.Absent, sparse, 0},
		{allow, policy.Absent, &policy.Fact{Presence: policy.Absent, AsNodes: true}, 0},
		{allow, policy.Absent, &policy.Fact{Presence: policy.Unreachable}, 1},
		{never, policy.Absent, &policy.NotAsked, 1},
		{allow, policy.Unreachable, &policy.Fact{Presence: policy.Absent, AsNodes: true}, 1},
	} {
		change := policy.Change{Before: set(idms("a", "quay.io", allow, "old.local")), After: set(idms("a", "quay.io", row.contact, "m.local"))}
		v := Decide(shallow(change, []policy.Image{{Ref: dig, Consumers: running}}, settings.Settings{}), policy.Facts{{Ref: "m.local/x" + digestA}: sparse, {Ref: dig}: row.source, {Ref: "old.local/x" + digestA}: {Presence: row.old, AsNodes: true}})
		if copies := v.Copies(); len(copies) != row.copies || row.copies == 0 && len(v.Findings[0].Remedy) == 0 {
			t.Errorf("%s, source %s: %s, copies %+v", row.contact, row.source.Presence, summary(v), copies)
		}
	}
}

// TestSignedForAnyPod: that nodes require signatures of what is at a place is said of each copy that goes there, whichever of the pods that
// pull it, and of the names that it has, the copy is for.
func TestSignedForAnyPod(t *testing.T) {
	in := func(namespace string, use policy.Use) policy.Consumer {
		return policy.Consumer{Kind: "Deployment", Namespace: namespace, Name: "cart", Container: "app", Use: use}
	}
	quay, other := "quay.io/x"+digestA, "other.io/x"+digestA
	mirrored := []mirrors.Object{idms("a", "quay.io", allow, "m.local"), idms("b", "other.io", allow, "m.local")}
	for _, row := range []struct {
		reason string
		policy mirrors.Object
		images []policy.Image
		signed bool
	}{
		{"no policy", nil, []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("shop", policy.Running), in("bank", policy.Running)}}}, false},
		{"one for a namespace that has no such pod", signedIn("bank", release, "quay.io/x"), []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("shop", policy.Running)}}}, false},
		{"one for the pods of a namespace that come first", signedIn("bank", release, "quay.io/x"), []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("bank", policy.Running), in("shop", policy.Running)}}}, true},
		{"one for those that come last", signedIn("zoo", release, "quay.io/x"), []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("shop", policy.Running), in("zoo", policy.Running)}}}, true},
		{"one for those that may come back", signedIn("zoo", release, "quay.io/x"), []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("shop", policy.Running), in("zoo", policy.History)}}}, true},
		{"one for the cluster", signedBy(release, "quay.io/x"), []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("shop", policy.Running)}}}, true},
		{"one for another name of what is at the place", signedBy(release, "quay.io/x"), []policy.Image{{Ref: quay, Consumers: []policy.Consumer{in("shop", policy.Running)}}, {Ref: other, Consumers: []policy.Consumer{in("shop", policy.Running)}}}, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			objects := mirrored
			if row.policy != nil {
				objects = append(objects[:2:2], row.policy)
			}
			known, found := plan.Cluster{Images: policy.NewImages(row.images...)}, facts("m.local/x"+digestA+" absent")
			for _, ref := range []string{quay, other} {
				at := mirrors.Location{Ref: ref}
				found[at] = &policy.Fact{Presence: policy.Present, Digest: sumA, MediaType: signer.MediaType, AsNodes: true}
				l, _ := at.Signatures(sumA)
				found[l] = &policy.Fact{Presence: policy.Present, AsNodes: true, Signatures: &signing.Signatures{All: []signing.Signature{release.Sign("quay.io/x:1", sumA)}}}
			}
			standings := Standings(shallower(plan.NewStanding(withPolicies(objects...), known, settings.Settings{})), found)
			verdict := Judge(shallower(plan.NewPulls(withPolicies(objects...), known, settings.Settings{})), found)
			copies := convert.Each(standings, func(s Standing) *policy.Copy { return s.Finding.Copy })
			for i := range verdict.Findings {
				copies = append(copies, verdict.Findings[i].Copy)
			}
			if len(standings) == 0 || len(verdict.Copies()) != 1 || verdict.Copies()[0].Signed() != row.signed {
				t.Errorf("%d standings, copies %+v, want one, with Signed %t", len(standings), verdict.Copies(), row.signed)
			}
			for _, c := range copies {
				if c == nil || c.To.Ref != "m.local/x"+digestA || c.Signed() != row.signed {
					t.Errorf("got %+v, want Signed %t", c, row.signed)
				}
			}
		})
	}
}

// TestManyMissing: a denial that lacks up to three images has their commands, and one that lacks more the one that copies all.
func TestManyMissing(t *testing.T) {
	wide, narrow := itms("a", "quay.io", never, "m.local"), itms("b", "quay.io/team", never, "n.local")
	elsewhere := itms("b", "quay.io/other", never, "n.local")
	for _, row := range []struct {
		name   string
		change policy.Change
		want   string // the flags of either command
	}{
		{"a creation", policy.Change{Before: set(), After: set(wide)}, "-f FILE"},
		{"a deletion", policy.Change{Before: set(wide, narrow), After: set(wide)}, "-f FILE --delete"},
		{"an entry that is taken out", policy.Change{Before: set(wide, narrow), After: set(wide, elsewhere)}, "-f FILE"},
	} {
		for missing := 1; missing <= 5; missing++ {
			var images []policy.Image
			var lines []string
			for i := range missing {
				path := fmt.Sprintf("team/app%d:1", i)
				images = append(images, policy.Image{Ref: "quay.io/" + path, Consumers: running})
				lines = append(lines, "m.local/"+path+" absent", "quay.io/"+path+" present", "n.local"+strings.TrimPrefix(path, "team")+" present")
			}
			verdict := Decide(shallow(row.change, images, settings.Settings{}), facts(lines...))
			message := words.Refusal(verdict, "it")
			for _, got := range []string{message, words.Answer(verdict, "it").String()} {
				commands, all := strings.Count(got, "skopeo copy"), strings.Count(got, ": mirrorset-guard sync "+row.want+"\n")
				if few := missing <= 3; few && (commands != missing || strings.Contains(got, "sync -f")) || !few && (commands != 0 || all != 1) {
					t.Errorf("%s, %d missing:\n%s", row.name, missing, got)
				}
			}
			if !strings.HasSuffix(message, ": mirrorset-guard check "+row.want) {
				t.Errorf("%s, %d missing:\n%s", row.name, missing, message)
			}
		}
	}
}

// TestCopiesAreMerged: what is said of one copy is said of the same one elsewhere.
func TestCopiesAreMerged(t *testing.T) {
	to := mirrors.Location{Ref: "m.local/x:v1"}
	if got := (policy.Judgement{Findings: []policy.Finding{{Severity: policy.Deny, Copy: &policy.Copy{To: to}}, {Severity: policy.Deny, Copy: &policy.Copy{To: to, MayMove: true}}}}).Copies(); len(got) != 1 || !got[0].MayMove {
		t.Errorf("got %+v", got)
	}
}
