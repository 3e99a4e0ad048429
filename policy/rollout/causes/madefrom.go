package causes

import (
	"regexp"
	"strings"
)

// madeFrom are files that MCO makes of objects, by path, or by what that begins with if it ends in "/" or "-". A MachineConfig for one
// of them would be at odds with the one that MCO generates. The paths are those of MCO's pkg/controller/container-runtime-config and
// kubelet-config (helpers.go), its templates, and pkg/daemon (certificate_writer.go).
var madeFrom = map[string]string{
	"/etc/containers/registries.conf":                                            "an ImageTagMirrorSet, an ImageDigestMirrorSet or Image cluster",
	"/etc/containers/registries.conf.d/01-image-searchRegistries.conf":           "Image cluster (spec.registrySources)",
	"/etc/containers/policy.json":                                                "a ClusterImagePolicy or Image cluster",
	"/etc/containers/registries.d/sigstore-registries.yaml":                      "a ClusterImagePolicy or an ImagePolicy",
	"/etc/crio/policies/":                                                        "an ImagePolicy or a ClusterImagePolicy",
	"/etc/docker/certs.d/":                                                       "the ConfigMap that Image cluster names (spec.additionalTrustedCA)",
	"/etc/containers/storage.conf":                                               "a ContainerRuntimeConfig",
	"/etc/crio/crio.conf.d/01-ctrcfg-":                                           "a ContainerRuntimeConfig",
	"/etc/kubernetes/kubelet.conf":                                               "a KubeletConfig",
	"/etc/node-sizing-enabled.env":                                               "a KubeletConfig",
	"/etc/systemd/system/kubelet.service.d/20-logging.conf":                      "a KubeletConfig",
	"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt":       "the ConfigMap that Proxy cluster names (spec.trustedCA)",
	"/etc/mco/proxy.env":                                                         "Proxy cluster",
	"/etc/kubernetes/cloud.conf":                                                 "the ConfigMap that Infrastructure cluster names (spec.cloudConfig)",
	"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem": "the ConfigMap that Infrastructure cluster names (spec.cloudConfig)",
	"/var/lib/kubelet/config.json":                                               "Secret pull-secret in openshift-config",
}

// originOf returns what a change of a file belongs into.
func originOf(path string) string {
	for prefix, object := range madeFrom {
		if path == prefix || strings.HasPrefix(path, prefix) && strings.ContainsAny(prefix[len(prefix)-1:], "/-") {
			return object
		}
	}
	return "a MachineConfig"
}

// secretPath matches the paths of files that may hold a secret: the pull secret, a proxy's password, keys. They are not shown.
var secretPath = regexp.MustCompile(`(?i)secret|token|passw|shadow|credential|kubeconfig|keytab|wireguard|\.docker/|/auth|proxy\.env$|cloud\.conf$|config\.json$|\.nmconnection$|\.netrc$|[._-](key|keys|pem|p12|pfx|psk)$|/id_[a-z0-9]+$`)
