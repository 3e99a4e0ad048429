package readiness

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A Cluster provides what a review of a change does not need to know.
type Cluster interface {
	RolloutObjects() workloads.Objects
	UpdateConfig(context.Context) (*objects.UpdateConfig, error)
}

// A Carrier carries the requests of a library to a registry: a *registry.Client.
type Carrier interface {
	Transfer(l mirrors.Location, pushes bool) (http.RoundTripper, error)
}

// A World is the cluster, with its registries, for which a release is judged.
type World struct {
	Cluster  Cluster
	Reviewer *review.Reviewer
	Carrier  Carrier
}

// Judge judges the release of choice. An error means that there is no verdict: the cluster could not be read, or
// the image is no release image.
func Judge(ctx context.Context, w World, choice Choice) (*Readiness, error) {
	start := time.Now()
	pulls, err := w.Reviewer.ReadPulls(ctx)
	if err != nil {
		return nil, err
	}
	config, err := w.Cluster.UpdateConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what an update depends on: %w", err)
	}
	j := &judging{World: w, pulls: pulls, config: config, through: w.Cluster.RolloutObjects(), Readiness: Readiness{Choice: choice}}
	if err := j.run(ctx); err != nil {
		return nil, err
	}
	j.Took = time.Since(start)
	j.Record.Took = j.Took
	return &j.Readiness, nil
}

// A judging is a release that is being judged.
type judging struct {
	World
	Readiness
	pulls   review.Pulls
	config  *objects.UpdateConfig
	through workloads.Objects
}

func (j *judging) run(ctx context.Context) error {
	if t := j.through.Infrastructure; t != nil && t.Status.ControlPlaneTopology == configv1.ExternalTopologyMode {
		return fmt.Errorf("the control plane is hosted elsewhere: HostedCluster and NodePool on the management cluster choose the release, and image content sources there its mirrors")
	}
	if err := j.resolve(ctx); err != nil {
		return err
	}
	var payload *release.Payload
	var err error
	if j.Image != "" {
		if payload, err = j.read(ctx); err != nil {
			return err
		}
	}
	if payload == nil {
		payload = &release.Payload{Image: cmp.Or(j.Image, j.Choice.Image)}
	} else {
		j.Version = payload.Version
	}
	if v := j.Choice.Version; v != "" && j.Version != "" && v != j.Version {
		return fmt.Errorf("--release %s: the release image %s says that it is %s", text.Line(v), j.Image, j.Version)
	}
	j.Channel = channelOf(j.through.Version, j.Version)
	j.images(ctx, payload)
	j.Signature = j.signature(payload.Image)
	j.Gate = gateOf(j.config, j.through.Version)
	j.notes()
	return nil
}

// judged is the namespace for which images of a release are judged: that of CVO, one of the platform's.
const judged = "openshift-cluster-version"

// asImage returns an image as the inventory would have it if the release ran.
func (j *judging) asImage(i *Image) policy.Image {
	c := policy.Consumer{Kind: "Release", Namespace: judged, Name: cmp.Or(j.Version, j.Choice.Version, "next"), Container: i.Title()}
	if i.IsRelease {
		c.Placement = j.controlPlane()
	}
	return policy.Image{Ref: i.Ref, Consumers: []policy.Consumer{c}}
}

