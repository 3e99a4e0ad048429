package sync

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// nobody leaves no credentials but those of flags.
func nobody(t *testing.T) {
	t.Helper()
	t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "nothing.json", "{}"))
}

var (
	asPusher = remote.WithAuth(&authn.Basic{Username: pusher, Password: canary})
	encoded  = base64.StdEncoding.EncodeToString([]byte(pusher + ":" + canary))
)

// withoutSecrets are the service accounts of the shop, which have none.
const withoutSecrets = `---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: openshift-ingress, name: default}
`

func newImage(t *testing.T, of string) (v1.Image, string) {
	t.Helper()
	img, err := registries.Image(of)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return img, digest.String()
}

// pushToMirror pushes to the mirror as whoever may.
func (s *shop) pushToMirror(t *testing.T, to string, img v1.Image) {
	t.Helper()
	if err := remote.Write(s.tag(t, to), img, asPusher); err != nil {
		t.Fatal(err)
	}
}

// at returns the digest that a tag of the mirror names, "" for none.
func (s *shop) at(t *testing.T, tag string) string {
	t.Helper()
	got, err := remote.Head(s.tag(t, tag), asPusher)
	if err != nil {
		return ""
	}
	return got.Digest.String()
}

func (s *shop) tag(t *testing.T, of string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(s.mirror.host+"/"+of, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// TestDenyingMirror: a mirror that refuses nodes is filled, as some say so of what they do not have; but not where two
// images would have to share a place.
func TestDenyingMirror(t *testing.T) {
	s := newShop(t)
	nobody(t)
	other, _ := newImage(t, "another cart")
	s.push(t, "other/cart:v1", other, nil)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: other}
spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: %q}]}}}
`, s.source.host+"/other/cart:v1"))
	s.change = clitest.Written(t, "mirrors.yaml", s.mirrorSets()+fmt.Sprintf(`---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: other}
