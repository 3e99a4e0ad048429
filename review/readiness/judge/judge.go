// Package judge finds out whether nodes could pull a release, and says it as a readiness.Readiness.
//
// Images are judged by the engine that reviews changes (plan.NewPulls), as if they ran already: by the
// configuration in force, and by that which the release brings, as it may require signatures that today's does
// not.
package judge

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// A Cluster provides what a review of a change does not need to know.
type Cluster interface {
	RolloutObjects() workloads.Objects
	UpdateConfig(context.Context) (*objects.UpdateConfig, error)
}

// A World is the cluster, with its registries, for which a release is judged.
type World struct {
	Cluster  Cluster
	Reviewer *review.Reviewer
	Client   transfer.Registries // for release images
	// Payloads remember what was read of release images; nil for a caller that asks once.
	Payloads *Payloads
	// Flags are those by which a command was told of the cluster, for the commands that it prints: " --from dump.yaml". "" for none.
	Flags string
}

// Release judges the release of choice. An error means that there is no verdict: the cluster could not be read, or
// the image is no release image.
func Release(ctx context.Context, w World, choice target.Release) (*readiness.Readiness, error) {
	start := time.Now()
	j, err := newJudging(ctx, w, choice)
	if err != nil {
		return nil, err
	}
	if err := j.run(ctx); err != nil {
		return nil, err
	}
	j.Took = time.Since(start)
	return &j.Readiness, nil
}

// A judging is a release that is being judged.
type judging struct {
	World
	readiness.Readiness
	state   review.State
	config  *objects.UpdateConfig
	through workloads.Objects
}

func newJudging(ctx context.Context, w World, choice target.Release) (*judging, error) {
	state, err := w.Reviewer.ReadPulls(ctx)
	if err != nil {
		return nil, err
	}
	config, err := w.Cluster.UpdateConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what an update depends on: %w", err)
	}
	return &judging{World: w, state: state, config: config, through: w.Cluster.RolloutObjects(), Readiness: readiness.Readiness{Choice: choice, Asked: choice.Asked(w.Cluster.RolloutObjects().Version), ClusterFlags: w.Flags}}, nil
}

func (j *judging) run(ctx context.Context) error {
	payload, err := j.payload(ctx)
	if err != nil {
		return err
	}
	j.Channel = channelOf(j.through.Version, j.Version)
	j.Architecture = policy.ReleaseArchitecture(j.Platform != "", j.state.Cluster.Nodes)
	j.list(payload)
	j.Signature = j.signature(payload.Image)
	j.images(ctx, payload)
	j.notes()
	return nil
}

// applied returns a payload, which others may share, with those of its image policies that CVO applies to this cluster.
func (j *judging) applied(payload *release.Payload) *release.Payload {
	own := *payload
	if gate := j.config.FeatureGate; gate != nil {
		own.Policies = payload.PoliciesFor(gate.Spec.FeatureSet)
		return &own
	}
	if own.Policies = payload.PoliciesFor(configv1.Default); len(own.Policies) < len(payload.Policies) {
		j.Problems = append(j.Problems, readiness.Problem{
			About: readiness.AboutImage, State: readiness.Unknown, Reason: "whether the release brings further image policies is not known",
			Detail: []string{text.Plural(len(payload.Policies)-len(own.Policies), "image policy", "image policies") + " in it for clusters with another feature set than the default one, and FeatureGate cluster was not read"},
		})
	}
	return &own
}

// payload finds the release image and reads what it consists of: nothing but its name if nodes would not get it, or if that
// is not known. Version is "" then.
func (j *judging) payload(ctx context.Context) (*release.Payload, error) {
	if t := j.through.Infrastructure; t != nil && t.Status.ControlPlaneTopology == configv1.ExternalTopologyMode {
		return nil, fmt.Errorf("the control plane is hosted elsewhere: HostedCluster and NodePool on the management cluster choose the release, and image content sources there its mirrors")
	}
	if err := j.resolve(ctx); err != nil {
		return nil, err
	}
	var payload *release.Payload
	var err error
	if j.Image != "" {
		if payload, err = j.read(ctx); err != nil {
			return nil, err
		}
	}
	if payload == nil {
		payload = &release.Payload{Image: cmp.Or(j.Image, j.Choice.Image)}
	} else {
		j.Version = payload.Version
		if payload.Unread != nil {
			j.Problems = append(j.Problems, readiness.Problem{About: readiness.AboutImage, State: readiness.Unknown, Reason: "whether the release brings further image policies is not known", Detail: []string{reasonOf(payload.Unread)}})
		}
		payload = j.applied(payload)
	}
	if v := j.Choice.Version; v != "" && j.Version != "" && v != j.Version {
		return nil, fmt.Errorf("the release image %s says that it is %s, not %s", j.Image, j.Version, text.Line(v))
	}
	return payload, nil
}

