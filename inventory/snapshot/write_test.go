package snapshot

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

var (
	_ Source = (*Snapshot)(nil)
	_ Source = (*live.Inventory)(nil)
)

// The canary is in every place of these objects that an answer does not depend on.
var writeInput = strings.ReplaceAll(podYAML+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: shop, annotations: {note: canary}}
spec:
  template:
    spec:
      imagePullSecrets: [{name: canary}]
      containers:
      - {name: app, image: "quay.io/shop/app:1", args: [--password=canary], env: [{name: TOKEN, value: canary}]}
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: apps, annotations: {kubectl.kubernetes.io/last-applied-configuration: canary}, managedFields: [{manager: canary}]}
spec:
  imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop], mirrorSourcePolicy: NeverContactSource}]
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {additionalTrustedCA: {name: registry-cas}, externalRegistryHostnames: [canary], registrySources: {insecureRegistries: [mirror.example.com]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: registry-cas, namespace: openshift-config, annotations: {note: canary}}
data: {mirror.example.com..5000: {certificate}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: openshift-config}
data: {settings: canary}
---
apiVersion: v1
kind: Node
metadata: {name: worker-0, annotations: {machineconfiguration.openshift.io/state: Done, other: canary}}
spec: {providerID: canary}
status: {nodeInfo: {architecture: amd64}, addresses: [{address: canary}]}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, annotations: {note: canary}}
spec: {paused: true, maxUnavailable: 2}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: router-default, namespace: openshift-ingress, annotations: {note: canary}}
spec: {maxUnavailable: 25%}
status: {disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2}
---
apiVersion: config.openshift.io/v1alpha1
kind: CRIOCredentialProviderConfig
metadata: {name: cluster, annotations: {note: canary}}
spec: {matchImages: ["*.example.com"]}
---
apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: signed, annotations: {note: canary}}
spec: {scopes: [quay.io/shop]}
status: {conditions: [{type: canary, status: "True"}]}
---
apiVersion: config.openshift.io/v1
kind: ImagePolicy
metadata: {name: signed, namespace: shop, annotations: {note: canary}}
spec: {scopes: [quay.io/other]}
---
apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster, annotations: {note: canary}}
spec: {logLevel: canary}
status:
  nodeDisruptionPolicyStatus: {clusterPolicies: {files: [{path: /etc/containers/registries.conf, actions: [{type: Special}]}]}}
---
apiVersion: config.openshift.io/v1
kind: Proxy
metadata: {name: cluster, annotations: {note: canary}}
spec: {httpProxy: "http://canary:canary@proxy.example.com:3128", httpsProxy: "canary:can@ary@proxy.example.com:3128", noProxy: .cluster.local, trustedCA: {name: user-ca}}
status: {httpProxy: "http://canary@proxy.example.com:3128", noProxy: .cluster.local}
---
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version, annotations: {note: canary}}
spec: {clusterID: canary}
status:
  desired: {version: 4.18.1, image: "quay.io/release@sha256:bb", url: canary}
  history: [{version: 4.18.1, state: Completed, image: "quay.io/release@sha256:bb", acceptedRisks: canary}]
  conditions: [{type: Progressing, status: "False", message: canary}]
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 99-worker-generated-registries, annotations: {note: canary}}
spec:
  kernelArguments: [canary]
  config:
    passwd: {users: [{name: canary}]}
    storage:
      files:
      - {path: /etc/containers/registries.conf, contents: {source: "data:,unqualified-search-registries%20%3D%20%5B%5D"}}
      - {path: /etc/canary, contents: {source: "data:,canary"}}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 50-lab, labels: {machineconfiguration.openshift.io/role: worker, other: canary}}
spec:
  config:
    storage:
      files:
      - {path: /etc/containers/registries.conf.d/50-lab.conf, contents: {source: "data:,short-name-mode%20%3D%20%22enforcing%22"}}
      - {path: /etc/canary, contents: {source: "data:,canary"}}
