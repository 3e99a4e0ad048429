package page

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// WriteRolloutStatus writes the progress of rollouts as a page.
func WriteRolloutStatus(w io.Writer, doc v1alpha1.RolloutStatus, c Context) error {
	doc = cleaned(doc)
	l := layout{Context: c}
	l.Badge, l.Kind, l.Sentence = statusOutcome(&doc)
	l.Title = "Rollout: " + l.Sentence
	if doc.Remaining != nil {
		l.Basis = append(l.Basis, basis{"Left", doc.Remaining.Text + ", unless a drain is held up"})
	}
	l.add(section{ID: "pools", Title: "Pools", Note: text.Count(len(doc.Pools), "pool")}, pools(&doc)...)
	if doc.Operator != nil {
		l.add(section{ID: "operator", Title: "ClusterOperator machine-config"}, listOf("", "", conditions(doc.Operator.Conditions)))
	}
	l.add(section{ID: "unmanaged", Title: "Nodes of no pool"}, unmanaged(doc.Unmanaged))
	l.add(section{ID: "notes", Title: "What is not known"}, listOf("", "unknown", doc.Notes))
	return l.write(w)
}

// statusOutcome says how far the rollouts are: badge, kind and sentence.
func statusOutcome(doc *v1alpha1.RolloutStatus) (badge, kind, sentence string) {
	machines, updated, degraded := 0, 0, 0
	for _, p := range doc.Pools {
		machines, updated, degraded = machines+p.Machines, updated+p.Updated, degraded+p.Degraded
	}
	sentence = fmt.Sprintf("%s of %s have the configuration that they are to have", text.Number(updated), text.Count(machines, "node"))
	switch {
	case len(doc.Pools) == 0:
		return "Not known", "unknown", "No pool could be read."
	case degraded > 0:
		return "Degraded", "bad", sentence + fmt.Sprintf("; %s degraded.", text.Plural(degraded, "is", "are"))
	case updated < machines:
		return "Under way", "warn", sentence + "."
	default:
		return "Updated", "good", sentence + "."
	}
}

// pools are a table of the pools, and their lanes, with the nodes that are not done.
func pools(doc *v1alpha1.RolloutStatus) []part {
	var rows []row
	var lanes []lane
	for i := range doc.Pools[:min(len(doc.Pools), maxPools)] {
		p := &doc.Pools[i]
		kind := "good"
		switch {
		case p.Degraded > 0:
			kind = "bad"
		case p.Updated < p.Machines || len(p.Nodes) > 0:
			kind = "warn"
		}
		rest := max(0, p.Machines-p.Updated-p.Degraded)
		rows = append(rows, row{Cells: []cell{
			{Text: p.Name},
			{Kind: kind, Text: p.State},
			numberCell(p.Machines), numberCell(p.Updated), numberCell(p.Ready), numberCell(p.Unavailable), numberCell(p.Degraded),
			{Bars: bars([]int{p.Degraded, rest, p.Updated}, "bad", "note", "good")},
		}})
		lanes = append(lanes, statusLane(p, kind))
	}
	summary := tableOf(table{Caption: "Nodes by pool"}, rows, "Pool", "State", "Machines", "Updated", "Ready", "Unavailable", "Degraded", "Share that is updated")
	return []part{summary, lanesOf(lanes, len(doc.Pools))}
}

// statusLane returns the lane of a pool: what holds it, what the rollout does to a node, and the nodes that are not done.
func statusLane(p *v1alpha1.PoolStatus, kind string) lane {
	l := lane{Name: p.Name, Kind: kind, Text: p.State}
	if p.Remaining != nil {
		l.Text += ", " + p.Remaining.Text + " left"
	}
	if p.Target != "" {
		l.Text += "; is to have " + p.Target
	}
	if p.Held != "" {
		l.Clauses = append(l.Clauses, "No node is taken: "+p.Held)
	}
	if p.Action != "" {
		l.Clauses = append(l.Clauses, "On a node, the rollout "+p.Action)
	}
	if p.Paused != nil {
		l.Clauses = append(l.Clauses, p.Paused.Lines...)
	}
	l.Clauses = append(l.Clauses, conditions(p.Conditions)...)
	nodes := make([]node, len(p.Nodes))
	for i, n := range p.Nodes {
		nodes[i] = node{Name: n.Name, Kind: "warn", What: n.State}
		switch {
		case n.Daemon == "Degraded" || n.Daemon == "Unreconcilable":
			nodes[i].Kind = "bad"
		case n.Current == n.Desired:
			nodes[i].Kind = "note" // it waits
		}
		if n.Reason != "" {
			nodes[i].What += ": " + n.Reason
		}
	}
	return l.of(nodes)
}

// conditions returns conditions in the words of their objects.
func conditions(all []v1alpha1.Condition) []string {
	var lines []string
	for _, c := range all {
		line := strings.Join(strings.Fields(c.Type+" "+c.Status+" "+c.Reason+" "+c.Message), " ")
		if c.Since != nil {
			line += " (since " + utc(*c.Since) + ")"
		}
		lines = append(lines, line)
	}
	return lines
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
	cards := make([]card, len(doc.Findings))
	for i := range doc.Findings {
		cards[i] = holdUpCard(i, &doc.Findings[i])
	}
	l.add(section{ID: "causes", Title: "What is held up, and why", Note: text.Count(len(cards), "cause")}, partOf("card", nil, cards))
	l.add(section{ID: "unknown", Title: "What is not known"}, listOf("", "unknown", doc.Unknown))
	l.add(section{ID: "notes", Title: "Notes"}, listOf("", "", doc.Notes))
	return l.write(w)
}

// holdUpCard returns a hold-up in full.
func holdUpCard(i int, h *v1alpha1.HoldUp) card {
	c := card{ID: "cause-" + strconv.Itoa(i+1), Kind: "bad", Title: h.Cause, Open: true}
	if h.Pool != "" {
		c.Subject = "pool " + h.Pool
	}
	if h.Node != "" {
		c.Subject += " node " + h.Node
	}
	var because, remarks []string
	for i, link := range h.Chain {
		if i == 0 {
			c.Reason = link
		} else {
			because = append(because, link)
		}
	}
	if h.Unexplained {
		remarks = append(remarks, "The reason is not known.")
	}
	if h.Passing {
		c.Kind = "warn"
		remarks = append(remarks, "This is so for some seconds in a rollout that goes its way, too.")
	}
	c.Details = details(cardLine{Name: "Because", Lines: because}, cardLine{Name: "Remarks", Lines: remarks}, cardLine{Name: "Also", Lines: text.First(h.AlsoNodes, maxConsumers, "node")})
	for _, r := range h.Remedies {
		name := "To do"
		if r.ReadOnly {
			name = "To see"
		}
		c.Details = append(c.Details, cardLine{Name: name, Lines: []string{r.Effect}, Commands: r.Command})
	}
	return c
}
