package inspect

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// A mirrorHouse is a cluster whose images are at their sources, with a registry for mirrors that may be
// empty.
type mirrorHouse struct {
	*registries.Front
	dump, change string // files
	flags        []string
	// cart is a tag, pay an index by its digest, and signed an image by its digest that has to be signed.
	pay, payAMD, signed string
}

const house = "mirror.example.com:8443"

func newMirrorHouse(t *testing.T) mirrorHouse {
	t.Helper()
	h := mirrorHouse{Front: registries.Start(t)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	index, err := registries.Index("pay")
	must(err)
	hash, err := index.Digest()
	must(err)
	manifest, err := index.IndexManifest()
	must(err)
	signed, err := registries.Image("signed")
	must(err)
	signedHash, err := signed.Digest()
	must(err)
	h.pay, h.payAMD, h.signed = hash.String(), manifest.Manifests[0].Digest.String(), signedHash.String()
	h.pushCart(t, "quay.io/shop/cart:v1", "cart")
	must(h.PushIndex("quay.io/shop/pay:v1", index))
	must(h.Push("quay.io/safe/signed:v1", signed))
	must(h.PushSignatures("quay.io/safe/signed:"+signer.Tag(h.signed), signer.Key("release").Sign("quay.io/safe/signed:v1", h.signed)))
	h.dump = clitest.Written(t, "cluster.yaml", h.cluster())
	h.change = clitest.Written(t, "change.yaml", houseMirrors)
	h.flags = []string{"--registry-ca", clitest.Written(t, "ca.pem", string(h.CA)), "--allow-loopback"}
	for _, host := range []string{"quay.io", house, "other.example.com"} {
		h.flags = append(h.flags, "--resolve", host+"="+h.Addr("any"))
	}
	return h
}

func (h *mirrorHouse) pushCart(t *testing.T, ref, name string) {
	t.Helper()
	img, err := registries.Image(name)
	if err == nil {
		err = h.Push(ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *mirrorHouse) cluster() string {
	pod := func(name, image string) string {
		return fmt.Sprintf("---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: shop, name: %s}\nspec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: app, image: %q}]}}}\n", name, image)
	}
	return `apiVersion: v1
kind: Node
metadata: {name: a}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {nodeInfo: {operatingSystem: linux, architecture: arm64}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: e30=}
---
apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: signed}
spec:
  scopes: [quay.io/safe]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: ` + base64.StdEncoding.EncodeToString(signer.Key("release").PEM()) + `}}}
` + pod("cart", "quay.io/shop/cart:v1") + pod("pay", "quay.io/shop/pay@"+h.pay) + pod("signed", "quay.io/safe/signed@"+h.signed) +
		"---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: shop, name: default}\n"
}

const houseMirrors = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: tags}
spec: {imageTagMirrors: [{source: quay.io/shop, mirrors: ["mirror.example.com:8443/a/b/shop"]}]}
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: digests}
spec: {imageDigestMirrors: [{source: quay.io/shop, mirrors: ["mirror.example.com:8443/a/b/shop"]}, {source: quay.io/safe, mirrors: ["mirror.example.com:8443/safe"]}]}
`

// mapping returns the lines that copy all that the cluster needs, in oc-mirror's words.
func (h *mirrorHouse) mapping() []string {
	return []string{
		"docker://quay.io/shop/cart:v1=docker://" + house + "/a/b/shop/cart:v1",
		"docker://quay.io/shop/pay@" + h.pay + "=docker://" + house + "/a/b/shop/pay:" + h.pay[7:],
		"docker://quay.io/safe/signed@" + h.signed + "=docker://" + house + "/safe/signed:v1",
		"quay.io/safe/signed:" + signer.Tag(h.signed) + "=" + house + "/safe/signed:" + signer.Tag(h.signed),
	}
}

func (h *mirrorHouse) check(t *testing.T, lines []string, args ...string) clitest.Outcome {
	t.Helper()
	return h.run(t, "check", lines, args...)
}

func (h *mirrorHouse) plan(t *testing.T, lines []string, args ...string) clitest.Outcome {
	t.Helper()
	return h.run(t, "plan", lines, args...)
}

func (h *mirrorHouse) run(t *testing.T, command string, lines []string, args ...string) clitest.Outcome {
	t.Helper()
	args = append([]string{command, "-f", h.change, "--from", h.dump}, append(args, h.flags...)...)
	if lines != nil {
		args = append(args, "--assume", clitest.Written(t, "mapping.txt", strings.Join(lines, "\n")+"\n"))
	}
	return invoke(t, "", args...)
}

// TestAssume: a change is judged as if a mapping had been carried out, images, their signatures and what the mirror has today. What will be at a place is
// shown by TestMirrored of package whatif.
func TestAssume(t *testing.T) {
	h := newMirrorHouse(t)
	all := h.mapping()
	for _, tt := range []struct {
		reason string
		lines  []string
		code   int
		want   string
	}{
		{"no mapping", nil, cli.ExitDenied, "ImageMissing"},
		{"everything is copied", all, cli.ExitAdmitted, "it reroutes 3 of 3 images, all assumed"},
		{"a tag is not copied", all[1:], cli.ExitDenied, "ImageMissing: no mirror on its new route has the image; only the source has it"},
		{"signatures are left behind", all[:3], cli.ExitDenied, "SignatureMissing: nodes require a signature of it, and where they would pull it there is none"},
		{"copied to a name that nothing has", []string{"quay.io/shop/cart:v1=" + house + "/b/shop/cart:v1"}, cli.ExitDenied, "copies it; images are missing at " + house + "/a/b/shop/cart (not " + house + "/b/shop/cart)"},
		{"only a part of an index", []string{all[0], strings.Replace(all[1], h.pay, h.payAMD, 1), all[2], all[3]}, cli.ExitDenied, "quay.io/shop/pay@" + h.pay},
	} {
		if got := h.check(t, tt.lines); got.Code != tt.code || !strings.Contains(got.Out, tt.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", tt.reason, got.Code, tt.code, tt.want, got.Out, got.Err)
		}
	}
	h.pushCart(t, house+"/a/b/shop/cart:v1", "cart")
	if got := h.check(t, all); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "2 assumed, 1 verified") {
		t.Errorf("what is there is verified: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// TestAssumedInEveryOutput: no output reads as if the image had been found.
func TestAssumedInEveryOutput(t *testing.T) {
	h := newMirrorHouse(t)
	for format, wants := range map[string][]string{
		"table":    {"all assumed", "\nAssumed, not found:\n- quay.io/safe/signed@" + h.signed + ":", "has not been carried out: what it copies (4 lines) is assumed to be where it copies it to"},
		"json":     {`"assumed": 3`, `mapping.txt, line 1, copies it from quay.io/shop/cart:v1"`, `"verified": 0`},
		"yaml":     {"assumed: 3", "assumed: /"},
		"junit":    {"Assumed: ", "line 1, copies it from quay.io/shop/cart:v1"},
		"markdown": {"all assumed", "<summary>Assumed, not found</summary>"},
		"html":     {"3 of 3 images, all assumed.", "<b>3</b> <span>assumed</span>", "? assumed<td>quay.io/shop/cart:v1", "has not been carried out: what it copies (4 lines) is assumed to be where it copies it to"},
		"sarif":    {`"invocations"`, `has not been carried out: what it copies (4 lines) is assumed to be where it copies it to`},
		"narrowed": {"# Assumed, not found: quay.io/shop/cart:v1: "},
	} {
		got := h.check(t, h.mapping(), "-o", format)
		for _, want := range wants {
			if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, want) {
				t.Errorf("%s: exit code %d, want %q\n%s%s", format, got.Code, want, got.Out, got.Err)
			}
		}
		if strings.Contains(got.Out, "all verified") {
			t.Errorf("%s says that all is verified:\n%s", format, got.Out)
		}
	}
}

