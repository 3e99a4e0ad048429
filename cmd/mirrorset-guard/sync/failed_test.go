package sync

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestFailuresAreCounted: what fails is not counted as copied, whether it fails before something is sent or later.
func TestFailuresAreCounted(t *testing.T) {
	s := newShop(t)
	nobody(t)
	s.mirror.readOnly.Store(true)
	later := s.sync(t, "-f", s.change, "--push-secret", s.secret)
	wantCode(t, later, 1, "Copied 0 of 2 images, 0 B of ", ", 2 failed\n", "Not copied: "+s.source.host+"/shop/cart:v1 to "+s.mirror.host+"/team/shop/cart:v1: "+s.mirror.host+" answers 405")

	var ended struct{ Images, Done, Failed int }
	lines := strings.Split(strings.TrimSpace(s.sync(t, "-f", s.change, "--push-secret", s.secret, "-o", "json").Out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &ended); err != nil || ended.Images != 2 || ended.Done != 0 || ended.Failed != 2 {
		t.Errorf("the end is %s (%v), want 0 of 2 done and 2 failed", lines[len(lines)-2], err)
	}

	s.mirror.denies.Store(true)
	s.change = clitest.Written(t, "mirrors.yaml", strings.ReplaceAll(s.mirrorSets(), "]}]}", "], mirrorSourcePolicy: NeverContactSource}]}"))
	wrong := clitest.Written(t, "wrong.json", fmt.Sprintf(`{"auths":{%q:{"auth":"d3Jvbmc6d3Jvbmc="}}}`, s.mirror.host))
	early := s.sync(t, "-f", s.change, "--push-secret", wrong)
	wantCode(t, early, 1, "Copied 0 of 2 images, 0 B of 0 B, 2 failed\n", ": "+s.mirror.host+" answers 401")
	if strings.Contains(early.Out+early.Err, "https://") || strings.Contains(early.Out+early.Err, "http://") {
		t.Errorf("there are words of a library in\n%s\n%s", early.Out, early.Err)
	}
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", wrong, "--dry-run"), 1, "2 images cannot be copied\n")
}

// TestAlikeReasons: a reason that many share is said once.
func TestAlikeReasons(t *testing.T) {
	s := newShop(t)
	nobody(t)
	objects := s.objects()
	for i := range 5 {
		img, _ := newImage(t, fmt.Sprint("cart ", i))
		s.push(t, fmt.Sprintf("shop/cart-%d:v1", i), img, nil)
		objects += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: cart-%d}\nspec: {containers: [{name: app, image: %q}]}\n", i, fmt.Sprintf("%s/shop/cart-%d:v1", s.source.host, i))
	}
	s.dump = clitest.Written(t, "cluster.yaml", objects)
	s.mirror.readOnly.Store(true)
	got := s.sync(t, "-f", s.change, "--push-secret", s.secret)
	wantCode(t, got, 1, " and 4 more: "+s.mirror.host+" answers 405")
	if n := strings.Count(got.Out, "Not copied: "); n != 1 || strings.Count(got.Err, "failed: ") != 7 {
		t.Errorf("%d lines say what was not copied, want 1; and 7 what fails\n%s\n%s", n, got.Out, got.Err)
	}
}

// TestMirrorIsDown: what could not be looked up is named as such, and is not taken for what mirrors have.
func TestMirrorIsDown(t *testing.T) {
	s := newShop(t)
	nobody(t)
	down := []string{"--resolve", s.mirror.host + "=127.0.0.1:1", "--push-secret", s.secret}
	change := s.sync(t, append(down, "-f", s.change)...)
	wantCode(t, change, 1, "2 images could not be looked up at "+s.mirror.host+"\n",
		"Not copied: "+s.source.host+"/shop/cart:v1: it could not be looked up at "+s.mirror.host+": ", "is refused")
	for _, redundant := range []string{"Nothing is to be copied", "Copied 0"} {
		if strings.Contains(change.Out+change.Err, redundant) {
			t.Errorf("there is %q in\n%s\n%s", redundant, change.Out, change.Err)
		}
	}
	wantCode(t, s.sync(t, append(down, "-f", s.change, "--dry-run")...), 1, "2 images could not be looked up at "+s.mirror.host+"\n")

	events := s.sync(t, append(down, "-f", s.change, "-o", "json")...)
	if n := strings.Count(events.Out, `"type":"Skipped"`); n != 2 {
		t.Errorf("%d events for what could not be looked up, want 2\n%s", n, events.Out)
	}
}
