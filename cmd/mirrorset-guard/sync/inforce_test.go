package sync

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// TestLostLayer: a layer that the mirror has lost of one part of an index is sent again.
func TestLostLayer(t *testing.T) {
	s := newShop(t)
	nobody(t)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+withoutSecrets+"---\n"+s.mirrorSets())
	wantCode(t, s.sync(t, "--push-secret", s.secret), 0, "Copied 2 of 2 images")
	s.loseLayer(t, "amd64")
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, "its part for linux/amd64 lacks ")
	wantCode(t, s.sync(t, "--push-secret", s.secret), 0, "Copied 1 of 1 image", "all verified")
}

// loseLayer has the mirror lose the layer of the router's part for an architecture.
func (s *shop) loseLayer(t *testing.T, architecture string) {
	t.Helper()
	router, err := registries.IndexOf("router", "linux/amd64", "linux/arm64")
	if err != nil {
		t.Fatal(err)
	}
	list, err := router.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Manifests {
		if d.Platform.Architecture != architecture {
			continue
		}
		part, err := router.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := part.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+s.mirror.host+"/v2/ocp/router/blobs/"+m.Layers[0].Digest.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(pusher, canary)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("the mirror answers %s to the deletion of a layer", resp.Status)
		}
	}
}

// TestInForce: without a change, what is missing and cannot be copied ends with 1, though nobody could pull it before the mirrors
// either, which is no objection to a change.
func TestInForce(t *testing.T) {
	s := newShop(t)
	nobody(t)
	const gone = "sha256:4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece"
	objects := s.objects() + withoutSecrets
	lost := strings.Replace(objects, "shop/cart:v1", "ocp/router@"+gone, 1)
	s.dump = clitest.Written(t, "cluster.yaml", lost)
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", s.secret), 0, "failed: ", "is admitted: it reroutes 2 of 2 images, 1 verified")

	s.dump = clitest.Written(t, "cluster.yaml", lost+"---\n"+s.mirrorSets())
	const found = "The mirror configuration in force reroutes 2 of 2 images: 1 verified, 1 not there as nodes need it."
	wantCode(t, s.sync(t, "--push-secret", s.secret), 1, "failed: ", found)
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, found)

	s.dump = clitest.Written(t, "cluster.yaml", objects+"---\n"+s.mirrorSets())
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, "The mirror configuration in force has faults: 1 of the 2 images it reroutes could not be pulled safely.", "To "+s.mirror.host+": 1 image, ")
	wantCode(t, s.sync(t, "--push-secret", s.secret), 0, "Copied 1 of 1 image", "The mirror configuration in force reroutes 2 of 2 images: all verified.")
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 0, "all verified")

	// MCO rejects the configuration, and what nodes have is not in the dump.
	const wild = "---\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: wild}\nspec: {imageTagMirrors: [{source: '*.example.com', mirrors: [m.example.com]}]}\n"
	s.dump = clitest.Written(t, "cluster.yaml", strings.Replace(objects, "insecureRegistries: [", "insecureRegistries: [a.example.com/x, ", 1)+"---\n"+s.mirrorSets()+wild)
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 2, "what nodes need is not fully known: machineconfigs: the Machine Config Operator rejects the configuration in force")
}

// TestMaxBytes: what there is no room for is said, with the exit code of what is not done, and left whole to the next run.
func TestMaxBytes(t *testing.T) {
	s := newShop(t)
	nobody(t)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+"---\n"+s.mirrorSets())
	before := s.mirror.writes()
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		wantCode(t, s.sync(t, append(flags, "--push-secret", s.secret, "--max-bytes", "1")...), 1,
			"Not copied: ", "--max-bytes leaves no room for it in this run", "--max-bytes 1 left 2 images for another run, with ")
	}
	if n := s.mirror.writes() - before; n != 0 {
		t.Errorf("%d requests write to the mirror", n)
	}
	got := s.sync(t, "--push-secret", s.secret, "--max-bytes", "1Mi")
	wantCode(t, got, 0, "all verified")
	for _, want := range []string{ // a line for each image, and one for all with the rate
		`(?m)^To ` + regexp.QuoteMeta(s.mirror.host) + `: 2 images, [0-9.]+ KiB$`,
		`(?m)^copied: ` + regexp.QuoteMeta(s.mirror.host) + `/team/shop/cart:v1 \([0-9.]+ K?i?B\)$`,
		`(?m)^copied: ` + regexp.QuoteMeta(s.mirror.host) + `/ocp/router@sha256:[0-9a-f]{12} \(`,
		`(?m)^Copied 2 of 2 images, [0-9.]+ KiB of [0-9.]+ KiB, [0-9.]+ [KMG]?i?B/s$`,
	} {
		if !regexp.MustCompile(want).MatchString(got.Err) {
			t.Errorf("there is no %q in\n%s", want, got.Err)
		}
	}
	if strings.Contains(got.Out, "copied:") || strings.Contains(got.Err, "\x1b") {
		t.Errorf("lines are on standard output, or with colours:\n%s\n%s", got.Out, got.Err)
	}
}

