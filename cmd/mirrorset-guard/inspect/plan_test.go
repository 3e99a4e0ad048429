package inspect

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// plainRegistry starts a registry without TLS, and returns its address.
func plainRegistry(t *testing.T) string {
	t.Helper()
	return registries.Run(t).Addr
}

// A plainHouse is a mirrorHouse whose registries have no TLS, so that skopeo reaches them by their names.
type plainHouse struct {
	mirrorHouse
	source, mirror string
	// uploads counts the requests that send blobs to the mirror.
	uploads *atomic.Int64
}

func newPlainHouse(t *testing.T) plainHouse {
	t.Helper()
	h := plainHouse{source: plainRegistry(t), uploads: &atomic.Int64{}}
	proxy := httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0)}
	mirror := &url.URL{Scheme: "http", Host: plainRegistry(t)}
	proxy.Rewrite = func(r *httputil.ProxyRequest) { r.SetURL(mirror); r.Out.Host = r.In.Host }
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch || r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/uploads/") {
			h.uploads.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	h.mirror = strings.TrimPrefix(front.URL, "http://")
	cart, err := registries.Image("cart")
	signed, otherErr := registries.Image("signed")
	index, indexErr := registries.Index("pay")
	if err := errors.Join(err, otherErr, indexErr); err != nil {
		t.Fatal(err)
	}
	index = mutate.IndexMediaType(index, types.DockerManifestList) // old versions of skopeo convert what is mixed
	indexHash, err := index.Digest()
	signedHash, otherErr := signed.Digest()
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	h.pay, h.signed = indexHash.String(), signedHash.String()
	pushTo(t, h.source+"/shop/cart:v1", cart)
	pushTo(t, h.source+"/safe/signed:v1", signed)
	tag, err := imagename.NewTag(h.source+"/shop/pay:v1", imagename.Insecure)
	if err == nil {
		err = remote.WriteIndex(tag, index)
	}
	attached, otherErr := registries.NewAttached(signer.Attach(signer.Key("release").Sign(h.source+"/safe/signed:v1", h.signed)))
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	pushTo(t, h.source+"/safe/signed:"+signer.Tag(h.signed), attached)
	hosts := strings.NewReplacer("quay.io", h.source, house, h.mirror)
	h.dump = clitest.Written(t, "cluster.yaml", hosts.Replace(h.cluster())+fmt.Sprintf("---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {registrySources: {insecureRegistries: [%q, %q]}}\n", h.source, h.mirror))
	h.change = clitest.Written(t, "change.yaml", hosts.Replace(houseMirrors))
	h.flags = []string{"--allow-loopback"}
	return h
}