// judged is the namespace for which images of a release are judged: that of CVO, one of the platform's. Only the release image is known to
// run there.
const judged = "openshift-cluster-version"

// asImage returns an image as the inventory would have it if the release ran.
func (j *judging) asImage(i *readiness.Image) policy.Image {
	c := policy.Consumer{Kind: "Release", Namespace: judged, Name: cmp.Or(j.Version, j.Choice.Version, "next"), Container: i.Title(), Use: policy.NextRelease}
	if i.IsRelease {
		c.Placement = j.controlPlane()
	}
	c.AnyNamespace = !i.IsRelease && !i.OS
	return policy.Image{Ref: i.Ref, Consumers: []policy.Consumer{c}}
}

// controlPlane is the placement of CVO; nil if no node is known to be one of the control plane.
func (j *judging) controlPlane() *policy.Placement {
	for _, label := range controlPlaneLabels {
		for _, n := range j.state.Cluster.Nodes {
			if value, has := n.Labels[label]; has {
				return &policy.Placement{NodeSelector: map[string]string{label: value}}
			}
		}
	}
	return nil
}

// controlPlanePlatforms are the platforms of its nodes, or of all where none is known to be one.
func (j *judging) controlPlanePlatforms() []string {
	nodes := slices.DeleteFunc(slices.Clone(j.state.Cluster.Nodes), func(n *corev1.Node) bool { return !isControlPlane(n) })
	if len(nodes) == 0 {
		nodes = j.state.Cluster.Nodes
	}
	return policy.PlatformsOf(nodes)
}

// list enters the release image and those of its payload.
func (j *judging) list(payload *release.Payload) {
	j.Images = append(j.Images, *releaseImage(payload.Image))
	for _, i := range payload.Images {
		img := readiness.Image{Image: i}
		if i.OS {
			img.Pools = convert.Each(j.through.Pools, (*mcfgv1.MachineConfigPool).GetName)
		}
		j.Images = append(j.Images, img)
	}
}

// all returns the images that were entered as the inventory would have them.
func (j *judging) all() policy.Images {
	var all policy.ImageIndex
	for i := range j.Images {
		all.Put(j.asImage(&j.Images[i]))
	}
	return all.Images()
}

// policiesOf returns the edit that brings the image policies of a release.
func policiesOf(payload *release.Payload) mirrors.Edit {
	return mirrors.Join(convert.Each(payload.Policies, func(p *configv1.ClusterImagePolicy) mirrors.Edit { return mirrors.Put(p) })...)
}

// plans plan the pulls of the images that were entered.
func (j *judging) plans(payload *release.Payload) []plan.Plan {
	all := j.all()
	plans := []plan.Plan{j.Reviewer.PlanPulls(j.state, all, mirrors.Edit{})}
	if len(payload.Policies) > 0 {
		plans = append(plans, j.Reviewer.PlanPulls(j.state, all, policiesOf(payload)))
	}
	return plans
}

// images judges all images, by the configuration in force and with the policies that the release brings.
func (j *judging) images(ctx context.Context, payload *release.Payload) {
	plans := j.plans(payload)
	facts, _ := j.Reviewer.LookUpParts(ctx, parts(plans))
	for _, plan := range plans {
		j.Judged = review.Judged{Plan: plan, Facts: facts, Judgement: rules.Judge(plan, facts)} // that of the last plan stays
		j.judge(in("", plan), facts)
	}
	j.problems(plans)
	j.imports(payload)
	j.inNamespaces(ctx, plans, facts)
}

// partSize is how many images are looked up as a part: while the signatures of one part are asked for, the others' manifests are, so
// that a registry always has as much to do as it may have.
const partSize = limits.ProbesPerRegistry / 4

// parts returns what the plans want to know.
func parts(plans []plan.Plan) []review.NextLookups {
	var all []review.NextLookups
	for _, p := range plans {
		for _, next := range p.LookupParts(partSize) {
			all = append(all, next)
		}
	}
	return all
}

