package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// workers returns a cluster of n nodes in pool worker. Each of the first two runs a pod of
// image that is pulled each time it starts and shares no node with another; a budget wants
// one of them.
func workers(n int, image string) *rollout.Cluster {
	c := &rollout.Cluster{
		Pools: []*mcfgv1.MachineConfigPool{pools.Worker("1")},
		Budgets: []*policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: &intstr.IntOrString{IntVal: 1}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}},
			},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2},
		}},
	}
	spec := &rollout.PodSpec{
		Labels:     map[string]string{"app": "cart"},
		Containers: []rollout.Container{{Name: "cart", Image: image, Pull: corev1.PullAlways}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}, TopologyKey: corev1.LabelHostname,
		}}}},
	}
	for i := range n {
		name := fmt.Sprintf("worker-%d", i+1)
		node := pools.Node(name)
		node.Labels[corev1.LabelHostname], node.CreationTimestamp = name, metav1.Unix(int64(i), 0)
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("250")}
		c.Nodes = append(c.Nodes, node)
		if i < 2 {
			c.Pods = append(c.Pods, rollout.Pod{
				Namespace: "shop", Name: fmt.Sprintf("cart-%d", i+1), Node: name, Spec: spec, Started: true, Ready: true,
				Owner: rollout.Owner{Kind: "ReplicaSet", Name: "cart"},
			})
		}
	}
	return c
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// foretell returns the forecast of a change by which images of quay.io/shop come from a
// mirror, for tags or for digests, and the verdict with it.
func foretell(through *rollout.Cluster, before mirrors.Set, edit mirrors.Edit, found policy.Facts, s settings.Settings) (*forecast.Forecast, policy.Verdict) {
	p := ofCart(through, before, edit, s)
	f := forecast.Of(p, found, forecast.Forecaster{Now: noon})
	return f, WithForecast(p, Decide(p, found), f)
}

func ofCart(through *rollout.Cluster, before mirrors.Set, edit mirrors.Edit, s settings.Settings) plan.ChangePlan {
	cart := policy.Image{Ref: "quay.io/shop/cart:v1", Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "cart", Use: policy.Running}}}
	return shallower(newPlan(policy.Change{Before: before, After: edit.Apply(before)}, plan.Cluster{Images: policy.NewImages(cart), Rollout: through}, s))
}

const (
	atMirror = "m.local/shop/cart:v1"
	atSource = "quay.io/shop/cart:v1"
)

func tagsFromMirror() mirrors.Edit {
	return mirrors.Put(itms("shop", "quay.io/shop", never, "m.local/shop"))
}

