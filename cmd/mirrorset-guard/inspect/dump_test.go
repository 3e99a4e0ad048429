package inspect

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	fakeregistry "github.com/google/go-containerregistry/pkg/registry"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// configMap returns a ConfigMap as a document.
func configMap(t *testing.T, namespace, name, key, value string) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"namespace": namespace, "name": name}, "data": map[string]string{key: value},
	})
	if err != nil {
		t.Fatal(err)
	}
	return "---\n" + string(data) + "\n"
}

// TestCheckTrustsTheDump: registries are trusted by the CAs that the nodes in the dump
// trust, wherever those are written down.
func TestCheckTrustsTheDump(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(fakeregistry.New(fakeregistry.Logger(quiet)))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	push(t, server, address+"/shop/cart:v1")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	const (
		image = "---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {additionalTrustedCA: {name: cas}}\n"
		proxy = "---\napiVersion: config.openshift.io/v1\nkind: Proxy\nmetadata: {name: cluster}\nspec: {trustedCA: {name: bundle}}\n"
		lack  = "the dump lacks ConfigMap openshift-config/cas: nodes may trust CAs for registries that are not trusted here"
	)
	for _, tc := range []struct {
		name, objects string
		code          int
		want          string
	}{
		{"nobody", "", cli.ExitDenied, "CA"},
		{"additionalTrustedCA, for this registry", image + configMap(t, "openshift-config", "cas", "example.com", ca), cli.ExitAdmitted, "all verified"},
		{"additionalTrustedCA, for another registry", image + configMap(t, "openshift-config", "cas", "example.com..5000", ca), cli.ExitDenied, "CA"},
		{"a ConfigMap that nothing names", configMap(t, "openshift-config", "cas", "example.com", ca), cli.ExitDenied, "CA"},
		{"a ConfigMap of that name elsewhere", image + configMap(t, "shop", "cas", "example.com", ca), cli.ExitDenied, lack},
		{"the internal registry's", configMap(t, "openshift-config-managed", "image-registry-ca", "example.com", ca), cli.ExitAdmitted, "all verified"},
		{"the user's", configMap(t, "openshift-config", "user-ca-bundle", "ca-bundle.crt", ca), cli.ExitAdmitted, "all verified"},
		{"the proxy's", proxy + configMap(t, "openshift-config", "bundle", "ca-bundle.crt", ca), cli.ExitAdmitted, "all verified"},
		{"one that cannot be read", image + configMap(t, "openshift-config", "cas", "example.com", "no certificate"), cli.ExitDenied, "ConfigMap openshift-config/cas, key example.com: no PEM certificate in it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dump := clitest.Written(t, "dump.yaml", "---\n"+clitest.CartDeployment+"\n---\n"+clitest.Worker+"\n"+tc.objects)
			args := []string{"check", "-f", "-", "--allow-loopback", "--resolve", "example.com=" + address, "--from"}
			if got := invoke(t, clitest.ShopMirror, append(args, dump)...); got.Code != tc.code || !strings.Contains(got.Out, tc.want) {
				t.Errorf("exit code %d, want %d and %q\n%s%s", got.Code, tc.code, tc.want, got.Out, got.Err)
			}
			// What a snapshot keeps of a dump says the same.
			kept := invoke(t, "", "snapshot", "--from", dump)
			if got := invoke(t, clitest.ShopMirror, append(args, clitest.Written(t, "kept.json", kept.Out))...); got.Code != tc.code {
				t.Errorf("of a snapshot: exit code %d, want %d\n%s%s", got.Code, tc.code, got.Out, got.Err)
			}
		})
	}
}

// TestCheckLacksCAs: additionalTrustedCA names another ConfigMap, and the dump lacks that or the one in force. What comes of CAs that are
// there is told by stories 128 and 129.
func TestCheckLacksCAs(t *testing.T) {
	image := func(cas string) string {
		return "---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {additionalTrustedCA: {name: " + cas + "}}\n"
	}
	there := configMap(t, "openshift-config", "there", "example.com", "") + configMap(t, "shop", "strays", "example.com", "")
	for _, tc := range []struct{ inForce, change, lacks string }{{"there", "nowhere", "nowhere"}, {"there", "strays", "strays"}, {"gone", "there", "gone"}} {
		dump := "---\n" + clitest.CartDeployment + "\n---\n" + clitest.ShopMirror + "\n" + there + image(tc.inForce)
		got := invoke(t, image(tc.change), "check", "-f", "-", "--from", clitest.Written(t, "dump.yaml", dump))
		if want := "reading ConfigMap openshift-config/" + tc.lacks + ": it is not in the dump"; got.Code != cli.ExitDenied || !strings.Contains(got.Out, want) {
			t.Errorf("exit code %d, want %q\n%s%s", got.Code, want, got.Out, got.Err)
		}
	}
}

