package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// update starts the daemons' work that the node controller asks for.
func (n *Nodes) update(ctx context.Context, working *sync.WaitGroup) error {
	var nodes corev1.NodeList
	if err := n.stage.Client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !n.begin(node) {
			continue
		}
		working.Go(func() {
			defer n.end(node.Name)
			if err := n.updateOne(ctx, node); err != nil && ctx.Err() == nil {
				n.giveUp(ctx, node, err)
			}
		})
	}
	return nil
}

// begin reports whether there is work to do that is not under way. A config that could not
// be applied is tried again after Setup.Retry, where upstream does so every minute.
func (n *Nodes) begin(node *corev1.Node) bool {
	to := node.Annotations[annotation+"desiredConfig"]
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.nodes[node.Name]
	retry := n.stage.setup.Retry
	switch {
	case s == nil || s.pool == "" || s.busy || s.held || n.daemons != nil && !n.daemons[node.Name]:
		return false
	case node.Annotations[annotation+"currentConfig"] == to && (retry == 0 || s.disk == to):
		return false
	case s.failed == to && (retry == 0 || time.Since(s.failedAt) < retry):
		return false
	}
	s.busy = true
	return true
}

func (n *Nodes) end(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[name].busy = false
}

func (n *Nodes) giveUp(ctx context.Context, node *corev1.Node, why error) {
	config := node.Annotations[annotation+"desiredConfig"]
	n.mu.Lock()
	n.nodes[node.Name].failed, n.nodes[node.Name].failedAt = config, time.Now()
	n.mu.Unlock()
	if err := n.annotate(ctx, node.Name, "state", "Degraded", "reason", why.Error()); err != nil && ctx.Err() == nil {
		n.note(Event{Kind: Trouble, Node: node.Name, Text: err.Error()})
	}
	n.note(Event{Kind: Degraded, Node: node.Name, Config: config, Text: why.Error()})
}

// updateOne does what the daemon does (updateOnClusterNodes and completeUpdate in MCO's
// pkg/daemon), by its own decision.
func (n *Nodes) updateOne(ctx context.Context, node *corev1.Node) error {
	if err := n.stage.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return err
	}
	from, to := node.Annotations[annotation+"currentConfig"], node.Annotations[annotation+"desiredConfig"]
	if from == to && n.diskOf(node.Name) == to { // done since the nodes were listed
		return nil
	}
	if err := n.validate(ctx, node.Name, from); err != nil {
		return err
	}
	decided, err := n.decide(ctx, from, to)
	if err != nil {
		return err
	}
	if !n.hasFailed(node.Name, to) { // else it says so until it gets through
		n.note(Event{Kind: Taken, Node: node.Name, Config: to})
		if err := n.annotate(ctx, node.Name, "state", "Working"); err != nil {
			return err
		}
	}
	if n.fails(node.Name) {
		return errors.New("the test says so")
	}
	single := node.Annotations[annotation+"controlPlaneTopology"] == "SingleReplica"
	if decided.Drain && !single && node.Annotations[annotation+"lastAppliedDrain"] != "drain-"+to {
		n.note(Event{Kind: DrainAsked, Node: node.Name, Config: to})
		if err := n.request(ctx, node.Name, "drain-"+to); err != nil {
			return err
		}
	}
	if err := n.write(ctx, to); err != nil {
		return err
	}
	if err := n.updateSystem(ctx, decided, to); err != nil {
		return err
	}
	n.mu.Lock()
	n.nodes[node.Name].disk = to // pods pull by it from here on
	n.mu.Unlock()
	n.note(Event{Kind: Written, Node: node.Name, Config: to})
	if decided.reboots() {
		if err := n.reboot(ctx, node.Name, to); err != nil {
			return err
		}
	}
	if err := n.request(ctx, node.Name, "uncordon-"+to); err != nil {
		return err
	}
	n.note(Event{Kind: Done, Node: node.Name, Config: to})
	return n.annotate(ctx, node.Name, "currentConfig", to, "state", "Done", "reason", "")
}

