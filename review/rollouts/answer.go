package rollouts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
)

const (
	// maxWaiting is how many nodes are named in a row: there may be thousands.
	maxWaiting = 10
	// maxDifferences is how many differences or pods are named: the advice below them stays on the screen.
	maxDifferences = 6
	// maxHoldUps is how many are told: JSON has all.
	maxHoldUps = 20
)

// StatusAnswer returns a status for people, as of now.
func StatusAnswer(s status.Status, now time.Time) *answer.Answer {
	a := &answer.Answer{Subject: "the rollout", Untold: true}
	a.Verdict, a.Tone, a.Headline = headline(s.Pools)
	a.Add(answer.Section{ID: "pools", Title: "Rollouts"})
	addOperator(a, s.Operator, now)
	table := answer.Table{Head: []string{"POOL", "STATE", "MACHINES", "UPDATED", "READY", "UNAVAILABLE", "DEGRADED", "LEFT", "CONFIG"}}
	for _, p := range s.Pools {
		left := "-"
		if p.Remaining.Max > 0 {
			left = p.Remaining.String()
		}
		row := answer.Row(p.Name, string(p.State), fmt.Sprint(p.Machines), fmt.Sprint(p.Updated), fmt.Sprint(p.Ready), fmt.Sprint(p.Unavailable), fmt.Sprint(p.Degraded), left, OrNone(p.Target))
		row[1][0].Tone = poolTones[p.State]
		row[3][0].Bar = []answer.Share{{N: p.Degraded, Tone: answer.Bad}, {N: max(0, p.Machines-p.Updated-p.Degraded), Tone: answer.Idle}, {N: p.Updated, Tone: answer.Good}}
		table.Rows = append(table.Rows, row)
	}
	a.Add(table)
	for i := range s.Pools {
		a.Add(answer.List{Title: "Pool " + s.Pools[i].Name, Items: answer.Indented(s.Pools[i].Lines())}, nodes(&s.Pools[i]))
	}
	for i := range s.Pools {
		addNodes(a, &s.Pools[i], now)
	}
	for _, u := range s.Unmanaged {
		a.Add(answer.Paragraphf("Node %s %s, and keeps what it has.", u.Node, u.Why))
	}
	if s.Remaining.Max > 0 {
		a.Add(answer.Paragraphf("The nodes under way take %s more, unless a drain is held up.", s.Remaining))
	}
	a.Add(notKnown(s.Notes))
	if slices.ContainsFunc(s.Pools, func(p status.Pool) bool { return p.Updated < p.Machines }) {
		a.Basis = []string{"This is the status as of now. To wait for the end: mirrorset-guard rollout watch"}
	}
	return a
}

// headline says how far the rollouts are: verdict, tone and sentence.
func headline(pools []status.Pool) (string, answer.Tone, string) {
	machines, updated, degraded := 0, 0, 0
	for _, p := range pools {
		machines, updated, degraded = machines+p.Machines, updated+p.Updated, degraded+p.Degraded
	}
	sentence := fmt.Sprintf("%s of %s have the configuration that they are to have", text.Number(updated), text.Count(machines, "node"))
	switch {
	case len(pools) == 0:
		return "Not known", answer.Unknown, "No pool could be read."
	case degraded > 0:
		return "Degraded", answer.Bad, sentence + fmt.Sprintf("; %s degraded.", text.Plural(degraded, "is", "are"))
	case updated < machines:
		return "Under way", answer.Caution, sentence + "."
	default:
		return "Updated", answer.Good, sentence + "."
	}
}

// nodes draws the nodes of a pool that are not done.
func nodes(p *status.Pool) answer.Grid {
	return answer.Grid{Title: "Nodes of pool " + p.Name + " that are not done", Most: page.MaxNodes, Cells: convert.Each(p.Left, func(n status.Node) answer.Cell {
		c := answer.Cell{Name: n.Name, Word: strings.TrimSuffix(string(n.State)+": "+n.Reason, ": "), Tone: answer.Caution}
		switch {
		case n.Report.State == "Degraded" || n.Report.State == "Unreconcilable":
			c.Tone = answer.Bad
		case n.Current == n.Desired:
			c.Tone = answer.Idle
		}
		return c
	})}
}

