package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
)

// A judgement is the finding of a plan about one image.
type judgement struct {
	state    readiness.State
	findings []policy.Finding
	routes   []*evidence.Reroute
}

// judgements returns what a plan says, by image. There is none for what no node can make sense of.
func judgements(plan plan.Plan, facts policy.Facts) map[string]judgement {
	of := map[string]judgement{}
	verdict := rules.Judge(plan, facts)
	image := -1 // among the results
	for i := range plan.Reroutes {
		r := &plan.Reroutes[i]
		if i == 0 || r.Image.Ref != plan.Reroutes[i-1].Image.Ref {
			image++
		}
		of[r.Image.Ref] = judgement{state: stateOf(verdict.Results[image]), routes: append(of[r.Image.Ref].routes, r)}
	}
	for _, f := range verdict.Findings {
		if j, ok := of[f.Image.Ref]; ok {
			j.findings = append(j.findings, f)
			of[f.Image.Ref] = j
		}
	}
	return of
}

// judge enters what a plan says of each image: an image keeps its worst state of all plans.
func (j *judging) judge(plan plan.Plan, facts policy.Facts) {
	of := judgements(plan, facts)
	nodes, controlPlane := policy.PlatformsOf(j.state.Cluster.Nodes), j.controlPlanePlatforms()
	for i := range j.Images {
		img := &j.Images[i]
		said, planned := of[img.Ref]
		if !planned {
			said.state = readiness.NotReady
		}
		enter(img, said.state, said.findings)
		for _, r := range said.routes {
			look(img, r, facts)
			fits(img, r, facts, nodes, controlPlane)
		}
	}
}

func stateOf(result policy.Result) readiness.State {
	switch result {
	case policy.ResultVerified:
		return readiness.Ready
	case policy.ResultFails, policy.ResultFailsAlready:
		return readiness.NotReady
	default:
		return readiness.Unknown
	}
}

// enter adds what a further plan says of the image.
func enter(i *readiness.Image, s readiness.State, findings []policy.Finding) {
	switch {
	case !i.Planned:
		i.State = s
	case s == readiness.NotReady || i.State == readiness.NotReady:
		i.State = readiness.NotReady
	default:
		i.State = min(i.State, s)
	}
	i.Planned = true
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
func look(i *readiness.Image, r *evidence.Reroute, facts policy.Facts) {
	at, _, ok := evidence.Served(r.After, facts)
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
		for _, f := range evidence.SignaturesAt(*s, facts) {
			if !slices.ContainsFunc(i.Signatures, func(known evidence.SignatureFinding) bool {
				return known.At == f.At && known.Digest == f.Digest && known.State == f.State
			}) {
				i.Signatures = append(i.Signatures, f)
			}
		}
	}
}

// fits notes the platforms of nodes that an image of the payload is not for. A change is not to blame for what an image never
// had (rule PlatformMissing); a release is, as its images run on all nodes unless it says that they run on the control plane.
func fits(i *readiness.Image, r *evidence.Reroute, facts policy.Facts, nodes, controlPlane []string) {
	at, fact, ok := evidence.Served(r.After, facts)
	if !ok || i.IsRelease {
		return
	}
	if i.ControlPlane {
		nodes = controlPlane
	}
	lacks := slices.DeleteFunc(slices.Clone(nodes), func(p string) bool {
		return !strings.HasPrefix(p, "linux/") || !slices.Contains(fact.Lacks, p) // nodes of Windows run none of it
	})
	if len(lacks) == 0 {
		return
	}
	platforms := strings.Join(lacks, ", ")
	enter(i, readiness.NotReady, []policy.Finding{{
		Rule: policy.PlatformMissing, Severity: policy.Deny, Image: r.Image,
		Reason: "nodes have the platform " + platforms + ", and the image is not for it", Detail: []string{at.Ref + ": found; it is not for " + platforms},
		Remedy: []string{"choose a release for all platforms of nodes (architecture: Multi)"},
	}})
}