// TestForecast: what is said of the nodes, and what of the images.
func TestForecast(t *testing.T) {
	everywhere := facts(atMirror+" present", atSource+" present")
	busy := workers(3, atSource)
	busy.Pools[0].Status = mcfgv1.MachineConfigPoolStatus{MachineCount: 3, Conditions: []mcfgv1.MachineConfigPoolCondition{{Type: mcfgv1.MachineConfigPoolDegraded, Status: corev1.ConditionTrue, Message: "content mismatch"}}}
	paused := workers(3, atSource)
	paused.Pools[0].Spec.Paused = true
	full := workers(3, atSource)
	full.Budgets[0].Spec.MinAvailable.IntVal, full.Budgets[0].Status.DisruptionsAllowed = 2, 0
	pinned := func(budgets ...*policyv1.PodDisruptionBudget) *rollout.Cluster {
		c := workers(3, atSource)
		spec := *c.Pods[0].Spec
		spec.NodeSelector = map[string]string{corev1.LabelHostname: c.Pods[0].Node}
		c.Pods[0].Spec, c.Budgets = &spec, budgets
		return c
	}
	unread, free := workers(3, atSource), workers(3, atSource)
	unread.Unknown, free.Unknown, free.Budgets = []string{"pods"}, []string{"poddisruptionbudgets"}, nil
	actions := workers(3, atSource)
	actions.Unknown = []string{"machineconfigurations"}
	nothing := workers(3, atSource)
	nothing.Unknown, nothing.Budgets = []string{"machineconfigurations", "poddisruptionbudgets"}, nil
	hosted, alone, few := workers(3, atSource), workers(3, atSource), workers(3, atSource)
	hosted.Topology = configv1.ExternalTopologyMode
	alone.Topology, alone.Unknown = configv1.SingleReplicaTopologyMode, actions.Unknown
	few.Pools[0].Spec.MaxUnavailable = new(intstr.FromString("few"))
	stuck, twin := itms("a", "quay.io/other", never, "m.local/other"), itms("b", "quay.io/other", allow, "m.local/other")
	warn := settings.Settings{Namespaces: []settings.NamespaceSeverity{{Pattern: "shop", Severity: policy.Warn}}}
	for _, tt := range []struct {
		name     string
		through  *rollout.Cluster
		before   mirrors.Set
		edit     mirrors.Edit
		facts    policy.Facts
		settings settings.Settings
		line     string
		want     string // of summary
	}{
		{"tags drain", workers(3, " "+atSource), set(), tagsFromMirror(), everywhere, settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", ""},
		{"digests do not", workers(3, atSource), set(), mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop")), everywhere, settings.Settings{}, "reloads CRI-O without a drain on 3 nodes, about a minute", "warn NoEffect"},
		{"the mirror lacks it", workers(3, atSource), set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "deny NotFullySynced, deny RolloutStalls"},
		{"a namespace may not hold up changes, but a stall is not its own affair", workers(3, atSource), set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), warn, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "deny RolloutStalls, warn NotFullySynced"},
		{"unless the settings say so", workers(3, atSource), set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), settings.Settings{Namespaces: warn.Namespaces, Severities: map[string]policy.Severity{policy.RolloutStalls: policy.Warn}}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "warn NotFullySynced, warn RolloutStalls"},
		{"which is not of what is protected", workers(3, atSource), set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), settings.Settings{Protected: []string{"shop"}, Severities: map[string]policy.Severity{policy.RolloutStalls: policy.Warn}}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "deny NotFullySynced, deny RolloutStalls"},
		{"nobody knows whether the mirror has it", workers(3, atSource), set(), tagsFromMirror(), facts(atMirror+" unreachable", atSource+" present"), warn, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "deny RolloutStalls, warn NotFullySynced"},
		{"the way out of a stall", workers(3, atSource), set(itms("shop", "quay.io/shop", never, "m.local/shop")), mirrors.Delete(itms("shop", "quay.io/shop", never, "m.local/shop")), facts(atMirror+" absent", atSource+" present"), settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "warn RolloutStalls"},
		{"a budget without room", full, set(), tagsFromMirror(), everywhere, settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "warn DrainBlocked"},
		{"which is a denial if somebody wants it", full, set(), tagsFromMirror(), everywhere, settings.Settings{Severities: map[string]policy.Severity{policy.DrainBlocked: policy.Deny}}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "deny DrainBlocked"},
		{"a pod that fits one node only is evicted all the same", pinned(), set(), tagsFromMirror(), everywhere, settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", ""},
		{"unless a budget holds it", pinned(full.Budgets...), set(), tagsFromMirror(), everywhere, settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "warn DrainBlocked"},
		{"a degraded pool", busy, set(), tagsFromMirror(), everywhere, settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes", "warn RolloutBusy"},
		{"a paused pool", paused, set(), tagsFromMirror(), everywhere, settings.Settings{}, "reaches no node; pool worker is paused", "warn PoolPaused"},
		{"a paused pool, for what its drains lose", paused, set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), warn, "reaches no node; pool worker is paused", "deny RolloutStalls, warn NotFullySynced, warn PoolPaused"},
		{"pods that could not be read", unread, set(), tagsFromMirror(), everywhere, settings.Settings{}, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes; the drains were simulated with what was last read of pods and nodes", ""},
		{"budgets that could not be read", free, set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), warn, "drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes; the drains were simulated without budgets, which could not be read", "deny RolloutStalls, warn NotFullySynced"},
		{"an administrator may have digests drain", actions, set(), mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop")), facts(atSource + " absent"), settings.Settings{}, "reloads CRI-O without a drain on 3 nodes, about a minute; the other image that drains move cannot be pulled", "deny RolloutStalls, warn NoEffect"},
		{"and nobody knows at which budgets", nothing, set(), mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop")), facts(atSource + " absent"), settings.Settings{}, "reloads CRI-O without a drain on 3 nodes, about a minute; the drains were simulated without budgets, which could not be read; the other image that drains move cannot be pulled", "deny RolloutStalls, warn NoEffect"},
		{"a single node is never drained", alone, set(), mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop")), facts(atSource + " absent"), settings.Settings{}, "reloads CRI-O without a drain on 3 nodes, about a minute", "warn NoEffect"},
		{"what nodes have is not known, and all that waits comes with the repair", workers(3, atSource), set(stuck, twin), mirrors.Delete(twin), facts(atSource + " absent"), settings.Settings{}, "reaches no node; the other image that drains move cannot be pulled", "deny RolloutStalls, warn RejectedByMCO"},
		{"a pool whose number MCO cannot read, until it can", few, set(), tagsFromMirror(), facts(atMirror+" absent", atSource+" present"), warn, "reaches no node; no node of pool worker is taken: its maxUnavailable is invalid: invalid value for IntOrString: invalid type: string is not a percentage", "deny RolloutStalls, warn NotFullySynced"},
		{"no file that differs", workers(3, atSource), set(), mirrors.Edit{}, everywhere, settings.Settings{}, "reaches no node", ""},
		{"a hosted cluster", hosted, set(), tagsFromMirror(), everywhere, settings.Settings{}, "changes nodes as their NodePool says (Replace or InPlace): hosted clusters are not covered", ""},
		{"no nodes", &rollout.Cluster{}, set(), tagsFromMirror(), everywhere, settings.Settings{}, "none", ""},
		{"nothing is known", nil, set(), tagsFromMirror(), everywhere, settings.Settings{}, "none", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, v := foretell(tt.through, tt.before, tt.edit, tt.facts, tt.settings)
			line := "none"
			if f != nil {
				line = f.String()
			}
			if line != tt.line {
				t.Errorf("got %q, want %q", line, tt.line)
			}
			if got := summary(v); got != tt.want || f != nil && f.Reaches() == (line == "reaches no node") { // which is not worth a line
				t.Errorf("got %q, want %q; reaches nodes: %t", got, tt.want, f != nil && f.Reaches())
			}
		})
	}
}

// TestForecastUnknown: what could not be read is named where the forecast may be another one with it.
func TestForecastUnknown(t *testing.T) {
	all := []string{"clusteroperators", "machineconfigpools", "machineconfigurations", "poddisruptionbudgets", "pods"}
	for _, tt := range []struct {
		name    string
		through *rollout.Cluster
		edit    mirrors.Edit
		unread  []string
		want    []string
	}{
		{"nodes are drained, at worst", workers(3, atSource), tagsFromMirror(), append(all, "clusterversions", "configmaps", "machineconfignodes", "pinnedimagesets"), all},
		{"or may be", workers(3, atSource), mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop")), all, all},
		{"nodes are not drained", workers(3, atSource), mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop")), slices.Concat(all[:2], all[3:]), all[:2]},
		{"no file differs", workers(3, atSource), mirrors.Edit{}, all, all[1:2]},
	} {
		tt.through.Unknown = tt.unread
		if f, _ := foretell(tt.through, set(), tt.edit, policy.Facts{}, settings.Settings{}); !slices.Equal(f.Unknown, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, f.Unknown, tt.want)
		}
	}
}

// TestForecastRecent: other mirror objects that were changed a moment ago are named, unless
// no node is drained for this one.
func TestForecastRecent(t *testing.T) {
	old := itms("old", "quay.io/old", never, "m.local/old").(*configv1.ImageTagMirrorSet)
	old.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	edited := itms("edited", "quay.io/edited", never, "m.local/edited").(*configv1.ImageTagMirrorSet)
	edited.CreationTimestamp = old.CreationTimestamp
	edited.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: noon.Add(-20 * time.Minute)}}}
	created := idms("created", "quay.io/created", never, "m.local/created").(*configv1.ImageDigestMirrorSet)
	created.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	found := facts(atMirror+" present", atSource+" present")

	f, _ := foretell(workers(3, atSource), set(old, edited, created), tagsFromMirror(), found, settings.Settings{})
	if want := []string{"ImageDigestMirrorSet created", "ImageTagMirrorSet edited"}; !slices.Equal(f.Recent, want) {
		t.Errorf("got %q, want %q", f.Recent, want)
	}
	f, _ = foretell(workers(3, atSource), set(old, created), mirrors.Put(idms("shop", "quay.io/shop", never, "m.local/shop")), found, settings.Settings{})
	if len(f.Recent) > 0 {
		t.Errorf("nothing is drained, and yet: %q", f)
	}
}

