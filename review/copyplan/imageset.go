package copyplan

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// The part of oc-mirror's ImageSetConfiguration (v2alpha1) that is written.
type imageSet struct {
	Kind       string       `json:"kind"`
	APIVersion string       `json:"apiVersion"`
	Mirror     imageSetSpec `json:"mirror"`
}

type imageSetSpec struct {
	Platform         *platform         `json:"platform,omitempty"`
	AdditionalImages []additionalImage `json:"additionalImages,omitempty"`
}

type platform struct {
	Architectures []string  `json:"architectures,omitempty"`
	Channels      []channel `json:"channels"`
}

type channel struct {
	Name       string `json:"name"`
	MinVersion string `json:"minVersion"`
	MaxVersion string `json:"maxVersion"`
}

type additionalImage struct {
	Name       string `json:"name"`
	TargetRepo string `json:"targetRepo,omitempty"`
}

// Where oc-mirror puts the images of a release, below its destination.
const (
	releaseRepository  = "openshift/release"
	releasesRepository = "openshift/release-images"
)

// writeImageSet writes a configuration for oc-mirror. One run copies to one registry, so that images for
// others are only named.
func (p *Plan) writeImageSet(b *bufio.Writer) {
	destination := destinationOf(p.Copies)
	set := imageSet{Kind: "ImageSetConfiguration", APIVersion: "mirror.openshift.io/v2alpha1"}
	var elsewhere []string
	release, unknown := 0, false
	apart := slices.DeleteFunc(slices.Clone(p.Copies), func(c Copy) bool { return c.NotByOCMirror == "" })
	whole := !slices.ContainsFunc(append(apart, p.Left...), func(c Copy) bool { return p.isOfRelease(c, targetOf(c, destination)) })
	for _, c := range p.Copies {
		target := targetOf(c, destination)
		switch {
		case target == "":
			elsewhere = append(elsewhere, c.To.Ref+", as a run of oc-mirror has one destination; see plan -o mapping.")
		case c.NotByOCMirror != "":
			elsewhere = append(elsewhere, c.To.Ref+", as "+c.NotByOCMirror+"; see plan -o sh.")
		case p.isOfRelease(c, target):
			if p.Release.Architecture != "" && whole {
				release++
				continue
			}
			unknown = unknown || p.Release.Architecture == ""
			fallthrough
		default:
			set.Mirror.AdditionalImages = append(set.Mirror.AdditionalImages, additional(c, target))
		}
	}
	if release > 0 {
		set.Mirror.Platform = &platform{Architectures: p.Release.architectures(), Channels: []channel{{p.Release.Channel, p.Release.Version, p.Release.Version}}}
	}
	insecure := ""
	from, to := p.insecure()
	if from {
		insecure = " --src-tls-verify=false"
	}
	if to {
		insecure += " --dest-tls-verify=false"
	}
	if destination == "" {
		fmt.Fprint(b, text.Comment("%s. There is nothing for oc mirror to do", p.summary()))
	} else {
		fmt.Fprint(b, text.Comment("%s. Run: oc mirror --v2 -c FILE --workspace file://WORKSPACE%s docker://%s", p.summary(), insecure, destination))
	}
	p.sayImageSet(b, release, unknown, elsewhere)
	p.writeRemarks(b, false)
	data, err := yaml.Marshal(set)
	if err != nil { // of strings
		fmt.Fprint(b, text.Comment("%v", err))
		return
	}
	b.Write(data) //nolint:errcheck // Flush reports it
}

// targetOf returns the repository of a copy below a destination, "" if it is not there.
func targetOf(c Copy, destination string) string {
	target, below := strings.CutPrefix(c.To.Repository(), destination+"/")
	if destination == "" || !below {
		return ""
	}
	return target
}

