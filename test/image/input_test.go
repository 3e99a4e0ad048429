package image

import (
	"crypto/elliptic"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// TestBadInput: each mistake is told with the field and the value, and nothing is built or pushed.
func TestBadInput(t *testing.T) {
	skip.UnlessIntegration(t)
	b := newBuilder(t).toy(t)
	key, public := newKey(t)
	wide, _ := newKeyOf(t, elliptic.P384())
	encrypted := filepath.Join(t.TempDir(), "cosign.key")
	writeFile(t, encrypted, "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJ9\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
	noPEM := filepath.Join(t.TempDir(), "key")
	writeFile(t, noPEM, "secret")
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/guard"
	tag := repository + ":v1"
	digest := repository + "@sha256:" + strings.Repeat("0", 64)

	for _, tc := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"no version", []string{"-version", "latest"}, `version: "latest": neither a version, such as v0.1.0, nor a commit, nor devel`},
		{"a version that adds flags for the linker", []string{"-version", "v1.0.0 -X main.x=y"}, `version: "v1.0.0 -X main.x=y": neither a version, such as v0.1.0, nor a commit, nor devel`},
		{"a commit is released", []string{"-release", "-kubectl", "go", "-image", repository, "-version", "0123abc"}, `version: "0123abc": not the version of a release, such as v0.1.0 or v0.2.0-rc.1`},
		{"uncommitted changes are released", []string{"-release", "-kubectl", "go", "-image", repository, "-version", "v0.1.0-dirty"}, `version: "v0.1.0-dirty": not the version of a release, such as v0.1.0 or v0.2.0-rc.1`},
		{"an unknown platform", []string{"-platforms", "linux/amd64,linux/mips"}, `platforms: "linux/amd64,linux/mips": "linux/mips" is not one of linux/amd64,linux/arm64,linux/ppc64le,linux/s390x`},
		{"a platform twice", []string{"-platforms", "linux/amd64,linux/amd64"}, `platforms: "linux/amd64,linux/amd64": linux/amd64 is listed twice`},
		{"CAs without one", []string{"-ca-bundle", noPEM}, `ca-bundle: "` + noPEM + `": no certificate is in it`},
		{"a digest where a tag is due", []string{"-push", digest}, `push: "` + digest + `": want REGISTRY/NAME:TAG, and no digest: it follows from what is built`},
		{"no tag", []string{"-push", repository}, `push: "` + repository + `": want REGISTRY/NAME:TAG: tag must be between 1 and 128 characters in length: `},
		{"no registry", []string{"-push", "guard:v1"}, `push: "guard:v1": want REGISTRY/NAME:TAG: strict validation requires the registry to be explicitly defined`},
		{"nothing to sign", []string{"-key", key}, `key: "` + key + `": a signature says under which name the image is pushed, and push is not set`},
		{"no key", []string{"-push", tag, "-key", noPEM}, `key: "` + noPEM + `": no private key: it is not PEM`},
		{"the public half", []string{"-push", tag, "-key", public}, `key: "` + public + `": want the PEM block PRIVATE KEY or EC PRIVATE KEY, found PUBLIC KEY`},
		{"an encrypted key", []string{"-push", tag, "-key", encrypted}, `key: "` + encrypted + `": want the PEM block PRIVATE KEY or EC PRIVATE KEY, found ENCRYPTED SIGSTORE PRIVATE KEY`},
		{"another curve", []string{"-push", tag, "-key", wide}, `key: "` + wide + `": not an ECDSA key of curve P-256`},
		{"a tag where a digest is due", []string{"-release", "-kubectl", "go", "-version", "v0.1.0", "-image", tag}, `image: "` + tag + `": the tag v1 is where a digest is due: give REGISTRY/NAME or REGISTRY/NAME@DIGEST`},
		{"a release without the image", []string{"-release", "-kubectl", "go", "-version", "v0.1.0"}, `image: "": install.yaml needs the image by digest: give REGISTRY/NAME, or push`},
		{"no kubectl", []string{"-release", "-version", "v0.1.0", "-image", repository, "-kubectl", "/nowhere/kubectl"}, `kubectl: "/nowhere/kubectl": exec: "/nowhere/kubectl": stat /nowhere/kubectl: no such file or directory`},
		{"an image without a release", []string{"-image", repository}, `image: "` + repository + `": only a release has an install.yaml to run it`},
		{"two mistakes", []string{"-version", "1", "-platforms", ""}, "version: \"1\": neither a version, such as v0.1.0, nor a commit, nor devel\nplatforms: \"\": \"\" is not one of linux/amd64,linux/arm64,linux/ppc64le,linux/s390x"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "dist")
			_, err := b.run(t, append([]string{"-out", out}, tc.args...)...)
			if want := strings.TrimSpace("tools/image: " + tc.want); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("something was written: %v", err)
			}
			if n := asked.Load(); n > 0 {
				t.Errorf("the registry was asked %d times", n)
			}
		})
	}
}