// TestForecastLookups: the mirror has everything, and so nobody has looked at the source; but
// the first pod that is evicted can only go to a node that still asks the source.
func TestForecastLookups(t *testing.T) {
	f, v := foretell(workers(3, atSource), set(), tagsFromMirror(), facts(atMirror+" present"), settings.Settings{})
	known := facts(atMirror + " present")
	if got := f.Lookups(known); len(got) != 1 || got[0].Ref != atSource {
		t.Errorf("got %v, want the source", got)
	}
	if got := summary(v); got != "warn RolloutStalls" {
		t.Errorf("nobody has looked, and yet: %s", got)
	}
	for answer, want := range map[string]string{
		"present": "", "absent": "warn RolloutStalls", "unreachable": "warn RolloutStalls", "unknown": "warn RolloutStalls",
	} {
		known := facts(atMirror+" present", atSource+" "+answer)
		f, v := foretell(workers(3, atSource), set(), tagsFromMirror(), known, settings.Settings{})
		if got := f.Lookups(known); len(got) > 0 {
			t.Errorf("%s: it would be asked again: %v", answer, got)
		}
		if got := summary(v); got != want {
			t.Errorf("%s: got %q, want %q", answer, got, want)
		}
	}
}

// TestMovedImages: what a change leaves on its route has to be pulled all the same once nodes
// are drained.
func TestMovedImages(t *testing.T) {
	const other = "quay.io/other:v1"
	protect := settings.Settings{Protected: []string{"shop"}}
	with := func(secrets ...string) []policy.Consumer {
		return []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "cart", Use: policy.Running, OwnPullSecret: len(secrets) > 0}}
	}
	unknown := with("a")
	unknown[0].PullSecretUnknown = true
	single := func(unread ...string) *rollout.Cluster { // no budget
		c := workers(3, other)
		c.Budgets, c.Unknown = nil, unread
		return c
	}
	waits := func(reason string, unread ...string) *rollout.Cluster {
		c := single(unread...)
		c.Pods = c.Pods[:1]
		p := &c.Pods[0]
		p.Started, p.Ready, p.Failing, p.FailingContainer = false, false, reason, "cart"
		return c
	}
	pod := func(never bool) []policy.Consumer {
		return []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "cart-1", Container: "cart", Use: policy.Running, NeverRan: never}}
	}
	cordoned := single()
	cordoned.Pods, cordoned.Nodes[0].Spec.Unschedulable, cordoned.Pools[0].Spec.MaxUnavailable = cordoned.Pods[:1], true, new(intstr.FromInt32(2))
	for _, tt := range []struct {
		name      string
		through   *rollout.Cluster
		consumers []policy.Consumer
		fact      string
		settings  settings.Settings
		want      string
	}{
		{"it is there", workers(3, other), with(), "present", settings.Settings{}, ""},
		{"its registry has lost it", workers(3, other), with(), "absent", settings.Settings{}, "deny RolloutStalls"},
		{"its registry does not answer", workers(3, other), with(), "unreachable", settings.Settings{}, "deny RolloutStalls"},
		{"nobody has looked", workers(3, other), with(), "", settings.Settings{}, "deny RolloutStalls"},
		{"its registry lets only the pods in", workers(3, other), with("a"), "denied", settings.Settings{}, "warn RolloutStalls"},
		{"or somebody whose secrets are not known", workers(3, other), unknown, "denied", settings.Settings{}, "deny RolloutStalls"},
		{"or hides it from others", workers(3, other), with("a"), "absent", settings.Settings{}, "warn RolloutStalls"},
		{"but not if it is protected", workers(3, other), with("a"), "denied", protect, "deny RolloutStalls"},
		{"nor if it does not answer", workers(3, other), with("a"), "unreachable", settings.Settings{}, "deny RolloutStalls"},
		{"without a budget, a tenant's loss holds nobody up", single(), with(), "absent", settings.Settings{}, "warn DrainLosesPod"},
		{"a router's does", single(), with(), "absent", protect, "deny DrainLosesPod"},
		{"also on a node that is taken later, as it is cordoned", cordoned, with(), "absent", protect, "deny DrainLosesPod"},
		{"unless it never started", waits("ErrImagePull"), pod(true), "absent", protect, "warn DrainLosesPod"},
		{"and is not about to", waits(""), pod(true), "absent", protect, "deny DrainLosesPod"},
		{"as far as is known of pods", waits("ErrImagePull", "pods"), pod(true), "absent", protect, "deny DrainLosesPod"},
		{"nor has once", waits("ErrImagePull"), pod(false), "absent", protect, "deny DrainLosesPod"},
		{"nor may have", waits("ErrImagePull"), with(), "absent", protect, "deny DrainLosesPod"},
		{"what is not known does not", single(), with(), "unreachable", protect, ""},
		{"if it is known that there is no budget", single("poddisruptionbudgets"), with(), "unreachable", settings.Settings{}, "deny RolloutStalls"},
		{"or that its registry lets the pods in", single("poddisruptionbudgets"), with("a"), "denied", settings.Settings{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			known := policy.Facts{}
			if tt.fact != "" {
				known = facts(other+" "+tt.fact, atMirror+" present", atSource+" present")
				deep := mirrors.Location{Ref: other, Depth: mirrors.DepthBlobs} // of protected images
				known[deep] = known.At(mirrors.Location{Ref: other})
			}
			edit := tagsFromMirror()
			p := shallower(newPlan(policy.Change{Before: set(), After: edit.Apply(set())}, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: other, Consumers: tt.consumers}), Rollout: tt.through}, tt.settings))
			f := forecast.Of(p, known, forecast.Forecaster{Now: noon})
			if got := summary(WithForecast(p, Decide(p, known), f)); got != tt.want {
				t.Errorf("got %q, want %q: %s", got, tt.want, f)
			}
			if asks := f.Lookups(known); len(asks) != policy.Bit(tt.fact == "") {
				t.Errorf("it asks for %v", asks)
			}
			if f.Moved.All != 1 {
				t.Errorf("%+v", f.Moved)
			}
		})
	}
}

