package release

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
)

// A placement has the images that the manifests of a release run, by digest, and where.
type placement struct {
	// control are images of pods on the control plane. Elsewhere are those that may run anywhere: most are named to an operator, which
	// runs them where it wants to.
	control, elsewhere map[string]bool
}

// roles begin the labels by which pods choose the control plane. A manifest without them needs no closer look.
var roles = []byte("node-role.kubernetes.io/")

// documents yields those of a manifest. An error is the last.
func documents(ctx context.Context, manifest []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ctx.Err() == nil; {
			document, err := r.Read()
			if errors.Is(err, io.EOF) || !yield(document, err) || err != nil {
				return
			}
		}
		yield(nil, ctx.Err())
	}
}

// note notes the images that a manifest names. Images of an unclear manifest count as running anywhere.
func (p placement) note(ctx context.Context, manifest []byte) {
	if !bytes.Contains(manifest, roles) {
		enter(p.elsewhere, manifest)
		return
	}
	for document, err := range documents(ctx, manifest) {
		var o object
		if err == nil {
			err = onedoc.Unmarshal(document, &o)
		}
		if err != nil {
			enter(p.elsewhere, manifest)
			return
		}
		if !o.isHosted() {
			p.object(o)
		}
	}
}

func enter(images map[string]bool, text []byte) {
	for _, digest := range digests.FindAll(text, -1) {
		images[string(digest)] = true
	}
}

// object notes the images that an object names. It takes those out of o that run on the control plane.
func (p placement) object(o object) {
	for _, path := range podSpecs {
		pod := o.at(path...)
		if !pod.onControlPlane() {
			continue
		}
		for _, list := range []string{"containers", "initContainers"} {
			containers, _ := pod[list].([]any)
			for _, c := range containers {
				container, _ := c.(map[string]any)
				image, _ := container["image"].(string)
				enter(p.control, []byte(image))
				delete(container, "image")
			}
		}
	}
	rest, _ := json.Marshal(o) // it was JSON
	enter(p.elsewhere, rest)
}

// An object is one of a manifest, or a part of it.
type object map[string]any

// at returns the object in a field, nil if there is none.
func (o object) at(path ...string) object {
	for _, field := range path {
		next, _ := o[field].(map[string]any)
		o = next
	}
	return o
}

// podSpecs are where the kinds that run pods have what they run.
var podSpecs = [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"}}

// onControlPlane reports whether the scheduler puts pods with the spec o on nodes of the control plane only.
func (o object) onControlPlane() bool {
	selector := o.at("nodeSelector")
	return selector["node-role.kubernetes.io/master"] != nil || selector["node-role.kubernetes.io/control-plane"] != nil
}

// profiles begins the annotations by which CVO applies a manifest to clusters of some profiles only
// (openshift/enhancements, enhancements/update/cluster-profiles.md).
const profiles = "include.release.openshift.io/"

// hosted are the profiles of clusters whose control plane is hosted.
var hosted = []string{profiles + "ibm-cloud-managed", profiles + "hypershift"}

// isHosted reports whether o is for clusters only whose control plane is hosted. Releases are not judged for those.
func (o object) isHosted() bool {
	var included []string
	for name := range o.at("metadata", "annotations") {
		if strings.HasPrefix(name, profiles) {
			included = append(included, name)
		}
	}
	return len(included) > 0 && !slices.ContainsFunc(included, func(name string) bool { return !slices.Contains(hosted, name) })
}