// TestCheckOfADumpThatCannotBeRead: what could not be read is no reason to say yes. What that is, is shown by the tests of package snapshot.
func TestCheckOfADumpThatCannotBeRead(t *testing.T) {
	const (
		good    = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: a}\nspec: {containers: [{name: c, image: \"registry.example.net/x:1\"}]}\n"
		badPod  = good + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: a}\nspec: {containers: none}\n"
		badSet  = good + "---\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: b}\nspec: {imageTagMirrors: none}\n"
		nothing = "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: other}\nspec: {}\n"
	)
	for _, tc := range []struct {
		name, dump, change string
		code               int
		want               string // on one of the streams
	}{
		{"all is well", good, harmless, cli.ExitAdmitted, "does not reroute the one image in use: nothing was verified"},
		{"a pod, whose image the change may reroute", badPod, harmless, cli.ExitDenied, "ImageTagMirrorSet other is refused: not all objects could be read: the change may reroute images that are not known."},
		{"a pod, and a change that moves nothing", badPod, nothing, cli.ExitAdmitted, "dump.yaml: document 2: reading Pod: "},
		{"a mirror set", badSet, nothing, cli.ExitTrouble, "objects that could not be read, or that are there twice, may change the answer: {dir}/dump.yaml: document 2: reading ImageTagMirrorSet: "},
		{"the first page of the pods", good + "---\n" + `{"apiVersion":"v1","kind":"PodList","metadata":{"continue":"x","remainingItemCount":1},"items":[]}` + "\n", harmless, cli.ExitDenied, "ImageTagMirrorSet other is refused: not all objects could be read: the change may reroute images that are not known."},
		{"mirror sets alone", nothing, nothing, cli.ExitTrouble, "the dump has no object that names an image: without consumers of images there is no answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, stderr := check(t, map[string]string{"dump.yaml": tc.dump, "stdin": tc.change}, "-f", "-", "--from", "{dir}/dump.yaml", "-o", "json")
			if code != tc.code || !strings.Contains(out+stderr, tc.want) {
				t.Errorf("exit code %d, want %d and %q\n%s%s", code, tc.code, tc.want, out, stderr)
			}
		})
	}
}

// TestCheckMergesImageConfig: Image cluster is mostly given in part, and judged as what oc apply
// makes of it, with a dump and with a snapshot of that.
func TestCheckMergesImageConfig(t *testing.T) {
	const (
		head = "apiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster%s}\nspec: {registrySources: {%s}}\n"
		last = `, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"registrySources":{"blockedRegistries":["quay.io"]}}}'}`
		note = "Image cluster is merged with the one in force, as oc apply does"
	)
	for _, tc := range []struct {
		name, inForce, change string
		code                  int
		want                  string
		blocked               bool // whether quay.io still is
	}{
		{"what is left out stays", fmt.Sprintf(head, "", "blockedRegistries: [quay.io]"), fmt.Sprintf(head, "", "insecureRegistries: [m.example.com]"), cli.ExitAdmitted, note, true},
		{"what oc apply has set goes away", fmt.Sprintf(head, last, "blockedRegistries: [quay.io]"), fmt.Sprintf(head, "", "insecureRegistries: [m.example.com]"), cli.ExitAdmitted, "it reroutes 0 of 1 image", false},
		{"an old mistake is none", fmt.Sprintf(head, "", "allowedRegistries: ['a.example.com:tag:1', quay.io]"), fmt.Sprintf(head, "", "insecureRegistries: [m.example.com]"), cli.ExitAdmitted, note, false},
		{"a new mistake is one", fmt.Sprintf(head, "", "insecureRegistries: [a.example.com]"), fmt.Sprintf(head, "", "insecureRegistries: ['a.example.com:tag:1']"), cli.ExitTrouble, "spec.registrySources.insecureRegistries[0]: Invalid value", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dump := clitest.Written(t, "dump.yaml", "---\n"+clitest.CartDeployment+"\n---\n"+tc.inForce)
			kept := invoke(t, "", "snapshot", "--from", dump)
			for _, from := range []string{dump, clitest.Written(t, "kept.json", kept.Out)} {
				got := invoke(t, tc.change, "check", "-f", "-", "--from", from)
				if got.Code != tc.code || !strings.Contains(got.Out+got.Err, tc.want) {
					t.Errorf("exit code %d, want %d and %q\n%s%s", got.Code, tc.code, tc.want, got.Out, got.Err)
				}
				if merged := strings.Contains(got.Out, note); merged != (tc.want == note) {
					t.Errorf("it is said to be merged: %t", merged)
				}
				if got := invoke(t, tc.change, "render", "-f", "-", "--from", from); strings.Contains(got.Out, "blocked = true") != tc.blocked {
					t.Errorf("render: %s%s", got.Out, got.Err)
				}
			}
		})
	}
}