var poolTones = map[status.PoolState]answer.Tone{status.PoolDegraded: answer.Bad, status.PoolUpdating: answer.Caution, status.PoolUpdated: answer.Good}

func addOperator(a *answer.Answer, o *status.Operator, now time.Time) {
	if o == nil {
		return
	}
	var lines []string
	for _, c := range o.Conditions {
		line := fmt.Sprintf("%s %s", c.Type, c.Status)
		if c.Since != nil {
			line += " " + strings.Replace(status.When(*c.Since, now), "at", "since", 1)
		}
		// A good condition needs no words.
		if good := map[string]string{"Available": "True", "Progressing": "False", "Degraded": "False"}; good[c.Type] != c.Status {
			line += fmt.Sprintf(": %s: %s", c.Reason, c.Message)
		}
		lines = append(lines, line)
	}
	a.Add(answer.List{Title: "ClusterOperator machine-config", Items: answer.Indented(lines)})
}

// addNodes adds the nodes of a pool that are not done.
func addNodes(a *answer.Answer, p *status.Pool, now time.Time) {
	var waiting []string
	for j := range p.Left {
		n := &p.Left[j]
		if n.OnlyWaits() {
			waiting = append(waiting, n.Name)
			continue
		}
		lines := []string{n.String()}
		if n.Current != n.Desired {
			lines = append(lines, fmt.Sprintf("has %s, is to have %s", OrNone(n.Current), OrNone(n.Desired)))
		}
		a.Add(answer.List{Title: fmt.Sprintf("Node %s (pool %s)", n.Name, p.Name), Items: answer.Indented(append(lines, n.Lines(now)...))})
	}
	if len(waiting) > 0 {
		one, many := fmt.Sprintf("node of pool %s waits for its turn", p.Name), fmt.Sprintf("nodes of pool %s wait for their turn", p.Name)
		a.Add(answer.List{Title: text.Plural(len(waiting), one, many), Items: answer.Indented([]string{text.Names(waiting, maxWaiting)})})
	}
}

// DiagnosisAnswer returns a diagnosis for people.
func DiagnosisAnswer(d causes.Diagnosis) *answer.Answer {
	a := &answer.Answer{Subject: "the rollout", Notes: d.Notes, Verdict: "All is well", Tone: answer.Good, Headline: "Nothing is held up."}
	switch {
	case len(d.HoldUps) > 0:
		a.Verdict, a.Tone, a.Untold = "Held up", answer.Bad, true
		a.Headline = fmt.Sprintf("%s nodes or pools up.", text.Plural(len(d.HoldUps), "cause holds", "causes hold"))
	case len(d.Unknown) > 0:
		a.Verdict, a.Tone, a.Headline = "Not determined", answer.Unknown, "Nothing that could be read is held up."
	}
	a.Add(answer.Section{ID: "causes", Title: "What is held up, and why"})
	for i := range d.HoldUps[:min(len(d.HoldUps), maxHoldUps)] {
		a.Add(heldUp(&d.HoldUps[i]))
	}
	if more := len(d.HoldUps) - maxHoldUps; more > 0 {
		a.Add(answer.Paragraphf("There are %s, which -o json has.", text.Plural(more, "more finding", "more findings")))
	}
	a.Add(notKnown(d.Unknown))
	return a
}

func notKnown(lines []string) answer.List {
	return answer.List{ID: "unknown", Title: "Not known:", Items: answer.Bullets(lines)}
}

func heldUp(f *causes.HoldUp) answer.Block {
	l := answer.List{Title: f.Chain.Symptom}
	if others := f.Others(); others != "" {
		l.Items = append(l.Items, answer.Item{Line: answer.Say(others)})
	}
	for _, link := range f.Chain.Links {
		l.Items = append(l.Items, answer.Item{Line: answer.Labelled(answer.Caution, "because", link)})
	}
	if f.Unexplained {
		l.Items = append(l.Items, answer.Item{Line: answer.Say("the reason is not known")})
	}
	return answer.List{Title: l.Title, Items: append(l.Items, answer.Item{
		Line: answer.Say("What can be done, the safest first:"),
		Below: convert.Each(f.Remedies, func(r causes.Remedy) answer.Item {
			return answer.Item{Line: answer.Code(r.Command), Below: answer.Indented([]string{r.Effect})}
		}),
	})}
}

