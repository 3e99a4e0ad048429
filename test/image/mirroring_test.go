package image

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// copies are what a script copies: to what, by what.
var copies = regexp.MustCompile(`(?m)^(?:oc image mirror .*?|skopeo copy .*?docker://)([^ ]+)[ =]"(?:docker://)?\$to:([^"]+)"$`)

// TestMirroring: with what a signed release has for it, skopeo copies the image and all its signatures to
// another registry, unchanged. The lines for oc copy the same, and the image set names it.
func TestMirroring(t *testing.T) {
	registries.Need(t)
	assets, err := repo.Assets()
	if err != nil {
		skip.Now(t, err)
	}
	b := newBuilder(t).toy(t)
	b.addReleased(t)
	source, mirror := startRegistry(t), startRegistry(t)
	key, _ := newKey(t)
	out := t.TempDir()
	tag := source + "/team/mirrorset-guard:" + version
	pushed := b.must(t, "-release", "-version", version, "-platforms", "linux/amd64,linux/arm64", "-push", tag, "-key", key, "-kubectl", filepath.Join(assets, "kubectl"), "-out", out)
	pushed, _, _ = strings.Cut(pushed, "\n") // the image comes first
	digest := mustDigest(t, pushed)
	release := filepath.Join(out, "release")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(release, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	var set struct {
		Mirror struct{ AdditionalImages []struct{ Name string } }
	}
	if err := yaml.Unmarshal([]byte(read("imageset-config.yaml")), &set); err != nil || len(set.Mirror.AdditionalImages) != 1 || set.Mirror.AdditionalImages[0].Name != pushed {
		t.Errorf("the image set has %+v, want %s: %v", set, pushed, err)
	}
	byOC, bySkopeo := copies.FindAllStringSubmatch(read("mirror-with-oc.sh"), -1), copies.FindAllStringSubmatch(read("mirror-with-skopeo.sh"), -1)
	if len(bySkopeo) != 4 || len(byOC) != 4 { // the image, and signatures of it and of both platforms
		t.Fatalf("skopeo copies %d, oc copies %d", len(bySkopeo), len(byOC))
	}
	for i := range byOC {
		if byOC[i][1] != bySkopeo[i][1] || byOC[i][2] != bySkopeo[i][2] {
			t.Errorf("oc copies %s, skopeo %s", byOC[i][1:], bySkopeo[i][1:])
		}
	}

	to := mirror + "/cluster/guard"
	file := filepath.Join(release, "mirror-with-skopeo.sh")
	if isOld(t) {
		file = withoutImage(t, read("mirror-with-skopeo.sh"), digest, to)
	}
	cmd := exec.CommandContext(t.Context(), "sh", file, to)
	cmd.Env = append(os.Environ(), "HOME="+trusting(t, source, mirror))
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if !strings.HasSuffix(string(output), "use it as "+to+"@"+digest.DigestStr()+"\n") {
		t.Errorf("it ends with\n%s", output)
	}
	for _, copied := range bySkopeo {
		want, got := head(t, copied[1]), head(t, to+":"+copied[2])
		if want != got {
			t.Errorf("%s: %s at the mirror, %s at the source", copied[2], got, want)
		}
	}
	archive := filepath.Join(release, "mirrorset-guard_"+version+"_image.tar")
	raw, err := exec.CommandContext(t.Context(), "skopeo", "inspect", "--raw", "oci-archive:"+archive+":"+version).Output()
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(raw)); err != nil || sum != digest.DigestStr() {
		t.Errorf("the archive holds %s: %v", sum, err)
	}
	if cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(release, "mirror-with-skopeo.sh")); cmd.Run() == nil {
		t.Error("it copies to nowhere")
	}
}

// isOld reports whether skopeo is one that writes every index anew, and then finds that it may not: that of
// Debian 12.
func isOld(t *testing.T) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "skopeo", "--version").Output()
	if err != nil {
		skip.Now(t, fmt.Errorf("skopeo is not installed: %w", err))
	}
	return strings.HasPrefix(string(out), "skopeo version 1.9.")
}

// withoutImage copies the image itself, and returns a file with the rest of a script.
func withoutImage(t *testing.T, script string, digest name.Digest, to string) string {
	t.Helper()
	t.Log("this skopeo cannot copy the image; the test does, and skopeo copies the signatures")
	index, err := remote.Index(digest)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(to + ":" + version)
	if err == nil {
		err = remote.WriteIndex(tag, index)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rest.sh")
	writeFile(t, file, regexp.MustCompile(`(?m)^skopeo copy --all .*\n`).ReplaceAllString(script, ""))
	return file
}

func startRegistry(t *testing.T) (address string) {
	t.Helper()
	p, err := registries.StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p.Addr
}

// trusting returns a home in which registries without TLS are configured, and every image is accepted.
func trusting(t *testing.T, registries ...string) string {
	t.Helper()
	home := t.TempDir()
	var conf strings.Builder
	for _, r := range registries {
		fmt.Fprintf(&conf, "[[registry]]\nlocation = %q\ninsecure = true\n", r)
	}
	writeFile(t, filepath.Join(home, ".config", "containers", "registries.conf"), conf.String())
	writeFile(t, filepath.Join(home, ".config", "containers", "policy.json"), `{"default": [{"type": "insecureAcceptAnything"}]}`)
	return home
}

func mustDigest(t *testing.T, reference string) name.Digest {
	t.Helper()
	digest, err := name.NewDigest(reference)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// head returns the digest of what a registry has under a reference.
func head(t *testing.T, reference string) string {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	descriptor, err := remote.Head(ref)
	if err != nil {
		t.Errorf("%s: %v", reference, err)
		return ""
	}
	return descriptor.Digest.String()
}
