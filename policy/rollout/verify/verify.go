// Package verify says whether nodes have the registries.conf and policy.json that mirror objects ask for, and whether a
// change has reached them.
//
//	v := verify.Verify(verify.Input{Input: in, Mirrors: set})
//
// It compares what nodes have, and pools are to have, with what objects ask for (targetdifference). It rests on package
// status for how far pools are, and does not know why they do not move. It is pure.
package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Input is the data for Verify.
type Input struct {
	status.Input
	// Mirrors is the mirror configuration in force.
	Mirrors mirrors.Set
	// Incomplete says what may hide that something is not well, such as a part of a dump that
	// could not be read.
	Incomplete []string
}

// Result is an answer to the question whether all is well.
type Result string

// The results.
const (
	Well    Result = "well"
	NotWell Result = "not well"
	Unknown Result = "unknown" // nothing is known that is not well, and not all is known
)

// Verification compares nodes with what the mirror objects ask for.
type Verification struct {
	Result Result
	// Rejected is why MCO applies none of the objects, "" if it does.
	Rejected string
	// Nodes are all that pools update, by name.
	Nodes []NodeConfig
	// Pulls are the images that nodes fail to pull.
	Pulls []PullFailure
	// Left are the open tasks; Unknown what could not be told.
	Left    []Task
	Unknown []string
	// NotCompared lists what the objects ask for and nodes do not report. Result ignores it.
	NotCompared []string
}

// Task is something left to do: a sentence and, if there is one, the command for it.
type Task struct {
	What    string
	Command string
}

// NodeConfig is the configuration that a node has.
type NodeConfig struct {
	Node string
	Pool string
	// Config is the rendered config that the node says it has.
	Config string
	Result Result
	// Why says what is wrong, or unknown.
	Why string
	// Differences are the entries of registries.conf, policy.json and registries.d that the
	// objects make (After) and those that the node has (Before).
	Differences []rollout.RegistryChange
}

// PullFailure is an image that nodes fail to pull.
type PullFailure struct {
	Image  string
	Reason string
	// Pods are "namespace/name on node", sorted.
	Pods []string
	// Route is where these nodes look for the image now, in order; none if it is not known,
	// for which RouteUnknown says why.
	Route        []string
	RouteUnknown string
}

// Verify says whether every node has the files that the objects in force ask for, and whether all images can be pulled that are asked for.
func Verify(in Input) Verification {
	v := newVerification(in)
	v.Unknown = slices.Clone(in.Incomplete)
	if v.Rejected != "" {
		v.left("mirrorset-guard render", "MCO rejects the mirror objects, and applies none of them until they are repaired")
	}
	s := status.Of(in.Input)
	v.verifyNodes()
	v.verifyPulls()
	v.pools(s)
	v.missing()
	if ca := v.Mirrors.TrustedCA; ca != "" {
		v.NotCompared = []string{fmt.Sprintf("which CAs nodes trust: ConfigMap %s, the additionalTrustedCA of Image cluster, is in no rendered config", ca)}
	}
	v.conclude()
	return v.Verification
}

// verification builds a Verification.
type verification struct {
	Verification
	Input
	*status.Lookup
	// compared caches how that differs from configs, as nodes share a few.
	compared map[poolConfig]comparison
	members  rollout.Forecast
}

// poolConfig is a rendered config of a pool.
type poolConfig struct{ pool, config string }

// comparison is a result of differences.
type comparison struct {
	changes []rollout.RegistryChange
	err     error
}

func newVerification(in Input) *verification {
	v := &verification{Input: in, members: in.Cluster.Members(), compared: map[poolConfig]comparison{}}
	v.Lookup = status.NewLookup(&v.Input.Input)
	v.Nodes, v.Pulls = []NodeConfig{}, []PullFailure{}
	if _, err := mirrors.Resolve(in.Mirrors); err != nil {
		v.Rejected = err.Error()
	}
	return v
}

func (v *verification) left(command, what string, args ...any) {
	v.Left = append(v.Left, Task{fmt.Sprintf(what, args...), command})
}

func (v *verification) verifyNodes() {
	for _, p := range v.members.Pools {
		for _, n := range p.Nodes {
			v.Nodes = append(v.Nodes, v.node(p, v.NodeOf[n.Name]))
		}
	}
	for _, u := range v.members.Unmanaged {
		if !rollout.IsWindows(v.NodeOf[u.Node]) {
			v.Unknown = append(v.Unknown, fmt.Sprintf("node %s %s, and keeps what it has", u.Node, u.Why))
		}
	}
	slices.SortFunc(v.Nodes, func(a, b NodeConfig) int { return strings.Compare(a.Node, b.Node) })
}

