package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestImagesTouched holds the order to looking at every image.
func TestImagesTouched(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	hosts := []string{"quay.io", "quay.io:443", "quay.io-x", "quay.ioo", "a.b.example.com", "a.b.example.com:5000", "b.example.com", "localhost", "docker.io", "a.b", "a.b-c", "a.b.c"}
	paths := []string{"/a", "/a/b", "/a-b", "/a.b", "/a/b/c", "/ab", "/b"}
	var index ImageIndex
	all := map[string]Image{}
	for range 2000 {
		ref := hosts[rng.IntN(len(hosts))] + paths[rng.IntN(len(paths))] + []string{"", ":v1", ":v2", "@sha256:" + strings.Repeat("1", 64)}[rng.IntN(4)]
		switch rng.IntN(10) {
		case 0:
			ref = fmt.Sprintf("short-%d", rng.IntN(20))
		case 1:
			ref = fmt.Sprintf("NO:reference-%d", rng.IntN(20))
		}
		if rng.IntN(3) == 0 {
			index.Delete(ref)
			delete(all, ref)
			continue
		}
		img := Image{Ref: ref, Consumers: []Consumer{{Kind: "Pod", Name: fmt.Sprint(rng.IntN(100))}}}
		index.Put(img)
		all[ref] = img
	}
	images := index.Images()
	if images.Len() != len(all) {
		t.Fatalf("%d images, want %d", images.Len(), len(all))
	}
	for img := range images.All() {
		if img.Consumers[0] != all[img.Ref].Consumers[0] {
			t.Errorf("%s: %v, want %v", img.Ref, img, all[img.Ref])
		}
	}
	for range 500 {
		var d mirrors.ChangedScopes
		for range rng.IntN(4) {
			scope := hosts[rng.IntN(len(hosts))]
			if rng.IntN(2) == 0 {
				scope += paths[rng.IntN(len(paths))]
			}
			d.Scopes = append(d.Scopes, scope)
		}
		if rng.IntN(4) == 0 {
			d.Scopes = append(d.Scopes, []string{"*.io", "*.example.com", "*.b.example.com", "*.b"}[rng.IntN(4)])
		}
		var want []string
		for ref := range all {
			if touches(d, ref) {
				want = append(want, ref)
			}
		}
		slices.Sort(want)
		var got []string
		for img := range images.Touched(d) {
			got = append(got, img.Ref)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%v: got %v\nwant %v", d.Scopes, got, want)
		}
	}
	if n := len(slices.Collect(images.Touched(mirrors.ChangedScopes{Everything: true}))); n != len(all) {
		t.Errorf("everything is %d images, want %d", n, len(all))
	}
}

func touches(d mirrors.ChangedScopes, ref string) bool {
	repository, qualified := mirrors.Repository(ref)
	host, _, _ := strings.Cut(repository, "/")
	return !qualified || slices.ContainsFunc(d.Scopes, func(scope string) bool {
		if suffix, ok := strings.CutPrefix(scope, "*"); ok {
			return strings.Contains(host, suffix)
		}
		rest, ok := strings.CutPrefix(repository, scope)
		return ok && (rest == "" || rest[0] == '/' || rest[0] == ':')
	})
}

// TestImagesDoNotChange: what was returned stays as it was, whatever comes afterwards, also
// while others read it (which the race detector watches).
func TestImagesDoNotChange(t *testing.T) {
	var index ImageIndex
	for i := range 500 {
		index.Put(Image{Ref: fmt.Sprintf("quay.io/app-%d:v1", i)})
	}
	was := index.Images()
	done := make(chan int)
	go func() {
		n := 0
		for range 20 {
			for range was.All() {
				n++
			}
		}
		done <- n
	}()
	for i := range 500 {
		index.Delete(fmt.Sprintf("quay.io/app-%d:v1", i))
		index.Put(Image{Ref: fmt.Sprintf("quay.io/other-%d:v1", i)})
		if i%50 == 0 && index.Images().Len() != 500 {
			t.Errorf("%d images", index.Images().Len())
		}
	}
	if n := <-done; n != 20*500 {
		t.Errorf("%d images were read, want %d", n, 20*500)
	}
	for img := range was.All() {
		if !strings.HasPrefix(img.Ref, "quay.io/app-") {
			t.Errorf("%s came later", img.Ref)
		}
	}
}