---
apiVersion: v1
kind: Secret
metadata: {name: pull-secret, namespace: openshift-config}
data: {.dockerconfigjson: Y2FuYXJ5}
`, "{certificate}", strconv.Quote(certificate+"-----BEGIN PRIVATE KEY-----\ncanary\n"))

// certificate is one that nodes trust.
var certificate = newCertificate()

func newCertificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func written(t *testing.T, s *Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, s, s.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWrite(t *testing.T) {
	s, err := ReadFrom(strings.NewReader(writeInput), "f")
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, s)
	if strings.Contains(text, "canary") || strings.Contains(text, "Y2FuYXJ5") {
		t.Errorf("the dump holds what nothing depends on:\n%s", text)
	}
	const line = `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"ImageUsers","image":"quay.io/shop/app:1","users":[` +
		`{"kind":"Deployment","namespace":"shop","name":"app","container":"app","use":"referenced","ownPullSecret":true,"placement":{}},` +
		`{"kind":"Pod","namespace":"shop","name":"app-0","container":"app","use":"running","digest":"sha256:e3b0","placement":{}}]}`
	if !strings.Contains(text, "\n"+line+"\n") {
		t.Errorf("no line\n%s\nin\n%s", line, text)
	}
}

// trustsTheCertificate reports whether the certificate of the dump is all that nodes trust
// at the mirror.
func trustsTheCertificate(s *Snapshot) bool {
	settings := s.TrustSettings()
	settings.Roots = x509.NewCertPool()
	want := x509.NewCertPool()
	want.AppendCertsFromPEM([]byte(certificate))
	got := trust.New(settings).HostRootCAs["mirror.example.com:5000"]
	return got != nil && got.Equal(want)
}

// What has been written says the same as what it was written from.
func TestWriteAndRead(t *testing.T) {
	before, err := ReadFrom(strings.NewReader(writeInput), "f")
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, before)
	after, err := ReadFrom(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	if p := after.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	if again := written(t, after); again != text {
		t.Errorf("written again, it differs: -first +second:\n%s", cmp.Diff(text, again))
	}
	set1, _ := before.Mirrors(t.Context())
	set2, _ := after.Mirrors(t.Context())
	for what, diff := range map[string]string{
		"images":     cmp.Diff(imagesOf(t, before), imagesOf(t, after)),
		"mirrors":    cmp.Diff(mirrorsOf(t, before), mirrorsOf(t, after)),
		"registries": cmp.Diff(set1.Registries, set2.Registries),
		"platforms":  cmp.Diff(policy.PlatformsOf(before.Nodes()), policy.PlatformsOf(after.Nodes())),
		"nodes":      cmp.Diff(before.Nodes(), after.Nodes()),
		"budgets":    cmp.Diff(before.RolloutObjects().Budgets, after.RolloutObjects().Budgets),
		"providers":  cmp.Diff(before.CredentialProviders()[0].Spec, after.CredentialProviders()[0].Spec),
		"machines":   cmp.Diff(before.RolloutObjects().Machines, after.RolloutObjects().Machines),
		"proxy":      cmp.Diff(before.Proxy(), after.Proxy()),
		"version":    cmp.Diff(before.RolloutObjects().Version, after.RolloutObjects().Version),
		"payload":    cmp.Diff("quay.io/release@sha256:bb", set2.Payload),
		"pools":      cmp.Diff(before.RolloutObjects().Pools, after.RolloutObjects().Pools),
		"trust":      cmp.Diff([]bool{true, true}, []bool{trustsTheCertificate(before), trustsTheCertificate(after)}),
	} {
		if diff != "" {
			t.Errorf("%s: -before +after:\n%s", what, diff)
		}
	}
	if got := after.Proxy().Spec.HTTPProxy; got != "http://proxy.example.com:3128" {
		t.Errorf("the proxy is %q", got)
	}
	if files := after.RolloutObjects().Machines.Status.NodeDisruptionPolicyStatus.ClusterPolicies.Files; len(files) != 1 {
		t.Errorf("node disruption policy for %v, want one file", files)
	}
	if v := after.RolloutObjects().Version; v.Status.Desired.Version != "4.18.1" || len(v.Status.History) != 1 {
		t.Errorf("got the version %+v", v.Status)
	}
	if after.PullSecret() != nil {
		t.Error("the dump has the pull secret")
	}
}

func TestReadBrokenImageUsers(t *testing.T) {
	for text, want := range map[string]string{
		`{"image": "a", "users": [{"kind": "Pod", "name": "p", "use": "eaten"}]}`: `reading the dump: f: document 1: item 1: reading ImageUsers: use "eaten" is not one of referenced, running and history: a later version of mirrorset-guard has written it`,
		`{"users": []}`: `reading the dump: f: document 1: item 1: reading ImageUsers: no image`,
	} {
		item := `{"apiVersion": "mirrorset-guard.io/v1alpha1", "kind": "ImageUsers", ` + text[1:]
		// Images would be missing, of which nothing else tells.
		if _, err := ReadFrom(strings.NewReader(`{"apiVersion": "v1", "kind": "List", "items": [`+item+`]}`), "f"); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestWriteForTerminals: what a tenant wrote does nothing to a terminal, and is read as it
// was written.
func TestWriteForTerminals(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"a"},"spec":{"containers":[{"name":"c","image":"quay.io/x\u001b[2J\u009b31m\u202e\nFORGED"}]}}`
	images := func(text string) []policy.Image {
		s, err := ReadFrom(strings.NewReader(text), "f.json")
		if err != nil {
			t.Fatal(err)
		}
		images, err := s.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return images.ByReference()
	}
	s, err := ReadFrom(strings.NewReader(pod), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	if err := Write(t.Context(), &written, s, s.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(written.String(), func(r rune) bool { return r != '\n' && !text.IsPrintable(r) }); i >= 0 {
		t.Errorf("it does something to a terminal: %q", written.String()[max(0, i-40):i+2])
	}
	if diff := cmp.Diff(images(pod), images(written.String())); diff != "" {
		t.Errorf("-dump +snapshot:\n%s", diff)
	}
}