// TestForeseenIsOnlyForCommands: neither the webhook nor the standing verification can rest on what has
// not been done.
func TestForeseenIsOnlyForCommands(t *testing.T) {
	const module = "github.com/mirrorset-guard/mirrorset-guard/"
	for _, root := range []string{"webhook", "review/standing", "cmd/mirrorset-guard/serve"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+root).Output()
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		if deps := string(out); !strings.Contains(deps, module+"review\n") || strings.Contains(deps, module+"review/whatif\n") {
			t.Errorf("%s does not know package review, or knows whatif", root)
		}
	}
}

// filled is a mirrorHouse whose mirror has all, and whose cluster pulls from it.
func filled(t *testing.T) mirrorHouse {
	t.Helper()
	h := newMirrorHouse(t)
	h.pushCart(t, house+"/a/b/shop/cart:v1", "cart")
	index, err := registries.Index("pay")
	if err == nil {
		err = h.PushIndex(house+"/a/b/shop/pay:"+keeping(h.pay), index)
	}
	signed, otherErr := registries.Image("signed")
	if err = errors.Join(err, otherErr); err == nil {
		err = errors.Join(h.Push(house+"/safe/signed:v1", signed), h.Push(house+"/safe/signed:"+keeping(h.signed), signed),
			h.PushSignatures(house+"/safe/signed:"+signer.Tag(h.signed), signer.Key("release").Sign("quay.io/safe/signed:v1", h.signed)))
	}
	if err != nil {
		t.Fatal(err)
	}
	h.pushCart(t, house+"/a/b/shop/cart:old", "an old cart")
	h.pushCart(t, house+"/a/b/shop/cart:older", "an older cart")
	h.pushCart(t, house+"/a/b/shop/cart:same", "cart")
	const done = "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: done}\nspec: {containers: [{name: app, image: 'quay.io/shop/cart:older'}]}\nstatus: {phase: Succeeded}\n"
	h.dump = clitest.Written(t, "filled.yaml", h.cluster()+done+"---\n"+strings.ReplaceAll(houseMirrors, `shop"]`, `shop"], mirrorSourcePolicy: NeverContactSource`))
	return h
}

