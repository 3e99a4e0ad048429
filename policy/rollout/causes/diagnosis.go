package causes

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Diagnosis lists the causes for which nodes and pools do not move.
type Diagnosis struct {
	// HoldUps are those of the cluster first, then those of pools, then those of nodes, in
	// the order of a Status; each cause once. There are none where nothing is known to be held up.
	HoldUps []HoldUp
	// Unknown names the unread objects that may hide a hold-up: without hold-ups, it cannot be told
	// whether all is well.
	Unknown []string
	// Notes say what else is not known, or is out of the ordinary without holding anything up.
	Notes []string
	// Asks are the questions whose answers, in Input.Evidence, would tell more.
	Asks status.Asks
}

// HoldUp is a cause for which nodes or a pool do not move.
type HoldUp struct {
	Cause Cause
	// Pool is "" for what concerns all; Node is "" for what concerns a pool. AlsoNodes are the
	// other nodes that the same cause holds up.
	Pool      string
	Node      string
	AlsoNodes []string
	Chain     Chain
	// Unexplained is set where the chain ends before a cause.
	Unexplained bool
	// Remedies are what can be done, the safest first.
	Remedies []Remedy

	// Passing says that this is so for some seconds in a rollout that goes its way, too.
	Passing bool

	// subject tells hold-ups of one cause apart: the budget, the words of a daemon.
	subject string
	// pods are those whose eviction is refused.
	pods []string
}

// because adds links to the chain.
func (h *HoldUp) because(links ...string) { h.Chain.Links = append(h.Chain.Links, links...) }

// Chain leads from a symptom to its cause, a link each, with its evidence.
type Chain struct {
	Symptom string
	Links   []string
}

func chain(symptom string, links ...string) Chain { return Chain{symptom, links} }

// Lines returns the symptom and the links, in order.
func (c Chain) Lines() []string { return append([]string{c.Symptom}, c.Links...) }

// String returns the chain in one line.
func (c Chain) String() string { return strings.Join(c.Lines(), "; ") }

// Cause is the name of what holds nodes up. It is published, and does not change.
type Cause string

// The causes. Unknown is that of an unexplained hold-up.
const (
	Unknown            Cause = "Unknown"
	ObjectsRejected    Cause = "ObjectsRejected"    // MCO rejects the mirror objects
	NotRendered        Cause = "NotRendered"        // MCO cannot render a config for the pool
	ObjectsNotRendered Cause = "ObjectsNotRendered" // what the pool is to have is not what the objects ask for
	ControllerDown     Cause = "ControllerDown"     // machine-config-controller does not run
	DaemonDown         Cause = "DaemonDown"         // machine-config-daemon does not run on the node
	PoolPaused         Cause = "PoolPaused"
	PoolDeletion       Cause = "PoolDeletion"      // the pool is being deleted
	CertificateWaits   Cause = "CertificateWaits"  // nodes of a paused pool do not get a new CA
	NodesUnavailable   Cause = "NodesUnavailable"  // too many nodes are unavailable for MCO to take another
	ImageNotPulled     Cause = "ImageNotPulled"    // a replacement cannot pull its image
	PodNotPlaced       Cause = "PodNotPlaced"      // the scheduler finds no node for a replacement
	PodNotCreated      Cause = "PodNotCreated"     // a quota or an admission forbids a replacement
	PodFails           Cause = "PodFails"          // a replacement does not start
	PodNotReady        Cause = "PodNotReady"       // a replacement runs and is not ready
	BudgetFull         Cause = "BudgetFull"        // a budget never has room for a drain
	SeveralBudgets     Cause = "SeveralBudgets"    // several budgets cover one pod
	BudgetNotObserved  Cause = "BudgetNotObserved" // the status of a budget is out of date
	EvictionRefused    Cause = "EvictionRefused"   // the API server refuses for another reason
	PodNotEnding       Cause = "PodNotEnding"
	FileChanged        Cause = "FileChanged"      // a file on the node is not what MCO wrote
	SystemNotUpdated   Cause = "SystemNotUpdated" // the operating system could not be updated
	ConfigMissing      Cause = "ConfigMissing"    // a rendered config that the node needs is gone
	PinsNotHeld        Cause = "PinsNotHeld"      // a node could not pull or pin a PinnedImageSet
	NodeNotReady       Cause = "NodeNotReady"
	CertificatePending Cause = "CertificatePending" // a kubelet's request for a certificate waits
	NodeGaveUp         Cause = "NodeGaveUp"         // the daemon gave up for a reason of its own
)

// Others says in a sentence which other nodes the cause holds up, "" for none.
func (h *HoldUp) Others() string {
	if len(h.AlsoNodes) == 0 {
		return ""
	}
	return fmt.Sprintf("the same holds up %s: %s", text.Plural(len(h.AlsoNodes), "more node", "more nodes"), text.Line(text.Names(h.AlsoNodes, status.Shown)))
}