// fails reports, once, whether the daemon is to give up.
func (n *Nodes) fails(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	fails := n.nodes[name].fails
	n.nodes[name].fails = false
	return fails
}

// A decision is MCO's.
type decision struct {
	*oracle.Decided
	// system is the image of another operating system, "" for the one that runs.
	system string
	forced bool
}

func (d decision) reboots() bool {
	if d.system != "" || d.forced {
		return true
	}
	for _, action := range d.Actions {
		if action.Type == operatorv1.RebootStatusAction {
			return true
		}
	}
	return false
}

// reboot takes a node down for as long as its controller needs to notice. Pods of DaemonSets, which
// still run on it, go on without a word: nothing that is compared here needs them.
func (n *Nodes) reboot(ctx context.Context, name, config string) error {
	for _, down := range []bool{true, false} {
		n.mu.Lock()
		n.nodes[name].down = down
		n.mu.Unlock()
		if err := n.report(ctx, name); err != nil {
			return err
		}
		for tainted := !down; tainted != down; {
			var node corev1.Node
			if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
				return err
			}
			tainted = false
			for _, taint := range node.Spec.Taints {
				tainted = tainted || taint.Key == corev1.TaintNodeNotReady
			}
			sleep(ctx, poll)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	n.note(Event{Kind: Rebooted, Node: name, Config: config})
	return nil
}

// request asks the drain controller, and waits for as long as it takes.
func (n *Nodes) request(ctx context.Context, name, what string) error {
	if err := n.annotate(ctx, name, "desiredDrain", what); err != nil {
		return err
	}
	for begun := time.Now(); ; sleep(ctx, poll) {
		var node corev1.Node
		if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		if node.Annotations[annotation+"lastAppliedDrain"] == what {
			return nil
		}
		if strings.HasPrefix(what, "drain-") && n.isTired(name, begun) {
			return fmt.Errorf("failed to drain node: %s after 1 hour. Please see machine-config-controller logs for more information", name)
		}
	}
}

func (n *Nodes) decide(ctx context.Context, from, to string) (decision, error) {
	if from == to { // it is forced to write all anew
		return decision{Decided: &oracle.Decided{}, forced: true}, nil
	}
	var before, after mcfgv1.MachineConfig
	for name, config := range map[string]*mcfgv1.MachineConfig{from: &before, to: &after} {
		err := n.stage.Client.Get(ctx, client.ObjectKey{Name: name}, config)
		if apierrors.IsNotFound(err) {
			return decision{}, fmt.Errorf("missing MachineConfig %s\n%w", name, err) // as newErrMissingMachineConfig in MCO's pkg/daemon/daemon.go
		}
		if err != nil {
			return decision{}, err
		}
	}
	answers, err := n.oracle.Ask(oracle.Question{Update: &oracle.Update{
		Before: before.Spec.Config.Raw, After: after.Spec.Config.Raw, Policy: n.stage.setup.disruption(),
	}})
	if err != nil {
		return decision{}, err
	}
	if decided := answers[0].Decided; decided.Error == "" {
		d := decision{Decided: decided}
		if after.Spec.OSImageURL != before.Spec.OSImageURL {
			d.system, d.Drain = after.Spec.OSImageURL, true
		}
		return d, nil
	}
	return decision{}, fmt.Errorf("deciding whether to drain: %s", answers[0].Decided.Error)
}

// write writes the files of a rendered config that the runtime reads.
func (n *Nodes) write(ctx context.Context, config string) error {
	var mc mcfgv1.MachineConfig
	if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: config}, &mc); err != nil {
		return err
	}
	answers, err := n.oracle.Ask(oracle.Question{Read: mc.Spec.Config.Raw})
	if err != nil {
		return err
	}
	for _, path := range []string{mirrors.RegistriesConfPath, mirrors.SearchDropInPath} {
		to := filepath.Join(n.dir, config, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		content := answers[0].Rendered.Files[path]
		if old, err := os.ReadFile(to); err == nil && string(old) == string(content) {
			continue // another node has them, whose pods may be reading
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
