package readiness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// A Gate is the word about signatures that a cluster waits for before it lets itself be updated to the next minor
// version: MCO asks for it where mirrors are configured (machine-config-operator 5558, key
// ack-4.20-sigstore-in-4.21).
type Gate struct {
	// Key is that of ConfigMap admin-gates, and Text what stands there.
	Key, Text string
	// Given is set if the word was given.
	Given bool
}

// Command returns the line that gives the word.
func (g *Gate) Command() string {
	return fmt.Sprintf(`oc -n %s patch configmap %s --type=merge --patch '{"data":{"%s":"true"}}'`, objects.ConfigNamespace, objects.AcksName, g.Key)
}

// gateOf finds the gate about signatures among those of the minor version that runs; nil if there is none, or if unknown says why there
// may be one.
func gateOf(config *objects.UpdateConfig, v *configv1.ClusterVersion) (gate *Gate, unknown string) {
	switch {
	case config.Gates == nil:
		return nil, config.GatesUnread
	case v == nil || v.Status.Desired.Version == "":
		return nil, "which version runs is not known"
	}
	prefix := "ack-" + minorOf(v.Status.Desired.Version) + "-"
	for _, key := range slices.Sorted(maps.Keys(config.Gates.Data)) {
		about := strings.ToLower(key + " " + config.Gates.Data[key])
		valid := len(validation.IsConfigMapKey(key)) == 0 // it is to be typed into a shell
		if !strings.HasPrefix(key, prefix) || !valid || !strings.Contains(about, "sigstore") {
			continue
		}
		g := &Gate{Key: key, Text: text.Line(text.Cut(config.Gates.Data[key], maxReason))}
		g.Given = config.Acks != nil && config.Acks.Data[key] == "true"
		return g, ""
	}
	return nil, ""
}

func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return version
	}
	return parts[0] + "." + parts[1]
}
