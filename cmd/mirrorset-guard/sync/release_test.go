package sync

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A releaseSync is a release where it is at home, a mirror that has nothing, and a cluster that is offered the
// release.
type releaseSync struct {
	*testrelease.Stage
	mirror string
	dump   string
}

func newReleaseSync(t *testing.T) *releaseSync {
	t.Helper()
	s := &releaseSync{Stage: testrelease.AtHome(t, 8)}
	s.mirror = registries.Run(t).Addr
	objects := strings.ReplaceAll(s.Objects(s.Signed), `mirrors: ["`+s.Mirror, `mirrors: ["`+s.mirror)
	objects = strings.Replace(objects, `insecureRegistries: ["`, `insecureRegistries: ["`+s.mirror+`", "`, 1)
	s.dump = clitest.Written(t, "cluster.yaml", objects)
	return s
}

// nameOf returns what an image of the release is called.
func (s *releaseSync) nameOf(ref string) string {
	_, digest, _ := strings.Cut(ref, "@")
	i := slices.IndexFunc(s.Parts, func(p testrelease.Part) bool { return p.What == "image" && strings.HasSuffix(p.Path, "/"+digest) })
	return s.Parts[i].Name
}

func (s *releaseSync) sync(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "nothing.json", "{}"))
	return clitest.Invoke(t, run, "", append([]string{"sync", "--from", s.dump, "--allow-loopback", "--release", testrelease.Version}, args...)...)
}

// TestRelease fills an empty mirror with a release, in one run: first the release image, then what that names, in the order of TestCopies of
// package readiness.
func TestRelease(t *testing.T) {
	s := newReleaseSync(t)
	dry := s.sync(t, "--dry-run")
	wantCode(t, dry, 1, "To "+s.mirror+": 1 image, ", "As things are:", "NOT READY: Release 4.21.3", "Which images it consists of is not known")
	got := s.sync(t, "-o", "json")
	wantCode(t, got, 0)
	var begun []string
	for _, line := range strings.Split(strings.TrimSpace(got.Out), "\n") {
		var e struct{ Kind, Type, Image, Verdict string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Type == "Started" {
			begun = append(begun, s.nameOf(e.Image))
		}
		if e.Kind == "ReleaseReview" && e.Verdict != "READY" {
			t.Errorf("it ends with %s", line)
		}
	}
	if len(begun) != 9 || begun[0] != "release" || len(slices.Compact(slices.Sorted(slices.Values(begun)))) != 9 {
		t.Errorf("begun %q, want the release image and then the eight others", begun)
	}
	wantCode(t, s.sync(t), 0, "Nothing is to be copied", "READY: Release 4.21.3", "9 of 9 images")
}

// TestReleaseIncomplete: an image for which there is no room, or that cannot be had, is named, and copied by a later run.
func TestReleaseIncomplete(t *testing.T) {
	s := newReleaseSync(t)
	_, most, _ := strings.Cut(s.sync(t, "--dry-run", "-o", "json").Out, `"bytes":`)
	most = most[:strings.IndexAny(most, ",}")] // just enough for the release image
	wantCode(t, s.sync(t, "--max-bytes", most), 1, "--max-bytes "+most+" left 8 images for another run")
	s.Without(s.PartOf("component-003", "image").Path)
	got := s.sync(t)
	wantCode(t, got, 1, "Not copied: "+s.Images+"@", "NOT READY: Release 4.21.3", "8 of 9 images can be pulled by all nodes that need them, 1 cannot.")
	s.Without()
	wantCode(t, s.sync(t), 0, "Copied 1 of 1 image", "READY: Release 4.21.3", "9 of 9 images")
}

// TestAttempts: another copy to the same place, of signatures that turn out to be missing once the image is there, is a new one; the same again is
// not.
func TestAttempts(t *testing.T) {
	to := mirrors.Location{Ref: "m.local/x@sha256:aa"}
	image := policy.Copy{Rule: policy.ImageMissing, To: to}
	signature := policy.Copy{Rule: policy.SignatureMissing, To: to, OnlyAttachments: true, Attachments: []policy.AttachmentCopy{{To: to}}}
	more := signature
	more.Attachments = append(more.Attachments, policy.AttachmentCopy{From: to})
	tried := map[attempt]bool{}
	for _, c := range []policy.Copy{image, signature, more} {
		if tried[attemptOf(c)] {
			t.Errorf("%+v was not tried before", c)
		}
		tried[attemptOf(c)] = true
	}
}