// TestForecastPartial: a simulation that is given up proves no rollout safe, and takes nothing away of one made before.
func TestForecastPartial(t *testing.T) {
	lost, found := facts(atMirror+" absent", atSource+" present"), facts(atMirror+" present", atSource+" present")
	p := ofCart(workers(3, atSource), set(), tagsFromMirror(), settings.Settings{Namespaces: []settings.NamespaceSeverity{{Pattern: "shop", Severity: policy.Warn}}})
	before := forecast.Of(p, facts(), forecast.Forecaster{Now: noon})
	always := func() func() bool { return func() bool { return true } }
	for _, tt := range []struct {
		known  policy.Facts
		before *forecast.Forecast
		want   string
	}{{lost, nil, "deny RolloutStalls, warn NotFullySynced"}, {facts(atMirror+" unreachable", atSource+" present"), nil, "deny RolloutStalls, warn NotFullySynced"}, {found, nil, ""}, {lost, before, "deny RolloutStalls, warn NotFullySynced"}, {found, before, "warn RolloutStalls"}} {
		f := forecast.Of(p, tt.known, forecast.Forecaster{Now: noon, Stop: always, Before: tt.before})
		if got := summary(WithForecast(p, Decide(p, tt.known), f)); got != tt.want || strings.Contains(f.String(), "time was up") != (tt.before == nil) {
			t.Errorf("got %q, want %q: %s", got, tt.want, f)
		}
	}
	held := workers(3, atSource) // one pod is in another pool, which is paused: not both are evicted yet
	held.Pools = append(held.Pools, pools.Worker("1"))
	held.Pools[1].Name, held.Pools[1].Spec.Paused = "infra", true
	held.Pools[1].Spec.NodeSelector = metav1.AddLabelToSelector(&metav1.LabelSelector{}, "infra", "")
	held.Nodes[1].Labels["infra"], held.Budgets = "", nil
	p, begun := ofCart(held, set(), tagsFromMirror(), p.Settings), 0
	f := forecast.Of(p, lost, forecast.Forecaster{Now: noon, Stop: func() func() bool { begun++; return func() bool { return begun > 1 } }})
	if got := summary(WithForecast(p, Decide(p, lost), f)); got != "deny RolloutStalls, warn NotFullySynced, warn PoolPaused" || f.Simulation.Partial {
		t.Errorf("what comes later, in a simulation that is given up: got %q: %s", got, f)
	}
	many := workers(2, atSource)
	for i := range 501 {
		many.Pods[0].Spec = &rollout.PodSpec{Containers: []rollout.Container{{Image: fmt.Sprintf("quay.io/many/%d:v1", i), Pull: corev1.PullAlways}}}
		many.Pods = append(many.Pods, many.Pods[0])
	}
	if f := forecast.Of(ofCart(many, set(), tagsFromMirror(), settings.Settings{}), facts(), forecast.Forecaster{Now: noon, Stop: always}); len(f.Findings) != 501 {
		t.Errorf("of 501 images that were not looked up, 500 that are to be deny, and the one that is rerouted: %d", len(f.Findings))
	}
}