// TestInForceIsAChange: what a change would be refused for is said of what is in force, by whatever it leads nodes to mirrors; and nothing is
// copied to a place that is two images'.
func TestInForceIsAChange(t *testing.T) {
	s := newShop(t)
	nobody(t)
	other, err := registries.Image("another cart")
	if err != nil {
		t.Fatal(err)
	}
	s.push(t, "team/cart:v1", other, nil)
	port := s.mirror.host[strings.LastIndexByte(s.mirror.host, ':'):]
	objects := strings.ReplaceAll(s.objects()+withoutSecrets, "insecureRegistries: [", fmt.Sprintf("insecureRegistries: [%q, %q, ", "localhost"+port, "LOCALHOST"+port))
	team := "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: team, name: cart}\nspec: {containers: [{name: app, image: " + s.source.host + "/team/cart:v1}]}\n"
	itms := func(name, mirror, policy string) string {
		return fmt.Sprintf("---\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: %s}\nspec: {imageTagMirrors: [{source: %s/%[1]s, mirrors: [%[3]s/t], mirrorSourcePolicy: %[4]s}]}\n", name, s.source.host, mirror, policy)
	}
	for _, tt := range []struct{ reason, first, second, policy string }{
		{"the source may be asked", s.mirror.host, s.mirror.host, "AllowContactingSource"},
		{"the source may not be asked", s.mirror.host, s.mirror.host, "NeverContactSource"},
		{"two names of one registry", "localhost" + port, "LOCALHOST" + port, "AllowContactingSource"},
	} {
		sets := itms("shop", tt.first, tt.policy) + itms("team", tt.second, tt.policy)
		before := s.mirror.writes()
		s.dump = clitest.Written(t, "cluster.yaml", objects+team+sets)
		wantCode(t, s.sync(t, "--push-secret", s.secret), 1, "give each source a mirror, or a path at the mirror, of its own: at ", "Nothing is to be copied")
		s.dump = clitest.Written(t, "cluster.yaml", objects+team)
		wantCode(t, s.sync(t, "-f", clitest.Written(t, "sets.yaml", sets), "--push-secret", s.secret), 1, "give each source a mirror, or a path at the mirror, of its own: at ", "Nothing is to be copied")
		if n := s.mirror.writes() - before; n > 0 {
			t.Errorf("%s: %d requests write to the mirror", tt.reason, n)
		}
	}

	conf := fmt.Sprintf("[[registry]]\nprefix = %[1]q\nlocation = %[1]q\nblocked = true\ninsecure = true\n[[registry.mirror]]\nlocation = %[2]q\ninsecure = true\n", s.source.host+"/shop", s.mirror.host+"/x")
	config := func(name, role, path string) string {
		return fmt.Sprintf("---\napiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: %s, labels: {machineconfiguration.openshift.io/role: %s}}\nspec: {config: {ignition: {version: 3.2.0}, storage: {files: [{path: %s, contents: {source: 'data:;base64,%s'}}]}}}\n",
			name, role, path, base64.StdEncoding.EncodeToString([]byte(conf)))
	}
	const dropIn = "/etc/containers/registries.conf.d/99-house.conf"
	paused := fmt.Sprintf("---\napiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {name: infra}\nspec: {paused: true, nodeSelector: {matchLabels: {infra: ''}}, configuration: {name: %s}}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: i, labels: {infra: ''}, annotations: {machineconfiguration.openshift.io/currentConfig: rendered-infra-1, machineconfiguration.openshift.io/state: Done}}\nstatus: {nodeInfo: {operatingSystem: linux, architecture: amd64}}\n", "rendered-infra-2")
	for reason, files := range map[string]string{
		"a drop-in on all workers":                   config("99-house", "worker", dropIn),
		"a drop-in of one pool":                      config("99-house", "infra", dropIn),
		"the control plane's file":                   config("99-house", "master", dropIn),
		"what nodes of a paused pool have":           paused + config("rendered-infra-1", "", "/etc/containers/registries.conf"),
		"a drop-in that only the rendered one shows": strings.Replace(paused, "rendered-infra-2", "rendered-infra-1", 1) + config("rendered-infra-1", "", dropIn),
	} {
		t.Run(reason, func(t *testing.T) {
			s.dump = clitest.Written(t, "cluster.yaml", objects+files)
			wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, "To "+s.mirror.host+": 1 image, ", "the one image it reroutes could not be pulled safely")
		})
	}
}
