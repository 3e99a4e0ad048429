// Package olm makes what the Operator Lifecycle Manager installs the guard from, in both of its versions: a
// bundle of the format registry+v1, and a file-based catalog that offers it. Both are made from the
// kustomize base. No operator is in it: OLM itself makes the Deployment and registers the webhooks.
package olm

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/objects"
)

// A Release is the version of the guard that a bundle installs.
type Release struct {
	Version string    // "v0.1.0"
	Image   string    // REGISTRY/NAME@DIGEST
	Created time.Time // of the commit
	// Maintainer answers for it; nil: none is named, which OperatorHub.io does not take, and a catalog of
	// one's own does.
	Maintainer *mail.Address
}

func (r Release) number() string    { return strings.TrimPrefix(r.Version, "v") }
func (r Release) csvName() string   { return name + "." + r.Version }
func (r Release) skipRange() string { return "<" + r.number() }

// channel is the only one.
const channel = "stable"

// defaults is the ConfigMap of the bundle.
const defaults = name + "-defaults"

// A Bundle is a bundle: its files by path, and the labels of its image.
type Bundle struct {
	Files  map[string][]byte
	Labels map[string]string

	csv objects.Object
}

// NewBundle makes the bundle of r from the objects of manifests/base. Root is the repository's top folder.
func NewBundle(root string, base objects.All, r Release) (*Bundle, error) {
	icon, err := readIcon(root)
	if err != nil {
		return nil, err
	}
	csv, err := clusterServiceVersion(base, r, icon)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Files: map[string][]byte{}, Labels: labels(), csv: csv}
	if b.Files["manifests/"+name+".clusterserviceversion.yaml"], err = objects.Write(csv); err != nil {
		return nil, err
	}
	for _, o := range others(base) {
		file := fmt.Sprintf("manifests/%s_%s.yaml", o.Name(), strings.ToLower(o.Kind()))
		if b.Files[file], err = objects.Write(o); err != nil {
			return nil, err
		}
	}
	metadata := map[string]string{"com.redhat.openshift.versions": openshiftVersions}
	for key, value := range b.Labels {
		metadata[key] = value
	}
	b.Files["metadata/annotations.yaml"], err = objects.Write(map[string]any{"annotations": metadata})
	return b, err
}

// labels are those of a bundle's image, and its annotations.
func labels() map[string]string {
	const prefix = "operators.operatorframework.io.bundle."
	return map[string]string{
		prefix + "mediatype.v1":       "registry+v1",
		prefix + "manifests.v1":       "manifests/",
		prefix + "metadata.v1":        "metadata/",
		prefix + "package.v1":         name,
		prefix + "channels.v1":        channel,
		prefix + "channel.default.v1": channel,
	}
}

// others returns the objects that OLM creates as they are, in its own namespace whichever they name. It
// makes the account and the rights of the CSV itself. Kinds that it cannot make are left out:
//
//   - the dashboard, which OpenShift's console looks for in openshift-config-managed
//   - the NetworkPolicy, a kind that OLM knows since OpenShift 4.20
func others(base objects.All) []objects.Object {
	var all []objects.Object
	for _, o := range base {
		isOwn := o.Namespace() == name
		switch o.Kind() {
		case "Role", "RoleBinding", "Service", "PodDisruptionBudget", "ServiceMonitor", "PrometheusRule":
			if !isOwn {
				continue
			}
		case "ClusterRole":
			if o.Name() == name {
				continue
			}
		case "ConfigMap":
			if !isOwn {
				continue
			}
			o.At("metadata")["name"] = defaults
		default:
			continue
		}
		delete(o.At("metadata"), "namespace")
		all = append(all, o)
	}
	slices.SortFunc(all, compareObjects)
	return all
}