// Labels of the nodes of the control plane.
const (
	masterLabel       = "node-role.kubernetes.io/master"
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// controlPlane is the placement of CVO; nil if no node is known to be one of the control plane.
func (j *judging) controlPlane() *policy.Placement {
	for _, label := range []string{masterLabel, controlPlaneLabel} {
		has := func(n *corev1.Node) bool { _, ok := n.Labels[label]; return ok }
		if i := slices.IndexFunc(j.pulls.Nodes(), has); i >= 0 {
			return &policy.Placement{NodeSelector: map[string]string{label: j.pulls.Nodes()[i].Labels[label]}}
		}
	}
	return nil
}

// controlPlanePlatforms are the platforms of its nodes, or of all where none is known to be one.
func (j *judging) controlPlanePlatforms() []string {
	nodes := slices.DeleteFunc(slices.Clone(j.pulls.Nodes()), func(n *corev1.Node) bool {
		_, master := n.Labels[masterLabel]
		_, plane := n.Labels[controlPlaneLabel]
		return !master && !plane
	})
	if len(nodes) == 0 {
		nodes = j.pulls.Nodes()
	}
	return policy.PlatformsOf(nodes)
}

// images judges the release image and those of its payload.
func (j *judging) images(ctx context.Context, payload *release.Payload) {
	j.Images = append(j.Images, Image{Image: release.Image{Name: "release", Ref: payload.Image, Level: release.NoLevel}, IsRelease: true})
	for _, i := range payload.Images {
		img := Image{Image: i}
		if i.OS {
			img.Pools = each.Of(j.through.Pools, (*mcfgv1.MachineConfigPool).GetName)
		}
		j.Images = append(j.Images, img)
	}
	var all policy.ImageIndex
	for i := range j.Images {
		all.Put(j.asImage(&j.Images[i]))
	}
	plans := []policy.Plan{j.Reviewer.PlanPulls(j.pulls, all.Images(), mirrors.Edit{})}
	if len(payload.Policies) > 0 {
		brought := each.Of(payload.Policies, func(p *configv1.ClusterImagePolicy) mirrors.Edit { return mirrors.Put(p) })
		plans = append(plans, j.Reviewer.PlanPulls(j.pulls, all.Images(), mirrors.Join(brought...)))
	}
	facts, asked := j.Reviewer.LookUp(ctx, lookups(plans))
	for _, plan := range plans {
		j.judge(plan, plan.Decide(facts), facts)
	}
	last := plans[len(plans)-1]
	j.Record = review.Record{
		Subject: "The release", Plan: last, Facts: facts, Asked: asked, Verdict: last.Decide(facts),
		Change: policy.Change{Before: j.pulls.Set(), After: j.pulls.Set()},
	}
	j.problems(plans)
}

// lookups returns what any of the plans wants to know.
func lookups(plans []policy.Plan) review.NextLookups {
	return func(facts policy.Facts) []mirrors.Location {
		var all []mirrors.Location
		seen := map[mirrors.Location]bool{}
		for _, p := range plans {
			for _, l := range p.Lookups(facts) {
				if !seen[l] {
					seen[l] = true
					all = append(all, l)
				}
			}
		}
		return all
	}
}

// judge enters what a plan says of each image: what is worst of all plans stays.
func (j *judging) judge(plan policy.Plan, verdict policy.Verdict, facts policy.Facts) {
	results := map[string]policy.Result{}
	routes := map[string][]*policy.Reroute{}
	image := -1 // among the results
	for i := range plan.Reroutes {
		r := &plan.Reroutes[i]
		if i == 0 || r.Image.Ref != plan.Reroutes[i-1].Image.Ref {
			image++
			results[r.Image.Ref] = verdict.Results[image]
		}
		routes[r.Image.Ref] = append(routes[r.Image.Ref], r)
	}
	found := map[string][]policy.Finding{}
	for _, f := range verdict.Findings {
		found[f.Image.Ref] = append(found[f.Image.Ref], f)
	}
	for i := range j.Images {
		img := &j.Images[i]
		result, planned := results[img.Ref]
		img.enter(stateOf(result, planned), found[img.Ref])
		for _, r := range routes[img.Ref] {
			img.look(r, facts)
		}
	}
}

func stateOf(result policy.Result, planned bool) State {
	switch {
	case !planned: // no node can make sense of its name
		return NotReady
	case result == policy.ResultVerified:
		return Ready
	case result == policy.ResultFails || result == policy.ResultFailsAlready:
		return NotReady
	default:
		return Unknown
	}
}

// enter adds what a further plan says of the image.
func (i *Image) enter(s State, findings []policy.Finding) {
	switch {
	case !i.judged:
		i.State = s
	case s == NotReady || i.State == NotReady:
		i.State = NotReady
	default:
		i.State = min(i.State, s)
	}
	i.judged = true
	for _, f := range findings {
		same := slices.IndexFunc(i.Findings, func(known policy.Finding) bool { return known.Rule == f.Rule })
		if same < 0 {
			i.Findings = append(i.Findings, f)
		} else if f.Severity >= i.Findings[same].Severity {
			i.Findings[same] = f
		}
	}
	slices.SortStableFunc(i.Findings, func(a, b policy.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
}

// look notes where nodes would get the image, and its signatures there.
func (i *Image) look(r *policy.Reroute, facts policy.Facts) {
	at, _, ok := policy.Served(r.After, facts)
	if !ok {
		return
	}
	if i.At == "" {
		i.At = at.Ref
	}
	for k := range r.After.Sources {
		s := &r.After.Sources[k]
		if s.Location != at || s.Trust == nil {
			continue
		}
		i.Required = true
		for _, f := range policy.SignaturesAt(*s, facts) {
			if !slices.ContainsFunc(i.Signatures, func(known policy.SignatureFinding) bool { return known.At == f.At && known.Digest == f.Digest }) {
				i.Signatures = append(i.Signatures, f)
			}
		}
	}
}

// problems notes what plans say of the configuration as a whole.
func (j *judging) problems(plans []policy.Plan) {
	seen := map[string]bool{}
	for k, plan := range plans {
		for _, g := range plan.Gaps {
			if detail := text.Line(g.Kind + " " + g.Detail); !seen[detail] {
				seen[detail] = true
				j.Problems = append(j.Problems, Problem{Unknown, "it is not known by which configuration some nodes pull", []string{detail}})
			}
		}
		if plan.Rejected == nil || k > 0 && plans[0].Rejected != nil {
			continue
		}
		reasons := each.Of(plan.Rejected.Reasons, mirrors.Reason.String)
		p := Problem{NotReady, "MCO would reject the configuration once the release has brought its image policies, and would apply no change of mirrors from then on", reasons}
		if k == 0 {
			p = Problem{Unknown, "MCO rejects the configuration in force, so that it is not certain what nodes have", reasons}
		}
		j.Problems = append(j.Problems, p)
	}
}

func (j *judging) notes() {
	if other := alsoOffered(j.through.Version, j.Image); other != "" && j.Image != "" {
		j.Notes = append(j.Notes, fmt.Sprintf("ClusterVersion offers this release as %s, which is what CVO would pull; it was judged as given", other))
	}
	if len(j.controlPlanePlatforms()) > 1 {
		j.Notes = append(j.Notes, "the control plane has nodes of several platforms ("+strings.Join(j.controlPlanePlatforms(), ", ")+"); the payload was read for "+j.Platform)
	}
	if len(j.pulls.Nodes()) == 0 {
		j.Notes = append(j.Notes, "no node is known: images were judged for all platforms that they have")
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

// channelOf returns the channel that the cluster follows; without one, that of the version in which every
// release comes to be. A channel of another minor version does not have it.
func channelOf(v *configv1.ClusterVersion, release string) string {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 3 {
		return ""
	}
	minor := parts[0] + "." + parts[1]
	prefix := "stable"
	if v != nil {
		if p, of, ok := strings.Cut(v.Spec.Channel, "-"); ok {
			if of == minor {
				return v.Spec.Channel
			}
			prefix = p
		}
	}
	if prefix == "eus" && strings.HasSuffix(minor, "1") {
		prefix = "stable"
	}
	return prefix + "-" + minor
}