spec: {imageTagMirrors: [{source: %q, mirrors: [%q]}]}
`, s.source.host+"/other", s.mirror.host+"/team/shop"))
	sets, err := os.ReadFile(s.change)
	if err != nil {
		t.Fatal(err)
	}
	s.change = clitest.Written(t, "mirrors.yaml", strings.ReplaceAll(string(sets), "]}]}", "], mirrorSourcePolicy: NeverContactSource}]}"))
	s.mirror.denies.Store(true)
	got := s.sync(t, "-f", s.change, "--push-secret", s.secret)
	wantCode(t, got, 1, "Copied 1 of 1 image",
		"Not copied: "+s.source.host+"/other/cart:v1: give each source a mirror, or a path at the mirror, of its own: at "+s.mirror.host+"/team/shop/cart:v1 nodes look for "+s.source.host+"/shop/cart:v1, too; and add credentials for "+s.mirror.host)
	if there := s.at(t, "team/shop/cart:v1"); there != "" {
		t.Errorf("one of the two is at the place of both: %s", there)
	}
	if there := s.at(t, "ocp/router:"+strings.Replace(s.router, ":", "-", 1)+".image"); there != s.router {
		t.Errorf("the router at the mirror is %q, want %s", there, s.router)
	}
}

// TestLostAtTheSource: what nodes are to take from the source again, which has lost it, is named, and not pushed there.
func TestLostAtTheSource(t *testing.T) {
	s := newShop(t)
	nobody(t)
	only, _ := newImage(t, "only at the mirror")
	s.pushToMirror(t, "team/shop/only:v1", only)
	image := s.source.host + "/shop/only:v1"
	s.dump = clitest.Written(t, "cluster.yaml", strings.Replace(s.objects(), s.source.host+"/shop/cart:v1", image, 1)+withoutSecrets+"---\n"+s.mirrorSets())
	before := s.source.writes()
	got := s.sync(t, "-f", s.change, "--delete", "--push-secret", s.secret)
	wantCode(t, got, 1, "Not copied: "+image+": put the image back where it was: "+image, "Nothing is to be copied")
	if pushed := s.source.writes() - before; pushed > 0 {
		t.Errorf("%d requests push to the source", pushed)
	}
	elsewhere := policy.Copy{Found: true, From: []mirrors.Location{{Ref: "m.example.com/only:v1"}}, To: mirrors.Location{Ref: image}, ToSource: true}
	if got, want := (&syncing{options: &options{}}).whyNot(elsewhere), "it is lost at its source, "+image+", to which nothing is pushed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMirrorIsTheSource: a mirror may be at the registry of the source, and is filled as others are; what nodes are to pull from the mirror by
// its own name has no other place, and is named.
func TestMirrorIsTheSource(t *testing.T) {
	s := newShop(t)
	nobody(t)
	catalog := s.source.host + "/team/catalog:v1"
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+withoutSecrets)
	s.change = clitest.Written(t, "mirrors.yaml", strings.ReplaceAll(s.mirrorSets(), `mirrors: ["`+s.mirror.host, `mirrors: ["`+s.source.host+"/copies")+fmt.Sprintf(`---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {namespace: openshift-marketplace, name: mine}
spec: {sourceType: grpc, image: %q}
`, catalog))
	got := s.sync(t, "-f", s.change)
	t.Log(got.Out, got.Err)
	wantCode(t, got, 1, "Copied 2 of 2 images", "Not copied: "+catalog+": mirror it: the change itself has nodes pull it from "+catalog, "1 of the 3 images")
}

// TestForBuilds: what builds pull is copied as what nodes pull is.
func TestForBuilds(t *testing.T) {
	s := newShop(t)
	nobody(t)
	base, digest := newImage(t, "the base of builds")
	s.push(t, "shop/base:v1", base, nil)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+withoutSecrets+fmt.Sprintf(`---
apiVersion: build.openshift.io/v1
kind: BuildConfig
metadata: {namespace: shop, name: web}
spec: {strategy: {type: Docker, dockerStrategy: {from: {kind: DockerImage, name: %q}}}}
`, s.source.host+"/shop/base:v1"))
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", s.secret, "--dry-run"), 1, "BuildFails", "To "+s.mirror.host+": 3 images, ")
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", s.secret), 0, "Copied 3 of 3 images", "is admitted")
	if there := s.at(t, "team/shop/base:v1"); there != digest {
		t.Errorf("the mirror has %q, want %s", there, digest)
	}
}

// TestLoggedIn: without --push-secret, what podman login has stored counts, and what a helper has.
func TestLoggedIn(t *testing.T) {
	for how, auth := range map[string]string{
		"stored": `{"auths":{%[1]q:{"auth":"` + encoded + `"}}}`,
		"helper": `{"credHelpers":{%[1]q:"fake"}}`,
	} {
		t.Run(how, func(t *testing.T) {
			s := newShop(t)
			t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "auth.json", fmt.Sprintf(auth, s.mirror.host)))
			dir := t.TempDir()
			helper := fmt.Sprintf("#!/bin/sh\nread -r server\n[ \"$1\" = get ] && [ \"$server\" = %[1]s ] || { echo 'credentials not found in native keychain'; exit 1; }\necho '{\"ServerURL\":\"%[1]s\",\"Username\":\"%[2]s\",\"Secret\":\"%[3]s\"}'\n", s.mirror.host, pusher, canary)
			if err := os.WriteFile(filepath.Join(dir, "docker-credential-fake"), []byte(helper), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			got := s.sync(t, "-f", s.change)
			wantCode(t, got, 0, "Copied 2 of 2 images", "is admitted")
			if strings.Contains(got.Out+got.Err, canary) || strings.Contains(got.Out+got.Err, encoded) {
				t.Errorf("the credential is in\n%s\n%s", got.Out, got.Err)
			}
			s.source.mu.Lock()
			defer s.source.mu.Unlock()
			for _, authorization := range s.source.sent {
				if strings.Contains(authorization, encoded) {
					t.Fatal("the source saw the credential for the mirror")
				}
			}
		})
	}
}

// TestInterrupted: Ctrl-C ends a run with a word on how to go on, and the same command does so.
func TestInterrupted(t *testing.T) {
	s := newShop(t)
	nobody(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := func(r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/uploads/") {
			cancel()
		}
	}
	s.mirror.on.Store(&stop)
	args := []string{"sync", "--from", s.dump, "--allow-loopback", "-f", s.change, "--push-secret", s.secret}
	var out, err bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &out, &err)
	if want := "interrupted; the layers that arrived are kept, and the same command goes on from there"; code != 2 || !strings.Contains(err.String(), want) {
		t.Errorf("exit code %d, want 2 and %q\n%s%s", code, want, out.String(), err.String())
	}
	// No time is left, and what is not kept of layers is said. There may be no total yet, as the first ones are sent while other images are looked up.
	if line := regexp.MustCompile(`(?m)^Copied 0 of [02] images, [0-9.]+ K?i?B of [0-9.]+ K?i?B(, [0-9.]+ [KMG]?i?B/s)?$`); !line.MatchString(err.String()) {
		t.Errorf("the last line is not what it should be in\n%s", err.String())
	}
	for _, tag := range []string{"team/shop/cart:v1", "ocp/router:" + strings.Replace(s.router, ":", "-", 1) + ".image"} {
		if there := s.at(t, tag); there != "" {
			t.Errorf("%s is there, and nothing was to be copied by then", tag)
		}
	}
	s.mirror.on.Store(nil)
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", s.secret), 0, "Copied 2 of 2 images", "is admitted", "all verified")
}

// TestInterruptedReview: what a review has not asked by Ctrl-C is no reason for a verdict, whatever the mode.
func TestInterruptedReview(t *testing.T) {
	for mode, last := range map[string]bool{"enforce": true, "warn": true, "audit": false} {
		t.Run(mode, func(t *testing.T) {
			s := newShop(t)
			nobody(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var put atomic.Int64
			stop := func(r *http.Request) {
				tagged := strings.HasSuffix(r.URL.Path, "/manifests/v1") || strings.HasSuffix(r.URL.Path, ".image")
				switch {
				case r.Method == http.MethodPut && tagged:
					put.Add(1)
				case !last || put.Load() == 2: // of two images, so that the next request is one of the last review
					cancel()
				}
			}
			s.mirror.on.Store(&stop)
			config := clitest.Written(t, "config.yaml", clitest.ConfigHeader+"mode: "+mode+"\n")
			args := []string{"sync", "--from", s.dump, "--allow-loopback", "-f", s.change, "--push-secret", s.secret, "--config", config}
			var out, err bytes.Buffer
			code := run(ctx, args, strings.NewReader(""), &out, &err)
			if want := "interrupted; the layers that arrived are kept, and the same command goes on from there"; code != 2 || !strings.Contains(err.String(), want) || strings.Contains(out.String(), "is admitted") || strings.Contains(out.String(), "is refused") {
				t.Errorf("exit code %d, want 2, %q, and no verdict\n%s%s", code, want, out.String(), err.String())
			}
			if n := put.Load(); last && n != 2 {
				t.Errorf("%d images were copied, want 2", n)
			}
		})
	}
}

// TestDriftedTag: a tag that names another image than the one that runs is moved only if that is asked for.
func TestDriftedTag(t *testing.T) {
	s := newShop(t)
	nobody(t)
	drifted, other := newImage(t, "a drifted cart")
	_, runs := newImage(t, "cart")
	s.pushToMirror(t, "team/shop/cart:v1", drifted)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart-1}
spec: {nodeName: a, containers: [{name: app, image: %[1]q}]}
status: {phase: Running, containerStatuses: [{name: app, image: %[1]q, imageID: %[2]q}]}
`, s.source.host+"/shop/cart:v1", s.source.host+"/shop/cart@"+runs))
	stays := s.sync(t, "-f", s.change, "--push-secret", s.secret)
	wantCode(t, stays, 0, "Copied 1 of 1 image", "TagDrift", "Not copied: "+s.source.host+"/shop/cart:v1: the tag names another image at "+s.mirror.host+"/team/shop/cart:v1; --move-tags moves it")
	if there := s.at(t, "team/shop/cart:v1"); there != other {
		t.Errorf("the tag names %s, want %s as before", there, other)
	}
	moved := s.sync(t, "-f", s.change, "--push-secret", s.secret, "--move-tags")
	wantCode(t, moved, 0, "Copied 1 of 1 image", "all verified")
	if there := s.at(t, "team/shop/cart:v1"); there != runs || strings.Contains(moved.Out, "TagDrift") {
		t.Errorf("the tag names %s, want %s\n%s", there, runs, moved.Out)
	}
}

