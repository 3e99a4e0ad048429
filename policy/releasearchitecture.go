package policy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ReleaseArchitecture returns the architecture of a release, as oc-mirror calls it: "multi", or that of nodes; "" where they say
// none, or several, which a release for one cannot have.
func ReleaseArchitecture(multi bool, nodes []*corev1.Node) string {
	if multi {
		return "multi"
	}
	architecture := ""
	for _, platform := range PlatformsOf(nodes) {
		of, isLinux := strings.CutPrefix(platform, "linux/")
		if !isLinux {
			continue // nodes of Windows run none of it
		}
		if of, _, _ = strings.Cut(of, "/"); architecture != "" && of != architecture {
			return ""
		}
		architecture = of
	}
	return architecture
}