func (v *verification) node(p rollout.Pool, n *corev1.Node) NodeConfig {
	r := rollout.ReportOf(n)
	c := NodeConfig{Node: n.Name, Pool: p.Name, Config: r.Current, Result: Unknown}
	config := v.Rendered[r.Current]
	switch {
	case v.Rejected != "":
		c.Result, c.Why = NotWell, "MCO rejects the objects"
		return c
	case r.Current == "":
		c.Why = "does not say which rendered config it has"
		return c
	case config == nil:
		c.Why = "it is not known what is in its rendered config"
		if err := v.Unread[r.Current]; err != nil {
			c.Why += ": " + err.Error()
		}
		return c
	}
	differences, err := v.differences(p.Name, config)
	switch {
	case err != nil:
		c.Why = err.Error()
	case MaySpare(v.Mirrors, differences):
		c.Differences, c.Why = differences, PayloadUnknown
	case len(differences) > 0:
		c.Result, c.Differences, c.Why = NotWell, differences, whyDiffers(differences)
	case r.GaveUp:
		c.Result, c.Why = NotWell, "is "+strings.ToLower(r.State)+": "+cmp.Or(r.Reason, "it does not say why")
	default:
		c.Result = Well
	}
	return c
}

// whyDiffers names the files that differ.
func whyDiffers(differences []rollout.RegistryChange) string {
	var files []string
	for _, d := range differences {
		file := cmp.Or(d.File, mirrors.RegistriesConfPath)
		if name := file[strings.LastIndexByte(file, '/')+1:]; !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	if len(files) == 1 {
		return "its " + files[0] + " is not what the objects ask for"
	}
	last := len(files) - 1
	return fmt.Sprintf("its %s and %s are not what the objects ask for", text.Names(files[:last], status.Shown), files[last])
}

// differences compares what a node of a pool has with what the objects ask for.
func (v *verification) differences(pool string, config *rollout.Rendered) ([]rollout.RegistryChange, error) {
	key := poolConfig{pool, config.Name}
	c, ok := v.compared[key]
	if !ok {
		c.changes, c.err = PullDifferences(v.Mirrors, pool, config)
		v.compared[key] = c
	}
	return c.changes, c.err
}

// verifyPulls groups the pods that fail to pull by image, reason and route.
func (v *verification) verifyPulls() {
	groups := map[string]*PullFailure{}
	for i := range v.Cluster.Pods {
		p := &v.Cluster.Pods[i]
		if !p.FailsToPull() {
			continue
		}
		f := v.pullFailure(p)
		key := strings.Join(append([]string{f.Image, f.Reason, f.RouteUnknown}, f.Route...), "\n")
		if groups[key] == nil {
			groups[key] = &f
		}
		groups[key].Pods = append(groups[key].Pods, fmt.Sprintf("%s/%s on %s", p.Namespace, p.Name, p.Node))
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		f := groups[key]
		slices.Sort(f.Pods)
		v.Pulls = append(v.Pulls, *f)
	}
}

func (v *verification) pullFailure(p *rollout.Pod) PullFailure {
	f := PullFailure{Image: cmp.Or(p.FailingImage(), "(not known)"), Reason: p.Failing}
	if f.Reason == "ErrImagePull" {
		f.Reason = "ImagePullBackOff" // which it is between two attempts
	}
	route, unknown := v.RouteOn(p.Node, p.Namespace, p.FailingImage())
	f.Route, f.RouteUnknown = status.PlacesOf(route.Route), unknown
	return f
}

// pools lists the open tasks of pools that have not come to rest.
func (v *verification) pools(s status.Status) {
	for _, p := range s.Pools {
		switch p.State {
		case status.PoolDegraded:
			v.left("", "pool %s is degraded: %s", p.Name, p.Trouble())
		case status.PoolHeld:
			v.left("", "no node of pool %s is taken: %s", p.Name, p.Held)
		case status.PoolUpdating:
			v.left("mirrorset-guard rollout status", "pool %s is being updated: %s", p.Name, p.Progress())
		case status.PoolPaused:
			if p.From != "" {
				v.left("mirrorset-guard rollout resume "+text.Argument(p.Name), "pool %s is paused, and %s waits for its nodes", p.Name, p.Target)
			}
		case status.PoolUnknown:
			v.Unknown = append(v.Unknown, fmt.Sprintf("how far pool %s is", p.Name))
		}
	}
}

// missing notes what could not be read that an answer depends on.
func (v *verification) missing() {
	for _, resource := range []string{"machineconfigpools", "nodes", "pods"} {
		if slices.Contains(v.Cluster.Unknown, resource) {
			v.Unknown = append(v.Unknown, resource+" could not be read")
		}
	}
	for _, n := range v.Nodes {
		if n.Result == Unknown {
			v.Unknown = append(v.Unknown, fmt.Sprintf("node %s: %s", n.Node, n.Why))
		}
	}
	if len(v.Nodes) == 0 {
		v.Unknown = append(v.Unknown, "no node is known")
	}
}

// conclude says whether all is well, and what to do for images that cannot be pulled.
func (v *verification) conclude() {
	for _, f := range v.Pulls {
		v.left("", "make %s available at a place of its route, or change the mirrors", f.Image)
	}
	bad := slices.ContainsFunc(v.Nodes, func(n NodeConfig) bool { return n.Result == NotWell })
	switch {
	case bad || len(v.Left) > 0:
		v.Result = NotWell
	case len(v.Unknown) > 0:
		v.Result = Unknown
	default:
		v.Result = Well
	}
}