// skopeoFolder returns a folder with a skopeo that takes images from anywhere.
func skopeoFolder(t *testing.T) string {
	t.Helper()
	skip.UnlessIntegration(t)
	skopeo, err := exec.LookPath("skopeo")
	if err != nil {
		skip.Now(t, fmt.Errorf("skopeo is not installed: %w", err))
	}
	policy := clitest.Written(t, "policy.json", `{"default":[{"type":"insecureAcceptAnything"}]}`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "skopeo"), fmt.Appendf(nil, "#!/bin/sh\nexec %s --policy %s \"$@\"\n", skopeo, policy), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPlanCarriedOut: a shell runs what plan prints, with the real skopeo against real registries; the
// change is then admitted, signatures included, and nothing is missing.
func TestPlanCarriedOut(t *testing.T) {
	path := skopeoFolder(t)
	h := newPlainHouse(t)
	if got := h.check(t, nil); got.Code != cli.ExitDenied {
		t.Fatalf("the mirror is empty, and the exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	plan := h.plan(t, nil, "--missing")
	if plan.Code != cli.ExitAdmitted || !strings.Contains(plan.Out, "3 images and 1 signature") {
		t.Fatalf("exit code %d\n%s%s", plan.Code, plan.Out, plan.Err)
	}
	carryOut := func(time string) {
		cmd := exec.CommandContext(t.Context(), "sh", "-e")
		cmd.Stdin = strings.NewReader(plan.Out)
		cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the %s time: %v: %s\n%s", time, err, out, plan.Out)
		}
		if n := h.uploads.Swap(0); (n > 0) != (time == "first") {
			t.Errorf("the %s time, %d requests sent blobs", time, n)
		}
	}
	carryOut("first")
	carryOut("second") // it may be run again
	if got := h.check(t, nil); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "all verified") {
		t.Errorf("after the plan: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := h.plan(t, nil, "--missing"); !strings.Contains(got.Out, "0 images and 0 signatures") {
		t.Errorf("something is missing after the plan:\n%s%s", got.Out, got.Err)
	}
	if got := h.plan(t, nil); !strings.Contains(got.Out, "3 images and 1 signature") {
		t.Errorf("the whole plan is not what was copied:\n%s%s", got.Out, got.Err)
	}
	caches := clitest.Written(t, "guard.yaml", "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\ncaches: ["+h.mirror+"]\n")
	if plan = h.plan(t, nil, "--config", caches); !strings.Contains(plan.Out, "0 images and 0 signatures, and 3 images through a cache") {
		t.Errorf("something is copied to a cache:\n%s%s", plan.Out, plan.Err)
	}
	carryOut("third")
	if got := h.plan(t, nil, "-o", "mapping", "--config", caches); strings.Count(got.Out, ": pull it once through the cache: ") != 3 || strings.Contains(got.Out, "="+h.mirror) {
		t.Errorf("a mapping copies to a cache:\n%s%s", got.Out, got.Err)
	}
}

// TestPlanOfAFailure: a script that cannot copy one image copies the others, and fails. Without its signature an image is not copied: nodes would stop at
// the mirror, and get it from its source today.
func TestPlanOfAFailure(t *testing.T) {
	path := skopeoFolder(t)
	for spoilt, missing := range map[string]string{"an image": "1 image and 0 signatures", "a signature": "1 image and 1 signature"} {
		h := newPlainHouse(t)
		old, by := h.source+"/shop/pay@", h.source+"/shop/none@"
		if spoilt == "a signature" {
			old, by = h.source+"/safe/signed:"+signer.Tag(h.signed), h.source+"/safe/none:v1"
		}
		cmd := exec.CommandContext(t.Context(), "sh")
		cmd.Stdin = strings.NewReader(strings.Replace(h.plan(t, nil, "--missing").Out, old, by, 1))
		cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if spoilt == "an image" && (err == nil || !strings.Contains(string(out), "1 not copied")) {
			t.Errorf("%v: %s", err, out)
		}
		if got := h.plan(t, nil, "--missing"); !strings.Contains(got.Out, missing) || strings.Contains(got.Out, "/safe/signed@") != (spoilt == "a signature") {
			t.Errorf("%s: what is missing is not %s:\n%s\n%s", spoilt, missing, got.Out, out)
		}
	}
}

// TestPlanAsAMapping: what plan -o mapping prints is read back as what has been done. A tag is copied as it was judged, by its digest.
func TestPlanAsAMapping(t *testing.T) {
	h := newMirrorHouse(t)
	plan := h.plan(t, nil, "-o", "mapping", "--missing")
	want := fmt.Sprintf(`# 3 images and 1 signature. Run: oc image mirror --keep-manifest-list=true --filter-by-os='.*' -f FILE
quay.io/safe/signed:%[3]s=%[5]s/safe/signed:%[3]s
quay.io/safe/signed@%[1]s=%[5]s/safe/signed:%[2]s
`, h.signed, h.signed[7:], signer.Tag(h.signed), "", house)
	if plan.Code != cli.ExitAdmitted || !strings.HasPrefix(plan.Out, want) || !strings.Contains(plan.Out, "quay.io/shop/cart@sha256:") {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", plan.Code, plan.Out, plan.Err, want)
	}
	if got := h.check(t, strings.Split(strings.TrimSpace(plan.Out), "\n")); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "all assumed") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	h.Set("quay.io", registries.Unavailable)
	if got := h.plan(t, nil, "-o", "mapping"); got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "not all could be determined") {
		t.Errorf("a source that does not answer: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// TestMappingForOC: a mapping is as oc image mirror -f wants it: one SOURCE=DESTINATION without spaces a line, a tag or digest at each source, and no
// destination twice, also where an image is pulled by its tag and by its digest. Registries without TLS need a flag.
func TestMappingForOC(t *testing.T) {
	h := newPlainHouse(t)
	tagged := strings.ReplaceAll("---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {namespace: shop, name: signed}\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: app, image: 'quay.io/safe/signed:v1'}]}}}}}\n", "quay.io", h.source)
	dump, err := os.ReadFile(h.dump)
	if err != nil {
		t.Fatal(err)
	}
	change, err := os.ReadFile(h.change)
	if err != nil {
		t.Fatal(err)
	}
	h.dump = clitest.Written(t, "cluster.yaml", string(dump)+tagged)
	h.change = clitest.Written(t, "change.yaml", string(change)+fmt.Sprintf("---\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: safe}\nspec: {imageTagMirrors: [{source: %q, mirrors: [%q]}]}\n", h.source+"/safe", h.mirror+"/safe"))
	plan := h.plan(t, nil, "-o", "mapping", "--missing")
	if plan.Code != cli.ExitAdmitted || !strings.HasPrefix(plan.Out, "# 4 images and 1 signature. Run: oc image mirror --insecure=true --keep-manifest-list=true ") {
		t.Errorf("exit code %d\n%s%s", plan.Code, plan.Out, plan.Err)
	}
	destinations := map[string]bool{}
	for _, line := range strings.Split(plan.Out, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		source, destination, found := strings.Cut(line, "=")
		from, err := imagename.ParseReference(source, imagename.StrictValidation)
		to, otherErr := imagename.NewTag(destination, imagename.StrictValidation)
		if !found || strings.ContainsAny(line, " \t") || errors.Join(err, otherErr) != nil || from.Context().RegistryStr() != h.source || to.RegistryStr() != h.mirror {
			t.Errorf("%q: %v, %v", line, err, otherErr)
		}
		if destinations[destination] {
			t.Errorf("%s is written twice:\n%s", destination, plan.Out)
		}
		destinations[destination] = true
	}
	if len(destinations) != 5 {
		t.Errorf("%d lines, want 5\n%s", len(destinations), plan.Out)
	}
	imageset := h.plan(t, nil, "-o", "imageset", "--missing")
	if want := "--workspace file://WORKSPACE --src-tls-verify=false --dest-tls-verify=false docker://" + h.mirror; !strings.Contains(imageset.Out, want) {
		t.Errorf("no %q in\n%s%s", want, imageset.Out, imageset.Err)
	}
}

// TestPlanOfADriftedTag: no plan moves a tag of the mirror that names another image, whether something runs by it or not.
func TestPlanOfADriftedTag(t *testing.T) {
	h := newMirrorHouse(t)
	h.pushCart(t, house+"/a/b/shop/cart:v1", "another cart")
	cart, err := registries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := cart.Digest()
	if err != nil {
		t.Fatal(err)
	}
	idle := h.cluster()
	runs := idle + fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: cart-1}\nspec: {nodeName: a, containers: [{name: app, image: 'quay.io/shop/cart:v1'}]}\nstatus: {phase: Running, containerStatuses: [{name: app, image: 'quay.io/shop/cart:v1', imageID: 'quay.io/shop/cart@%s'}]}\n", digest)
	for cluster, plans := range map[string][]string{idle: {"-o"}, runs: {"--missing", "-o"}} {
		h.dump = clitest.Written(t, "cluster.yaml", cluster)
		for _, format := range []string{"sh", "mapping", "imageset"} {
			got := h.plan(t, nil, append(plans, format)...)
			want := "# Not copied: quay.io/shop/cart:v1: the tag names another image at " + house + "/a/b/shop/cart:v1; mirrorset-guard sync with --move-tags moves it\n"
			if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, want) || strings.Contains(strings.Replace(got.Out, want, "", 1), "shop/cart") || !strings.Contains(got.Out, "shop/pay") {
				t.Errorf("%s: exit code %d\n%s%s", format, got.Code, got.Out, got.Err)
			}
		}
	}
}

// TestPlanForADenyingMirror: some registries deny what they do not have, so that it is in the plan.
func TestPlanForADenyingMirror(t *testing.T) {
	h := newMirrorHouse(t)
	h.change = clitest.Written(t, "change.yaml", strings.ReplaceAll(houseMirrors, `shop"]`, `shop"], mirrorSourcePolicy: NeverContactSource`))
	h.Set(house, registries.Denied)
	got := h.plan(t, nil, "--missing")
	note := "# Note: what is there is not known, and copied all the same: add credentials for " + house
	if got.Code != cli.ExitAdmitted || strings.Count(got.Out, note) != 1 || !strings.Contains(got.Out, "docker://"+house+"/a/b/shop/cart:v1\n") || !strings.Contains(got.Out, "docker://"+house+"/a/b/shop/pay@") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// TestPlanOnAssumptions: a plan that leaves out what is assumed to be there says so.
func TestPlanOnAssumptions(t *testing.T) {
	h := newMirrorHouse(t)
	for _, format := range []string{"sh", "mapping", "imageset"} {
		got := h.plan(t, h.mapping()[1:], "--missing", "-o", format)
		want := "mapping.txt has not been carried out: what it copies (3 lines) is assumed to be where it copies it to"
		if at := strings.Index(got.Out, "# Note: "); got.Code != cli.ExitAdmitted || at < 0 || !strings.Contains(got.Out[at:], want) || strings.Contains(got.Out, "shop/pay") || !strings.Contains(got.Out, "shop/cart") {
			t.Errorf("%s: exit code %d\n%s%s", format, got.Code, got.Out, got.Err)
		}
	}
}

// TestPlanAsAnImageSet: the destination is what the mirrors' paths have in common.
func TestPlanAsAnImageSet(t *testing.T) {
	h := newMirrorHouse(t)
	got := h.plan(t, nil, "-o", "imageset")
	cart, err := registries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := cart.Digest()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`apiVersion: mirror.openshift.io/v2alpha1
kind: ImageSetConfiguration
mirror:
  additionalImages:
  - name: quay.io/safe/signed@%s
  - name: quay.io/shop/cart:v1@%s
    targetRepo: a/b/shop/cart
  - name: quay.io/shop/pay@%s
    targetRepo: a/b/shop/pay
`, h.signed, digest, h.pay)
	if got.Code != cli.ExitAdmitted || !strings.HasSuffix(got.Out, want) || !strings.Contains(got.Out, "--workspace file://WORKSPACE docker://"+house+"\n") {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", got.Code, got.Out, got.Err, want)
	}
}