// TestProgressLines: the line that is written every 10 s has the rate and the time that is left.
func TestProgressLines(t *testing.T) {
	registries.Need(t) // the one in this process takes one blob at a time
	s := newShop(t)
	s.source.held = make(chan struct{})
	client := registry.NewClient(wire.Options{AllowLoopback: true}, nil)
	defer client.Close()
	secret, err := os.ReadFile(s.secret)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := pullsecret.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	push := client.With(credentials)
	defer push.Close()
	var log bytes.Buffer
	var lines []string
	d := &display{log: &log, started: time.Now()}
	copier := copying.New(client, push, copying.Options{Images: 1, On: func(j *copying.Job) {
		d.on(j)
		if j.State == copying.Copied {
			log.Reset()
			d.show()
			lines = append(lines, log.String())
		}
	}})
	at := func(host, path string) mirrors.Location {
		return mirrors.Location{Ref: host + "/" + path, Insecure: true}
	}
	copies := []policy.Copy{
		{From: []mirrors.Location{at(s.source.host, "shop/cart:v1")}, To: at(s.mirror.host, "team/shop/cart:v1")},
		{From: []mirrors.Location{at(s.source.host, "ocp/router:v1")}, To: at(s.mirror.host, "ocp/router:v1")},
	}
	copier.Copy(t.Context(), copies, func(jobs []*copying.Job) {
		d.plan(jobs)
		close(s.source.held)
	})
	const size = `[0-9.]+ [KM]?i?B`
	for i, want := range []string{
		"^1 of 2 images, " + size + " of " + size + ", " + size + "/s, [0-9hms]+ left\n$",
		"^2 of 2 images, " + size + " of " + size + ", " + size + "/s\n$",
	} {
		if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("there is no %q in %q", want, lines)
		}
	}
}