// hostileDump has words in every place where a stranger can put them.
var hostileDump = func() string {
	const words = "x\u001b[2J\u009b31m\u202e\r\nFORGED"
	name := func(name string) map[string]any {
		return map[string]any{"name": name + words, "namespace": "ns" + words, "labels": map[string]string{"a": words}}
	}
	items := []any{
		map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name("app"),
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"name": "c" + words, "image": "quay.io/bad" + words},
				map[string]any{"name": "d" + words, "image": "quay.io/shop/good:v1"},
				map[string]any{"name": "e" + words, "image": "=1+1\u001b[0m"},
			}}}},
		},
		map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet", "metadata": map[string]any{"name": "set" + words},
			"spec": map[string]any{"imageTagMirrors": []any{map[string]any{"source": "quay.io/shop", "mirrors": []string{"mirror.invalid/shop"}, "mirrorSourcePolicy": "NeverContactSource"}}},
		},
		map[string]any{"apiVersion": "v1", "kind": "Secret" + words, "metadata": name("secret")},
		map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": name("broken"), "spec": words},
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		panic(err)
	}
	return string(data)
}()

// TestHostileDump: nothing of a stranger's words does anything to a terminal, or looks
// like a line of its own, whatever the command and the format.
func TestHostileDump(t *testing.T) {
	dump := clitest.Written(t, "dump.json", hostileDump)
	change := clitest.Written(t, "change.yaml", tagSet("everything", "quay.io", "NeverContactSource", "mirror.invalid"))
	for _, line := range []string{
		"inventory", "inventory -o wide", "inventory -o refs", "inventory -o json", "inventory -o yaml",
		"check -f CHANGE --timeout 2s", "check -f CHANGE --timeout 2s -o json", "check -f CHANGE --timeout 2s -o yaml", "check -f CHANGE --timeout 2s -o junit", "check -f CHANGE --timeout 2s -o narrowed",
		"explain -f CHANGE quay.io/shop/good:v1", "explain -f CHANGE quay.io/shop/good:v1 -o json",
		"render -f CHANGE", "render -f CHANGE -o diff", "render -f CHANGE -o yaml",
	} {
		t.Run(line, func(t *testing.T) {
			args := append(strings.Fields(strings.ReplaceAll(line, "CHANGE", change)), "--from", dump)
			got := invoke(t, "", args...)
			if got.Out == "" && got.Err == "" {
				t.Error("it says nothing")
			}
			for stream, said := range map[string]string{"standard output": got.Out, "standard error": got.Err} {
				if i := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && r != '\t' && !text.IsPrintable(r) }); i >= 0 {
					t.Errorf("%s does something to a terminal: %q", stream, said[max(0, i-40):i+1])
				}
				for printed := range strings.Lines(said) {
					if strings.HasPrefix(strings.TrimSpace(printed), "FORGED") {
						t.Errorf("%s has a line of a stranger's: %q", stream, printed)
					}
				}
			}
		})
	}
	t.Run("refs", func(t *testing.T) {
		got := invoke(t, "", "inventory", "-o", "refs", "--from", dump)
		if got.Out != "quay.io/shop/good:v1\n" || !strings.Contains(got.Err, "left out 2 references that no node could parse") {
			t.Errorf("%+v", got)
		}
	})
}

// TestSnapshotOfADumpThatCannotBeRead: who reads the snapshot, or the inventory, would not know of the gap.
func TestSnapshotOfADumpThatCannotBeRead(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: a}\nspec: {containers: none}\n---\n"+clitest.CartDeployment+"\n")
	kept := clitest.Written(t, "kept.json", invoke(t, "", "snapshot", "--from", dump).Out)
	for _, args := range []string{"snapshot --from " + dump, "snapshot --from " + kept, "inventory --from " + dump, "inventory --from " + kept} {
		got := invoke(t, "", strings.Fields(args)...)
		if want := ": images named by " + dump + ": document 1: reading Pod: "; got.Code != cli.ExitTrouble || !strings.Contains(got.Out, "quay.example.com/shop/cart:v1") || !strings.Contains(got.Err, want) {
			t.Errorf("%s: got %+v, want %s", args, got, want)
		}
	}
}
