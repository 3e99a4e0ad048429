package causes

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// TestChangedFile: the remedy for a file that was changed on a node names the object that MCO makes it of, and shows no secret.
func TestChangedFile(t *testing.T) {
	for path, want := range map[string]string{
		"/etc/containers/registries.conf":                            "ImageDigestMirrorSet",
		"/etc/containers/registries.conf.d/99-mine.conf":             "a MachineConfig instead",
		"/etc/containers/policy.json":                                "ClusterImagePolicy",
		"/etc/crio/policies/shop.json":                               "ImagePolicy",
		"/etc/crio/crio.conf.d/01-ctrcfg-pidsLimit":                  "ContainerRuntimeConfig",
		"/etc/crio/crio.conf.d/00-default":                           "a MachineConfig instead",
		"/etc/kubernetes/kubelet.conf":                               "KubeletConfig",
		"/etc/docker/certs.d/mirror.example.com/ca.crt":              "additionalTrustedCA",
		"/etc/chrony.conf":                                           "a MachineConfig instead",
		"/var/lib/kubelet/config.json":                               "Secret pull-secret",
		"/etc/mco/proxy.env":                                         "Proxy cluster",
		"/etc/NetworkManager/system-connections/uplink.nmconnection": "a MachineConfig instead",
		"/root/.docker/auth.json":                                    "a MachineConfig instead",
		"/etc/pki/tls/private/server.key":                            "a MachineConfig instead",
		"/etc/kubernetes/kubeconfig":                                 "a MachineConfig instead",
	} {
		secret := strings.Contains("/var/lib/kubelet/config.json /etc/mco/proxy.env /etc/NetworkManager/system-connections/uplink.nmconnection /root/.docker/auth.json /etc/pki/tls/private/server.key /etc/kubernetes/kubeconfig", path)
		h := HoldUp{}
		var n status.Node
		n.Name, n.Current, n.Reason = "n1", "rendered-worker-1", `content mismatch for file "`+path+`"`
		new(diagnosis).fileChanged(&n, &h)
		var said strings.Builder
		for _, r := range h.Remedies {
			said.WriteString(r.Command + "\n" + r.Effect + "\n")
		}
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s: want %q in\n%s", path, want, &said)
		}
		for _, r := range h.Remedies {
			shown := strings.Contains(r.Command, "/host cat ") || strings.Contains(r.Command, "python3") && !strings.Contains(r.Command, "| sha256sum") && !strings.HasSuffix(r.Command, "> /dev/null")
			if secret && shown {
				t.Errorf("%s is shown by\n%s", path, r.Command)
			}
		}
	}
}
