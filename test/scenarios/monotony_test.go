package scenarios

import (
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// A loss takes away what is known in a story: it changes the answers of registries, or the cluster.
type loss struct {
	name   string
	answer func(l mirrors.Location, f policy.Fact) policy.Fact
	known  func(*plan.Cluster)
	stop   func() func() bool
}

// inRollouts takes something away of what is known of a rollout, or has it begin later.
func inRollouts(name string, change func(*rollout.Cluster)) loss {
	return loss{name: name, known: func(c *plan.Cluster) { change(c.Rollout) }}
}

var (
	noTime    = loss{name: "time to simulate", stop: func() func() bool { return func() bool { return true } }}
	noBudgets = inRollouts("budgets", func(c *rollout.Cluster) { c.Budgets, c.Unknown = nil, append(c.Unknown, "poddisruptionbudgets") })
)

func cordon(c *rollout.Cluster, n int) {
	c.Nodes = convert.Each(c.Nodes, (*corev1.Node).DeepCopy)
	for _, node := range c.Nodes[:n] {
		node.Spec.Unschedulable = true
	}
}

func lossesOf(s *Scenario) []loss {
	all := []loss{
		{"the pull secret of the nodes", func(_ mirrors.Location, f policy.Fact) policy.Fact {
			f.AsNodes = false
			return f
		}, nil, nil},
		{"all time", func(mirrors.Location, policy.Fact) policy.Fact { return policy.Fact{Detail: "no answer yet"} }, nil, nil},
		{"how fresh misses are", func(_ mirrors.Location, f policy.Fact) policy.Fact {
			f.Recalled = f.Presence == policy.Absent
			return f
		}, nil, nil},
		{"all nodes", nil, func(c *plan.Cluster) { c.Nodes = nil }, nil},
		{"the rendered configs", nil, func(c *plan.Cluster) {
			c.Current = slices.Clone(c.Current)
			for i := range c.Current {
				c.Current[i].Routes = nil
			}
		}, nil},
		{"whether all pods are known", nil, func(c *plan.Cluster) { c.PodsListed = nil }, nil},
		{"which namespaces end", nil, func(c *plan.Cluster) { c.EndingNamespaces = nil }, nil},
		{"where pods may run, whether they pull, and what their nodes say", nil, func(c *plan.Cluster) {
			var images []policy.Image
			for img := range c.Images.All() {
				img.Consumers = slices.Clone(img.Consumers)
				for i := range img.Consumers {
					u := &img.Consumers[i]
					u.Placement, u.NeverPulls, u.Ending, u.NeverRan = nil, false, false, false
				}
				images = append(images, img)
			}
			c.Images = policy.NewImages(images...)
		}, nil},
		noTime, noBudgets,
		inRollouts("node actions", func(c *rollout.Cluster) { c.Machines, c.Unknown = nil, append(c.Unknown, "machineconfigurations") }),
		inRollouts("news of pods and nodes", func(c *rollout.Cluster) { c.Unknown = append(c.Unknown, "pods", "nodes") }),
		inRollouts("pools that go on", func(c *rollout.Cluster) {
			c.Pools = convert.Each(c.Pools, (*mcfgv1.MachineConfigPool).DeepCopy)
			for _, p := range c.Pools {
				p.Spec.Paused = true
			}
		}),
		inRollouts("nodes that are ready", func(c *rollout.Cluster) { cordon(c, len(c.Nodes)) }),
		inRollouts("nodes that are ready but one, and all may not be", func(c *rollout.Cluster) {
			cordon(c, max(len(c.Nodes)-1, 0))
			c.Pools = convert.Each(c.Pools, (*mcfgv1.MachineConfigPool).DeepCopy)
			for _, p := range c.Pools {
				p.Spec.MaxUnavailable = new(intstr.FromString("100%"))
			}
		}),
	}
	for _, host := range s.Hosts() {
		for name, instead := range map[string]policy.Fact{
			"is out of reach": {Presence: policy.Unreachable, AsNodes: true}, "shows a page": {Presence: policy.Mismatch, AsNodes: true, Detail: "a page"},
			"denies strangers": {Presence: policy.Denied}, "hides from strangers": {Presence: policy.Absent}, "is late": {Detail: "no answer yet"},
			"hides a part": {Presence: policy.Inconclusive, AsNodes: true},
		} {
			for _, also := range []loss{{}, noTime, noBudgets} {
				also.name += " " + host + " " + name
				also.answer = func(l mirrors.Location, f policy.Fact) policy.Fact {
					if strings.HasPrefix(l.Ref, host+"/") {
						return instead
					}
					return f
				}
				all = append(all, also)
			}
		}
	}
	return all
}

// TestLessKnownInStories: in no story is a denied change admitted by what is taken away of what is known,
// but for the exceptions in docs/truth.md.
func TestLessKnownInStories(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	asked, denied, excepted := 0, 0, map[string]int{}
	for _, s := range all {
		if _, invalid := s.Invalid(); invalid {
			continue
		}
		story := tell(t, &s)
		full := story.judge(loss{}).Verdict
		if full.Allowed || !slices.ContainsFunc(full.Findings, func(f policy.Finding) bool { return f.Severity == policy.Deny && f.Image.Ref != "" }) {
			continue // or refused whatever is known of images
		}
		denied++
		for _, l := range lossesOf(&s) {
			asked++
			less := story.judge(l).Verdict
			if !less.Allowed {
				continue
			}
			if name := exceptionIn(full, less); name != "" {
				excepted[name]++
				continue
			}
			t.Errorf("%s: admitted without %s\n%s\n%s", s.Name, l.name, words.Answer(full, "X"), words.Answer(less, "X"))
		}
	}
	t.Logf("%d stories are denied, asked %d times with less known; exceptions: %v", denied, asked, excepted)
}

func exceptionIn(full, less policy.Verdict) string {
	if less.Counts.MovedLost < full.Counts.MovedLost && !slices.ContainsFunc(full.Findings, func(f policy.Finding) bool { return f.Severity == policy.Deny && f.Rule != policy.DrainLosesPod }) {
		return "what a drain moves is not proved to be lost"
	}
	for _, f := range less.Findings {
		switch {
		case f.Rule == policy.UnverifiedInFront:
			return "a place in front that could not be asked"
		case f.Rule == policy.PlatformMissing && f.Severity == policy.Warn && !(settings.Settings{}).IsProtected(f.Image):
			return "the source itself is the image"
		}
	}
	return ""
}
