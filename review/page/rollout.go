package page

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// WriteRolloutStatus writes the progress of rollouts as a page.
func WriteRolloutStatus(w io.Writer, doc v1alpha1.RolloutStatus, c Context) error {
	doc = cleaned(doc)
	v := newStatus(&doc)
	l := layout{Title: "Rollout: " + v.Sentence, Badge: v.Badge, Kind: v.Kind, Sentence: v.Sentence, Context: c}
	if doc.Remaining != nil {
		l.Basis = append(l.Basis, basis{"Left", doc.Remaining.Text + ", unless a drain is held up"})
	}
	var err error
	l.Sections, err = sections(
		part{section: section{ID: "pools", Title: "Pools", Note: text.Count(len(doc.Pools), "pool")}, template: "pools.html", data: v, empty: len(doc.Pools) == 0},
		part{section: section{ID: "operator", Title: "ClusterOperator machine-config"}, template: "conditions.html", data: v.conditions(), empty: len(v.conditions()) == 0},
		part{section: section{ID: "unmanaged", Title: "Nodes that no pool updates"}, template: "unmanaged.html", data: doc.Unmanaged, empty: len(doc.Unmanaged) == 0},
		part{section: section{ID: "notes", Title: "What is not known"}, template: "list.html", data: doc.Notes, empty: len(doc.Notes) == 0},
	)
	if err != nil {
		return err
	}
	return l.write(w)
}

// A statusView is a status as the template wants it.
type statusView struct {
	*v1alpha1.RolloutStatus
	Badge, Kind, Sentence string
	Lanes                 []statusLane
	LeftPools             int
}

// A statusLane is a pool with the nodes that are not done.
type statusLane struct {
	v1alpha1.PoolStatus
	Kind  string
	Shown []statusNode
	Left  int
}

// A statusNode is a node that is not done.
type statusNode struct {
	v1alpha1.NodeStatus
	Kind string
}

func newStatus(doc *v1alpha1.RolloutStatus) *statusView {
	v := &statusView{RolloutStatus: doc}
	machines, updated, degraded := 0, 0, 0
	for _, p := range doc.Pools {
		machines, updated, degraded = machines+p.Machines, updated+p.Updated, degraded+p.Degraded
		if len(v.Lanes) < maxPools {
			v.Lanes = append(v.Lanes, newStatusLane(p))
		}
	}
	v.LeftPools = len(doc.Pools) - len(v.Lanes)
	v.Sentence = fmt.Sprintf("%s of %s have the configuration that they are to have.", text.Number(updated), text.Count(machines, "node"))
	switch {
	case len(doc.Pools) == 0:
		v.Badge, v.Kind, v.Sentence = "Not known", "unknown", "No pool could be read."
	case degraded > 0:
		v.Badge, v.Kind = "Degraded", "bad"
		v.Sentence = strings.TrimSuffix(v.Sentence, ".") + fmt.Sprintf("; %s degraded.", text.Plural(degraded, "is", "are"))
	case updated < machines:
		v.Badge, v.Kind = "Under way", "warn"
	default:
		v.Badge, v.Kind = "Updated", "good"
	}
	return v
}

func newStatusLane(p v1alpha1.PoolStatus) statusLane {
	l := statusLane{PoolStatus: p, Kind: "good"}
	switch {
	case p.Degraded > 0:
		l.Kind = "bad"
	case p.Updated < p.Machines || len(p.Nodes) > 0:
		l.Kind = "warn"
	}
	for _, n := range p.Nodes[:min(len(p.Nodes), maxLane)] {
		kind := "warn"
		switch {
		case n.Daemon == "Degraded" || n.Daemon == "Unreconcilable":
			kind = "bad"
		case n.Current == n.Desired:
			kind = "note" // it waits
		}
		l.Shown = append(l.Shown, statusNode{n, kind})
	}
	l.Left = len(p.Nodes) - len(l.Shown)
	return l
}

// Share returns the bar of the nodes that are updated.
func (l statusLane) Share() []bar {
	rest := max(0, l.Machines-l.Updated-l.Degraded)
	return bars(max(1, l.Machines), []int{l.Degraded, rest, l.Updated}, []string{"bad", "note", "good"})
}

// Clauses say what holds the pool, and what the rollout does to a node.
func (l statusLane) Clauses() []string {
	var all []string
	if l.Held != "" {
		all = append(all, "No node is taken: "+l.Held)
	}
	if l.Action != "" {
		all = append(all, "On a node, the rollout "+l.Action)
	}
	if l.Paused != nil {
		all = append(all, l.Paused.Lines...)
	}
	for _, c := range l.Conditions {
		all = append(all, strings.Join(strings.Fields(c.Type+" "+c.Status+" "+c.Reason+" "+c.Message), " "))
	}
	return all
}

func (v *statusView) conditions() []v1alpha1.Condition {
	if v.Operator == nil {
		return nil
	}
	return v.Operator.Conditions
}

// A holdUpCard is a hold-up in full.
type holdUpCard struct {
	v1alpha1.HoldUp
	Number int
}

// Also names the other nodes that the same cause holds up.
func (h holdUpCard) Also() string { return text.Names(h.AlsoNodes, maxConsumers) }

// Because returns the chain without the symptom.
func (h holdUpCard) Because() []string {
	if len(h.Chain) == 0 {
		return nil
	}
	return h.Chain[1:]
}

// Symptom returns what the chain begins with.
func (h holdUpCard) Symptom() string {
	if len(h.Chain) == 0 {
		return h.Cause
	}
	return h.Chain[0]
}

// A holdUpList are the hold-ups for which there is room.
type holdUpList struct {
	Cards template.HTML
	Left  int
	Whole string
}

// WriteDiagnosis writes a diagnosis as a page.
func WriteDiagnosis(w io.Writer, doc v1alpha1.Diagnosis, c Context) error {
	doc = cleaned(doc)
	l := layout{Badge: "Held up", Kind: "bad", Context: c, Basis: []basis{{"Exit code", "1: something is held up"}}}
	l.Sentence = fmt.Sprintf("%s nodes or pools up.", text.Plural(len(doc.Findings), "cause holds", "causes hold"))
	switch {
	case len(doc.Findings) == 0 && len(doc.Unknown) > 0:
		l.Badge, l.Kind, l.Sentence, l.Basis = "Not determined", "unknown", "Nothing that could be read is held up.", []basis{{"Exit code", "2: not determined"}}
	case len(doc.Findings) == 0:
		l.Badge, l.Kind, l.Sentence, l.Basis = "All is well", "good", "Nothing is held up.", []basis{{"Exit code", "0: nothing is held up"}}
	}
	l.Title = "Diagnosis: " + l.Sentence
	cards := make([]holdUpCard, len(doc.Findings))
	for i, h := range doc.Findings {
		cards[i] = holdUpCard{h, i + 1}
	}
	list := holdUpList{Whole: c.Whole}
	var shown int
	var err error
	if list.Cards, shown, err = rows("hold-up.html", cards, MaxBytes/2); err != nil {
		return err
	}
	list.Left = len(cards) - shown
	l.Sections, err = sections(
		part{section: section{ID: "causes", Title: "What is held up, and why", Note: text.Count(len(cards), "cause")}, template: "hold-ups.html", data: list, empty: len(cards) == 0},
		part{section: section{ID: "unknown", Title: "What is not known"}, template: "list.html", data: doc.Unknown, empty: len(doc.Unknown) == 0},
		part{section: section{ID: "notes", Title: "Notes"}, template: "list.html", data: doc.Notes, empty: len(doc.Notes) == 0},
	)
	if err != nil {
		return err
	}
	return l.write(w)
}