// sayImageSet says what the configuration cannot express.
func (p *Plan) sayImageSet(b *bufio.Writer, release int, unknown bool, elsewhere []string) {
	fmt.Fprint(b, text.Comment("oc-mirror copies signatures since 4.21; before, take the signatures from plan -o mapping or -o sh."))
	fmt.Fprint(b, text.Comment("targetRepo needs an oc-mirror that knows it: an older one puts these images where nodes do not look."))
	if release > 0 {
		fmt.Fprint(b, text.Comment("%s of release %s by platform: all of that release is copied.", text.Plural(release, "image is that", "images are those"), p.Release.Version))
	}
	if unknown {
		fmt.Fprint(b, text.Comment("Not expressed: release %s by platform, as it is not known for which architecture it is: its images are additional ones.", p.Release.Version))
	}
	for _, ref := range elsewhere {
		fmt.Fprint(b, text.Comment("Not expressed: %s", ref))
	}
}

// isOfRelease reports whether mirroring the cluster's release copies c, whose repository is target below
// the destination. An image that only history names may be of another one.
func (p *Plan) isOfRelease(c Copy, target string) bool {
	return p.Release.Version != "" && p.Release.Channel != "" && (target == releaseRepository || target == releasesRepository) &&
		mirrors.ByDigest(c.To.Ref) && c.Image.Use() != policy.History
}

// additional returns c as an additional image, with the repository below the destination where that is
// not the one that oc-mirror would choose. A tag with a digest is pulled by the digest, and pushed to the
// tag.
func additional(c Copy, target string) additionalImage {
	name := c.From.Ref
	repository := c.From.Repository()
	if _, version, ok := mirrors.Canonical(c.To.Ref); ok && strings.HasPrefix(version, ":") && mirrors.ByDigest(name) {
		name = repository + version + strings.TrimPrefix(name, repository)
	}
	image := additionalImage{Name: name}
	if _, path, _ := strings.Cut(repository, "/"); path != target {
		image.TargetRepo = target
	}
	return image
}

// destinationOf returns the registry, with the path that all copies to it have in common with what
// oc-mirror would choose, to which most copies go; "" if there are none.
func destinationOf(copies []Copy) string {
	hosts := map[string]int{}
	best := ""
	for _, c := range copies {
		host := c.To.Host()
		if hosts[host]++; hosts[host] > hosts[best] || hosts[host] == hosts[best] && host < best {
			best = host
		}
	}
	if best == "" {
		return ""
	}
	prefixes := map[string]int{}
	prefix := best
	for _, c := range copies {
		to := c.To.Repository()
		_, path, _ := strings.Cut(c.From.Repository(), "/")
		if p, ok := strings.CutSuffix(to, "/"+path); ok && strings.HasPrefix(to, best+"/") {
			if prefixes[p]++; prefixes[p] > prefixes[prefix] {
				prefix = p
			}
		}
	}
	outside := func(c Copy) bool {
		to := c.To.Repository()
		return strings.HasPrefix(to, best+"/") && !strings.HasPrefix(to, prefix+"/")
	}
	if slices.ContainsFunc(copies, outside) {
		return best
	}
	return prefix
}

// architectures is what oc-mirror has to be told: without a word, it takes the release for amd64.
func (r Release) architectures() []string {
	if r.Architecture == "amd64" {
		return nil
	}
	return []string{r.Architecture}
}

// ReleaseOf returns what v says, on a cluster with nodes; v is nil for a cluster that does not say it. Without a channel, it is the one
// in which every version comes to be.
func ReleaseOf(v *configv1.ClusterVersion, nodes []*corev1.Node) Release {
	if v == nil || v.Status.Desired.Version == "" {
		return Release{}
	}
	version := v.Status.Desired.Version
	channel := v.Spec.Channel
	if parts := strings.SplitN(version, ".", 3); channel == "" && len(parts) == 3 {
		channel = "stable-" + parts[0] + "." + parts[1]
	}
	multi := v.Status.Desired.Architecture == configv1.ClusterVersionArchitectureMulti
	return Release{Version: version, Channel: channel, Architecture: policy.ReleaseArchitecture(multi, nodes)}
}