// VerificationAnswer returns a verification for people.
func VerificationAnswer(v verify.Verification) *answer.Answer {
	well := 0
	for _, n := range v.Nodes {
		if n.Result == verify.Well {
			well++
		}
	}
	a := &answer.Answer{Subject: "the nodes", Headline: fmt.Sprintf("%s of %s the registries.conf and policy.json that the mirror objects ask for.",
		text.Number(well), text.Plural(len(v.Nodes), "node has", "nodes have"))}
	if v.Rejected != "" {
		a.Add(answer.Verbatim(v.Rejected))
	}
	for _, group := range alike(v.Nodes) {
		a.Add(nodeConfigs(group))
	}
	for _, f := range v.Pulls {
		a.Add(pullFailure(f))
	}
	a.Add(answer.List{Title: "Left to do:", Items: convert.Each(v.Left, func(task verify.Task) answer.Item {
		item := answer.Item{Mark: "-", Line: answer.Say(task.What)}
		if task.Command != "" {
			item.Below = []answer.Item{{Line: answer.Code(task.Command)}}
		}
		return item
	})}, notKnown(v.Unknown), answer.List{Title: "Not compared:", Items: answer.Bullets(v.NotCompared)})
	switch {
	case v.Result != verify.Well:
	case len(v.NotCompared) > 0:
		a.Add(answer.Paragraphf("All is well, apart from what was not compared."))
	default:
		a.Add(answer.Paragraphf("All is well."))
	}
	return a
}

// alike groups the nodes that are not well by their fault, which is most often the same for all nodes
// of a pool.
func alike(nodes []verify.NodeConfig) [][]verify.NodeConfig {
	type key struct{ pool, config, why string }
	rows := map[key]int{}
	var groups [][]verify.NodeConfig
	for _, n := range nodes {
		if n.Result != verify.NotWell || n.Why == "" {
			continue
		}
		k := key{n.Pool, n.Config, n.Why}
		row, known := rows[k]
		if !known {
			row = len(groups)
			rows[k] = row
			groups = append(groups, nil)
		}
		groups[row] = append(groups[row], n)
	}
	return groups
}

// nodeConfigs tells the common fault of nodes.
func nodeConfigs(nodes []verify.NodeConfig) answer.Block {
	names := convert.Each(nodes, func(n verify.NodeConfig) string { return n.Node })
	n := nodes[0]
	title := fmt.Sprintf("Node %s (pool %s, %s)", n.Node, n.Pool, OrNone(n.Config))
	if len(names) > 1 {
		title = fmt.Sprintf("%s of pool %s with %s: %s", text.Count(len(names), "node"), n.Pool, OrNone(n.Config), text.Names(names, maxWaiting))
	}
	lines := []string{n.Why}
	for _, d := range n.Differences {
		where := strings.TrimPrefix(d.File+": "+d.Scope, ": ") // no file for registries.conf
		lines = append(lines, fmt.Sprintf("%s: the node has: %s; the objects ask for: %s", where, OrNone(d.Before), OrNone(d.After)))
	}
	return answer.List{Title: title, Items: answer.Indented(text.First(lines, maxDifferences, "entry"))}
}

func pullFailure(f verify.PullFailure) answer.Block {
	lines := []string{"by " + text.Names(f.Pods, maxDifferences)}
	if f.RouteUnknown != "" {
		lines = append(lines, "its route is not known: "+f.RouteUnknown)
	}
	for i, place := range f.Route {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, text.ShortDigests(place)))
	}
	return answer.List{Title: fmt.Sprintf("Image %s cannot be pulled (%s)", text.ShortDigests(f.Image), f.Reason), Items: answer.Indented(lines)}
}

// OrNone returns words, or that there is no entry.
func OrNone(words string) string { return cmp.Or(words, "(no entry)") }
