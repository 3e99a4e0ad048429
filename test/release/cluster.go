package release

import (
	"bytes"
	"crypto/fips140"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
)

// releaseKeys are made for the tests, which takes a while. A stage takes them by turns.
var releaseKeys = [2]func() (*openpgp.Entity, error){sync.OnceValues(newKey), sync.OnceValues(newKey)}

func newKey() (*openpgp.Entity, error) {
	return openpgp.NewEntity("Test release key", "", "release@example.com", nil)
}

// signGPG signs the release image as Red Hat does. OpenPGP names it by SHA-1, in FIPS 140-3 mode, too.
func (s *Stage) signGPG(t testing.TB) {
	t.Helper()
	fips140.WithoutEnforcement(func() { s.signOpenPGP(t) })
}

func (s *Stage) signOpenPGP(t testing.TB) {
	t.Helper()
	entity, err := releaseKeys[s.signings%2]()
	if err != nil {
		t.Fatal(err)
	}
	var key, signed bytes.Buffer
	armored, err := armor.Encode(&key, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := entity.Serialize(armored); err != nil {
		t.Fatal(err)
	}
	armored.Close()
	w, err := openpgp.Sign(&signed, entity, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w, `{"critical":{"image":{"docker-manifest-digest":%q},"type":"atomic container signature","identity":{"docker-reference":%q}},"optional":{}}`, s.Digest, s.Releases+":"+Version)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.signings++
	s.key, s.Signed = key.String(), signed.Bytes()
}

// Objects are those of a cluster that is offered the release, and has a signature of it, or none if that is nil.
func (s *Stage) Objects(signature []byte) string {
	entry := ""
	if signature != nil {
		entry = fmt.Sprintf("binaryData: {%s-1: %s}", strings.ReplaceAll(s.Digest, ":", "-"), base64.StdEncoding.EncodeToString(signature))
	}
	return fmt.Sprintf(`apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 0b3e4f2a-8a1c-4d2e-9f10-2f4a5b6c7d8e, channel: stable-4.20}
status:
  desired: {version: 4.20.9, image: "%[1]s@sha256:%[7]s"}
  history: [{state: Completed, version: 4.20.9, image: "%[1]s@sha256:%[7]s", startedTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T01:00:00Z", verified: true}]
  observedGeneration: 1
  versionHash: x
  availableUpdates:
  - {version: 4.20.10, image: "%[1]s@sha256:%[7]s"}
  - {version: %[2]s, image: "%[1]s@%[3]s"}
  conditionalUpdates:
  - release: {version: 4.21.4, image: "%[1]s@%[3]s"}
    risks: [{name: SlowBoot, url: "https://example.com", message: Nodes start slowly., matchingRules: [{type: Always}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config-managed}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config-managed, name: release-verification}
data:
  verifier-public-key-redhat: |
%[4]s
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config-managed, name: mirrored-release-signatures, labels: {release.openshift.io/verification-signatures: ""}}
%[5]s
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {registrySources: {insecureRegistries: ["%[6]s"]}}
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-release-0}
spec:
  imageDigestMirrors:
  - {source: %[1]s, mirrors: ["%[6]s/openshift/release-images"], mirrorSourcePolicy: NeverContactSource}
  - {source: %[8]s, mirrors: ["%[6]s/openshift/release"], mirrorSourcePolicy: NeverContactSource}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {pools.operator.machineconfiguration.openshift.io/worker: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: a, labels: {node-role.kubernetes.io/master: ""}}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64, machineID: a, systemUUID: a, bootID: a, kernelVersion: a, osImage: a, containerRuntimeVersion: a, kubeletVersion: a, kubeProxyVersion: a}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {node-role.kubernetes.io/worker: ""}}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64, machineID: b, systemUUID: b, bootID: b, kernelVersion: b, osImage: b, containerRuntimeVersion: b, kubeletVersion: b, kubeProxyVersion: b}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: e30=}
`, s.Releases, Version, s.Digest, "    "+strings.ReplaceAll(strings.TrimSpace(s.key), "\n", "\n    "), entry, s.Mirror, strings.Repeat("a", 64), s.Images)
}