// keeping is the tag that sync gives what it copies by digest.
func keeping(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".image" }

func (h *mirrorHouse) deletes(t *testing.T, list string, args ...string) clitest.Outcome {
	t.Helper()
	args = append([]string{"deletion", "--from", h.dump, clitest.Written(t, "delete-images.yaml", list)}, append(args, h.flags...)...)
	return invoke(t, "", args...)
}

// deleteItems is what oc mirror delete --generate writes.
func deleteItems(references ...string) string {
	list := "apiVersion: mirror.openshift.io/v2alpha1\nitems:\n"
	for _, r := range references {
		list += "- imageName: quay.io/any/image:v1\n  imageReference: docker://" + r + "\n  type: generic\n"
	}
	return list + "kind: DeleteImageList\n"
}

// TestDeletes: a deletion that has not happened, of all that nodes still pull.
func TestDeletes(t *testing.T) {
	h := filled(t)
	for _, tt := range []struct {
		reason, list string
		code         int
		wants        []string
	}{
		{"nothing that nodes pull", deleteItems(house+"/a/b/shop/cart:old", house+"/elsewhere/x:1"), cli.ExitAdmitted, []string{
			"takes nothing away from nodes of this cluster: they pull none of its 2 items", "\n1 item is in repositories from which no node of this cluster pulls",
		}},
		{"a tag that runs", deleteItems(house + "/a/b/shop/cart:v1"), cli.ExitDenied, []string{
			"is refused: of its 1 item, nodes of this cluster still pull 1", "used by Deployment shop/cart (app)", "NotFullySynced", "To do: leave out item 1 of ",
		}},
		{"another tag of its digest", deleteItems(house+"/a/b/shop/cart:old", house+"/a/b/shop/cart:same"), cli.ExitDenied, []string{
			"will be gone: item 2 of ", "(" + house + "/a/b/shop/cart:same) deletes it, as it is the same manifest",
		}},
		{"the digest behind the tag", house + "/a/b/shop/pay:" + keeping(h.pay) + "\n", cli.ExitDenied, []string{"quay.io/shop/pay@" + h.pay}},
		{"a part of an index that stays", house + "/a/b/shop/pay@" + h.payAMD + "\n", cli.ExitDenied, []string{
			"PlatformMissing", "linux/amd64", "Note: 1 index that stays lacks parts at the mirror",
		}},
		{"signatures alone", house + "/safe/signed:" + signer.Tag(h.signed) + "\n", cli.ExitDenied, []string{"SignatureMissing", "quay.io/safe/signed@" + h.signed}},
		{"an image that its source has", house + "/safe/signed:v1\n", cli.ExitDenied, []string{"ImageMissing: no mirror on its route has the image; only the source has it"}},
		{"what only history names", deleteItems(house + "/a/b/shop/cart:older"), cli.ExitAdmitted, []string{
			"breaks no pull of a node: of its 1 item, this cluster pulls 1, which nodes also get elsewhere, or do not need.", "Warnings:\n\n1. quay.io/shop/cart:older\n   used by Pod shop/done",
			"Pulled from there as well, without breaking:\n- " + house + "/a/b/shop/cart:older: item 1 takes the image; place 1 of the route of",
		}},
		{"the list of another mirror", deleteItems("other.example.com/a/b/shop/cart:v1"), cli.ExitAdmitted, []string{
			"no node of this cluster pulls from any repository of the list, which is of other.example.com: is it the list of another mirror",
			"Note: nodes pull from " + house + "/a/b/shop/cart (not other.example.com/a/b/shop/cart)",
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got := h.deletes(t, tt.list)
			for _, want := range tt.wants {
				if got.Code != tt.code || !strings.Contains(got.Out, want) {
					t.Errorf("exit code %d, want %d and %q\n%s%s", got.Code, tt.code, want, got.Out, got.Err)
				}
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		got := h.deletes(t, deleteItems(house+"/a/b/shop/cart:same"), "-o", "json")
		var doc v1alpha1.Deletion
		if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || doc.Allowed || len(doc.Needed) != 1 {
			t.Fatalf("%v: %s", err, got.Out)
		}
		n := doc.Needed[0]
		if n.Item != 1 || n.Reference != house+"/a/b/shop/cart:v1" || n.Place != 1 || n.Entry != "quay.io/shop" || n.Use != "referenced" || !n.Broken || n.Loses != "the image, as it is the same manifest" {
			t.Errorf("%+v", n)
		}
	})
	t.Run("in other formats", func(t *testing.T) {
		list := deleteItems(house+"/a/b/shop/cart:v1", house+"/a/b/shop/cart:older", house+"/elsewhere/x:1")
		for format, want := range map[string]string{"junit": `tests="3" failures="1"`, "markdown": "| deny | NotFullySynced | ` quay.io/shop/cart:v1 ` |"} {
			if got := h.deletes(t, list, "-o", format); got.Code != cli.ExitDenied || !strings.Contains(got.Out, want) {
				t.Errorf("exit code %d, want %q:\n%s%s", got.Code, want, got.Out, got.Err)
			}
		}
	})
	t.Run("where the source may be used", func(t *testing.T) {
		got := h.deletes(t, house+"/safe/signed:v1\n", "--config", clitest.Written(t, "config.yaml", clitest.ConfigHeader+"allowSourceFallback: true\n"))
		if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "Pulled from there as well, without breaking") {
			t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
		}
	})
	t.Run("a mirror that does not answer", func(t *testing.T) {
		h.Set(house, registries.Unavailable)
		defer h.Reset()
		got := h.deletes(t, house+"/a/b/shop/cart:same\n")
		if got.Code != cli.ExitDenied || !strings.Contains(got.Out, "is refused: it could not be determined whether nodes of this cluster pull any of its 1 item.") {
			t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
		}
	})
}

// TestDeletesForBuilds: what builds, imports and the integrated registry pull is judged by their own routes: a build has no
// NeverContactSource to heed, and waits for nobody's drain.
func TestDeletesForBuilds(t *testing.T) {
	h := filled(t)
	h.pushCart(t, house+"/a/b/shop/base:v1", "base")
	h.pushCart(t, house+"/a/b/shop/import:v1", "import")
	h.pushCart(t, "quay.io/shop/import:v1", "import")
	const builds = `---
apiVersion: build.openshift.io/v1
kind: BuildConfig
metadata: {namespace: shop, name: web}
spec: {strategy: {type: Docker, dockerStrategy: {from: {kind: DockerImage, name: 'quay.io/shop/base:v1'}}}}
---
apiVersion: build.openshift.io/v1
kind: BuildConfig
metadata: {namespace: shop, name: cart}
spec: {strategy: {type: Source, sourceStrategy: {from: {kind: DockerImage, name: 'quay.io/shop/cart:v1'}}}}
---
apiVersion: image.openshift.io/v1
kind: ImageStream
metadata: {namespace: shop, name: import}
spec: {tags: [{name: v1, from: {kind: DockerImage, name: 'quay.io/shop/import:v1'}, importPolicy: {scheduled: true}}]}
`
	h.dump = clitest.Written(t, "builds.yaml", h.cluster()+builds+"---\n"+strings.ReplaceAll(houseMirrors, `shop"]`, `shop"], mirrorSourcePolicy: NeverContactSource`))
	for _, tt := range []struct {
		reason, list string
		args         []string
		code         int
		wants        []string
	}{
		{"what only builds need", house + "/a/b/shop/base:v1\n", nil, cli.ExitAdmitted, []string{
			"breaks no pull of a node: of its 1 item, this cluster pulls 1", "Warnings:\n\n1. quay.io/shop/base:v1\n   used by BuildConfig shop/web", "BuildFails: builds get it from no place on its route",
			"To do: leave out item 1 of ", "by the entry quay.io/shop; for builds, used by BuildConfig shop/web",
		}},
		{"if that is to deny", house + "/a/b/shop/base:v1\n", []string{"--config", clitest.Written(t, "config.yaml", "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\nseverities: {BuildFails: deny}\n")}, cli.ExitDenied, []string{
			"is refused: of its 1 item, nodes of this cluster still pull 1",
		}},
		{"what builds and nodes need", house + "/a/b/shop/cart:v1\n", nil, cli.ExitDenied, []string{"used by Deployment shop/cart (app)", "NotFullySynced"}},
		{"what is imported, and the source has", house + "/a/b/shop/import:v1\n", nil, cli.ExitAdmitted, []string{
			"ImportFails: imports get it from the source only: no mirror has it", "for imports, used by ImageStream shop/import",
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got := h.deletes(t, tt.list, tt.args...)
			for _, want := range tt.wants {
				if got.Code != tt.code || !strings.Contains(got.Out, want) {
					t.Errorf("exit code %d, want %d and %q\n%s%s", got.Code, tt.code, want, got.Out, got.Err)
				}
			}
		})
	}
	kept := invoke(t, "", append([]string{"keep", "--from", h.dump, house, "-o", "refs"}, h.flags...)...)
	for _, want := range []string{"/a/b/shop/base:v1\n", "/a/b/shop/import:v1\n"} {
		if !strings.Contains(kept.Out, house+want) {
			t.Errorf("%s is not kept:\n%s%s", want, kept.Out, kept.Err)
		}
	}
}

// TestKeep: the list holds the signatures, and what it names may be deleted only with a refusal.
func TestKeep(t *testing.T) {
	h := filled(t)
	got := invoke(t, "", append([]string{"keep", "--from", h.dump, house, "-o", "refs"}, h.flags...)...)
	want := fmt.Sprintf(`# What a deletion below %[1]s has to spare: 7 references, indexes with their parts.
%[1]s/a/b/shop/cart:older
%[1]s/a/b/shop/cart:v1
%[1]s/a/b/shop/pay:%[5]s
%[1]s/a/b/shop/pay@%[2]s
%[1]s/safe/signed:%[6]s
%[1]s/safe/signed:%[4]s
%[1]s/safe/signed@%[3]s
`, house, h.pay, h.signed, signer.Tag(h.signed), keeping(h.pay), keeping(h.signed))
	if got.Code != cli.ExitAdmitted || got.Out != want {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", got.Code, got.Out, got.Err, want)
	}
	for _, line := range strings.Split(strings.TrimSpace(got.Out), "\n")[2:] { // all but the comment and what is history
		if refused := h.deletes(t, line+"\n"); refused.Code != cli.ExitDenied {
			t.Errorf("%s may be deleted:\n%s%s", line, refused.Out, refused.Err)
		}
	}
	h.Set(house, registries.Unavailable)
	if got := invoke(t, "", append([]string{"keep", "--from", h.dump, house}, h.flags...)...); got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "may not be complete: signatures of "+house+"/safe/signed@") {
		t.Errorf("signatures that are not known: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	h.Reset()
	whole, err := os.ReadFile(h.dump)
	if err != nil {
		t.Fatal(err)
	}
	const lacking = "---\n{apiVersion: mirrorset-guard.io/v1alpha1, kind: Lacking, resources: [], unsearched: [{source: tasks.tekton.dev, kind: '', detail: away}]}\n"
	h.dump = clitest.Written(t, "unsearched.yaml", string(whole)+lacking)
	h.dump = clitest.Written(t, "kept.json", invoke(t, "", "snapshot", "--from", h.dump).Out)
	got = invoke(t, "", append([]string{"keep", "--from", h.dump, house, "-o", "refs"}, h.flags...)...)
	if got.Code != cli.ExitTrouble || got.Out != "" || !strings.Contains(got.Err, "may not be complete: images named by tasks.tekton.dev: away") {
		t.Errorf("a kind that was not searched: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got = invoke(t, "", append([]string{"keep", "--from", h.dump, house}, h.flags...)...); strings.Count(got.Out, "tasks.tekton.dev: away") != 1 {
		t.Errorf("not said once:\n%s", got.Out)
	}
	if refused := h.deletes(t, house+"/a/b/shop/cart:old\n"); refused.Code != cli.ExitDenied || !strings.Contains(refused.Out, "tasks.tekton.dev: away") {
		t.Errorf("a kind that was not searched: exit code %d\n%s%s", refused.Code, refused.Out, refused.Err)
	}
}

// TestMirrorWhileStuck: MCO rejects the configuration of a dump without MachineConfigs, so that objects do not say from where nodes pull.
func TestMirrorWhileStuck(t *testing.T) {
	h := filled(t)
	whole, err := os.ReadFile(h.dump)
	if err != nil {
		t.Fatal(err)
	}
	for reason, object := range map[string]string{
		"the objects have routes": "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: other}\nspec: {imageDigestMirrors: [{source: quay.io/shop, mirrors: [" + house + "/a/b/shop], mirrorSourcePolicy: AllowContactingSource}]}\n",
		"the objects have none":   "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: wild}\nspec: {imageTagMirrors: [{source: '*.example.com', mirrors: [m.example.com]}]}\n---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {registrySources: {insecureRegistries: [a.example.com/x]}}\n",
	} {
		h.dump = clitest.Written(t, "stuck.yaml", string(whole)+"---\n"+object)
		if got := h.deletes(t, house+"/elsewhere/x:1\n"); got.Code != cli.ExitDenied || !strings.Contains(got.Out, "and what nodes have could not be learned from MachineConfig 99-worker-generated-registries") {
			t.Errorf("%s: deletion: exit code %d\n%s%s", reason, got.Code, got.Out, got.Err)
		}
		got := invoke(t, "", append([]string{"keep", "--from", h.dump, house, "-o", "refs"}, h.flags...)...)
		if got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "may not be complete: machineconfigs: the Machine Config Operator rejects the configuration in force") {
			t.Errorf("%s: list: exit code %d\n%s%s", reason, got.Code, got.Out, got.Err)
		}
	}
}

func TestMirrorBadInput(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", dumpInForce)
	change := clitest.Written(t, "change.yaml", harmless)
	list := func(text string) string { return clitest.Written(t, "list.yaml", text) }
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"nothing", []string{"deletion"}, "deletion wants a file of what is to be deleted, - (standard input), or references"},
		{"an empty argument", []string{"deletion", ""}, "an argument is empty; is a variable of the shell not set?"},
		{"two places", []string{"keep", "x", "y"}, `keep takes one argument, and was given 2: ["x" "y"]`},
		{"a format for changes", []string{"keep", "m.example.com", "-o", "junit"}, `--output "junit": choose one of table, json, yaml, refs`},
		{"a format of keep", []string{"check", "-f", change, "-o", "refs"}, `--output "refs": choose one of table`},
		{"neither a file nor a reference", []string{"deletion", "nothing"}, `deletion: there is no file nothing, and as a reference: the command line, line 1: "nothing" is no reference with a registry`},
		{"a repository", []string{"deletion", "m.example.com/x"}, `line 1: "m.example.com/x" has no tag and no digest: name each that is deleted (:latest is what skopeo delete takes it for)`},
		{"a file and a reference", []string{"deletion", list("m.example.com/x:1\n"), "m.example.com/y:1"}, "give a file, or references"},
		{"a reference beside a change", []string{"check", "-f", change, "m.example.com/y:1"}, `check takes no argument, and was given "m.example.com/y:1"`},
		{"nothing to delete", []string{"deletion", list("# nothing\n")}, "nothing to delete"},
		{"the wrong file of oc-mirror", []string{"deletion", list("apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\ndelete: {}\n")}, "give the DeleteImageList that oc mirror delete --generate makes of it"},
		{"a scope with a tag", []string{"keep", "m.example.com/x:1"}, `keep: "m.example.com/x:1" is no registry, namespace or repository`},
		{"no file of --assume", []string{"check", "-f", change, "--assume", "nowhere.txt"}, "--assume: open nowhere.txt: no such file or directory"},
		{"a plan that there is not", []string{"plan", "-f", change, "-o", "ansible"}, `--output "ansible": choose one of sh, mapping, imageset`},
		{"a plan of nothing", []string{"plan"}, "no change: name it with -f FILE, -f FOLDER or -f -"},
		{"a plan of two", []string{"plan", "-f", change, "--release", "next"}, "-f has no effect beside --release: leave one of them out"},
		{"half a mapping", []string{"check", "-f", change, "--assume", list("quay.io/a:1=m.example.com/a")}, "line 1: \"quay.io/a:1=m.example.com/a\": the file ends in the middle of this line"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got := invoke(t, "", append(tt.args, "--from", dump)...)
			if got.Code != cli.ExitTrouble || !strings.Contains(got.Err, tt.want) {
				t.Errorf("exit code %d, want %q\n%s%s", got.Code, tt.want, got.Out, got.Err)
			}
		})
	}
}