// TestRefusedPush: wherever a registry begins to refuse, the error says so, and there is no tag. Pushing
// again then does the rest.
func TestRefusedPush(t *testing.T) {
	skip.UnlessIntegration(t)
	b := newBuilder(t).toy(t)
	key, _ := newKey(t)
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var accepted atomic.Int32 // blobs and manifests before the others are refused
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && accepted.Add(-1) < 0 {
			http.Error(w, `{"errors":[{"code":"DENIED","message":"the quota is used up"}]}`, http.StatusForbidden)
			return
		}
		content.ServeHTTP(w, r)
	}))
	defer server.Close()
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/team/guard:v1")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	refused := 0
	// What is there is not pushed again: each time one more gets through.
	for ; ; refused++ {
		accepted.Store(1)
		_, err := b.run(t, "-version", "v1.0.0", "-platforms", "linux/amd64", "-out", out, "-push", tag.Name(), "-key", key)
		head, noTag := remote.Head(tag)
		if err == nil {
			if noTag != nil {
				t.Errorf("it was pushed, and there is no tag: %v", noTag)
			}
			break
		}
		if noTag == nil {
			t.Errorf("refused (%v), and the tag is %s", err, head.Digest)
		}
		if prefix := `tools/image: push: "` + tag.Name() + `": `; !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), "the quota is used up") {
			t.Errorf("got %v, want %s... and the registry's reason", err, prefix)
		}
		if refused > 60 {
			t.Fatal("the push never ends")
		}
	}
	if refused < 8 {
		t.Errorf("it was refused %d times only: the image, its part, the SBOM, two signatures and their blobs are more", refused)
	}
}

// TestSignedTwice: a signature does not displace those that are there, by another key and for another
// tag, and is not added a second time. The registry wants the credentials of docker login.
func TestSignedTwice(t *testing.T) {
	skip.UnlessIntegration(t)
	b := newBuilder(t).toy(t)
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "user" || password != "pass" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	repository := host + "/team/guard"
	n := newNode(t, "linux/amd64")
	login := t.TempDir()
	n.authFile = filepath.Join(login, "config.json")
	writeFile(t, n.authFile, fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("user:pass"))))
	t.Setenv("DOCKER_CONFIG", login)
	first, firstPublic := newKey(t)
	second, secondPublic := newKey(t)
	push := func(tag, key string) name.Digest {
		pushed := b.must(t, "-version", "v1.0.0", "-platforms", "linux/amd64", "-out", t.TempDir(), "-push", repository+":"+tag, "-key", key)
		digest, err := name.NewDigest(pushed)
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	digest := push("v1.0.0", first)
	push("v1.0.0", first)
	push("stable", second)
	for tag, key := range map[string]string{"v1.0.0": firstPublic, "stable": secondPublic} {
		if refused := n.pull(t, repository+":"+tag, key); refused != "" {
			t.Errorf("%s: %s", tag, refused)
		}
	}
	signatures, err := remote.Image(digest.Tag(strings.Replace(digest.DigestStr(), ":", "-", 1)+".sig"), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		t.Fatal(err)
	}
	if layers, err := signatures.Layers(); err != nil || len(layers) != 2 {
		t.Errorf("there are %d signatures (%v), want 2", len(layers), err)
	}
}