// problems notes what plans say of the configuration as a whole.
func (j *judging) problems(plans []plan.Plan) {
	what := ""
	switch {
	case len(j.state.Cluster.Nodes) == 0:
		what = "no node is known, so that it is not certain for which platforms, and by which configuration, images are pulled"
	case policy.PlatformsOf(j.state.Cluster.Nodes) == nil:
		what = "a node does not say its platform (status.nodeInfo), so that it is not certain for which platforms images are pulled"
	}
	if what != "" {
		j.Problems = append(j.Problems, readiness.Problem{
			About: readiness.AboutConfiguration, State: readiness.Unknown, Reason: what, Detail: []string{"a dump needs the Nodes (oc get nodes -o yaml), and a live cluster the right to list them"},
		})
	}
	for _, g := range plans[0].Gaps { // those about nodes do not depend on the release
		if g.Kind == policy.NodeKind && what != "" {
			continue // as above
		}
		j.Problems = append(j.Problems, readiness.Problem{About: readiness.AboutConfiguration, State: readiness.Unknown, Reason: "it is not known by which configuration some nodes pull", Detail: []string{text.Line(g.Kind + " " + g.Detail)}})
	}
	for k, plan := range plans {
		if plan.Rejected == nil || k > 0 && plans[0].Rejected != nil {
			continue
		}
		reasons := convert.Each(plan.Rejected.Reasons, mirrors.Reason.String)
		p := readiness.Problem{About: readiness.AboutConfiguration, State: readiness.NotReady, Reason: "MCO would reject the configuration once the release has brought its image policies, and would apply no change of mirrors from then on", Detail: reasons}
		if k == 0 {
			p = readiness.Problem{About: readiness.AboutConfiguration, State: readiness.Unknown, Reason: "MCO rejects the configuration in force, so that it is not certain what nodes have", Detail: reasons}
		}
		j.Problems = append(j.Problems, p)
	}
}

// imports is about ImageStreams of the payload, which openshift-apiserver would refuse to CVO.
func (j *judging) imports(payload *release.Payload) {
	streams := map[string]bool{}
	var refused []string
	for _, i := range payload.Imports {
		if j.state.Set.RefusesImport(i.Ref) && !streams[i.Stream] {
			streams[i.Stream] = true
			refused = append(refused, text.Line(i.Stream+": "+i.Ref))
		}
	}
	if len(refused) > 0 {
		j.Problems = append(j.Problems, readiness.Problem{
			About: readiness.AboutConfiguration, State: readiness.NotReady, Reason: fmt.Sprintf("allowedRegistriesForImport of Image cluster leaves out the registries of %s, by their sources, whatever the mirrors: CVO would wait for them", text.Count(len(refused), "ImageStream")),
			Detail: text.First(refused, maxImports, "ImageStream"),
		})
	}
}

// maxImports is how many ImageStreams a problem names.
const maxImports = 5

func (j *judging) notes() {
	if other := target.AlsoOffered(j.through.Version, j.Image); other != "" && j.Image != "" {
		j.Notes = append(j.Notes, fmt.Sprintf("ClusterVersion offers this release as %s, which is what CVO would pull; it was judged as given", other))
	}
	if len(j.controlPlanePlatforms()) > 1 {
		j.Notes = append(j.Notes, "the control plane has nodes of several platforms ("+strings.Join(j.controlPlanePlatforms(), ", ")+"); the payload was read for "+j.Platform)
	}
	if j.config.Unread != "" {
		j.Notes = append(j.Notes, j.config.Unread)
	}
	for _, notes := range [][]string{j.Reviewer.Inventory.Notes(), j.Reviewer.Registries.Notes()} {
		j.Notes = append(j.Notes, notes...)
	}
	for _, s := range j.Reviewer.NoteSources {
		j.Notes = append(j.Notes, s.Notes()...)
	}
}

func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// channelText is what a channel looks like that is printed beside a command.
var channelText = regexp.MustCompile(`^[0-9A-Za-z.-]+$`)

// channelOf returns the channel that the cluster follows; without one, that of the version in which every
// release comes to be. A channel of another minor version does not have it.
func channelOf(v *configv1.ClusterVersion, release string) string {
	minor := minorOf(release)
	if minor == release {
		return ""
	}
	prefix := "stable"
	if v != nil {
		if p, of, ok := strings.Cut(v.Spec.Channel, "-"); ok && channelText.MatchString(v.Spec.Channel) {
			if of == minor {
				return v.Spec.Channel
			}
			prefix = p
		}
	}
	if prefix == "eus" && strings.ContainsAny(minor[len(minor)-1:], "13579") {
		prefix = "stable" // only even minor versions have one of EUS; that of the next has the releases for updates through this one
	}
	return prefix + "-" + minor
}
