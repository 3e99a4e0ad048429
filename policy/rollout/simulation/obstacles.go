package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// Obstacle hinders the drains of any change.
type Obstacle struct {
	Kind ObstacleKind
	// Budgets are those that it is about ("namespace/name"), if any.
	Budgets []string
	// Pods are those that it is about ("namespace/name"), and Nodes where they are.
	Pods  []string
	Nodes []string
	// Why is the reason, as a clause, and Help what would help, as an order.
	Why  string
	Help string
	// Router says that pods are those of an ingress controller.
	Router bool
}

// ObstacleKind is the kind of an Obstacle.
type ObstacleKind string

// The kinds.
const (
	// ManyBudgets: the eviction API evicts no pod that has more than one budget.
	ManyBudgets ObstacleKind = "more than one budget"
	// NoEviction: a budget allows no eviction as things are.
	NoEviction ObstacleKind = "no eviction"
	// CannotMove: there is no other node for a pod of a budget as things are.
	CannotMove ObstacleKind = "cannot move"
)

var kindOrder = []ObstacleKind{ManyBudgets, NoEviction, CannotMove}

// survey looks for obstacles.
type survey struct {
	*scheduling.Cluster
	of     *rollout.Cluster
	makers rollout.Makers // of its controllers, once they are asked for
}

// obstacles returns all of them: those of routers first, then those that block a drain at once.
func obstacles(indexed *scheduling.Cluster, of *rollout.Cluster) []Obstacle {
	w := &survey{Cluster: indexed, of: of}
	all := slices.Concat(w.budgetObstacles(), w.immovable())
	slices.SortStableFunc(all, func(a, b Obstacle) int {
		return cmp.Or(convert.Int(b.Router)-convert.Int(a.Router), slices.Index(kindOrder, a.Kind)-slices.Index(kindOrder, b.Kind), strings.Compare(a.first(), b.first()))
	})
	return all
}

// String returns the obstacle as a sentence without its end: "budget openshift-ingress/
// router-default allows no eviction of openshift-ingress/router-default-abc (worker-1): ...".
func (o Obstacle) String() string {
	pods := fmt.Sprintf("%s (%s)", text.Names(o.Pods, namesShown), text.Names(o.Nodes, namesShown))
	budgets := text.Names(o.Budgets, namesShown)
	said := ""
	switch o.Kind {
	case ManyBudgets:
		said = fmt.Sprintf("%s cannot be evicted, with budgets %s", pods, budgets)
	case NoEviction:
		said = fmt.Sprintf("budget %s allows no eviction of %s", budgets, pods)
	case CannotMove:
		said = fmt.Sprintf("%s fit no other node", pods)
		if len(o.Pods) == 1 {
			said = fmt.Sprintf("%s fits no other node", pods)
		}
	}
	said += ": " + o.Why
	if o.Help != "" {
		said += "; " + o.Help
	}
	return said
}

func (o Obstacle) first() string {
	return strings.Join(append(slices.Clone(o.Budgets), o.Pods...), " ")
}

// with adds a pod.
func (o *Obstacle) with(w *survey, i int32) {
	p := &w.Pods[i]
	o.Pods = append(o.Pods, w.Pods[i].FullName())
	if p.At >= 0 && !slices.Contains(o.Nodes, w.Nodes[p.At].Name) {
		o.Nodes = append(o.Nodes, w.Nodes[p.At].Name)
	}
	o.Router = o.Router || isRouter(p)
}

func isRouter(p *scheduling.Pod) bool {
	return p.Namespace == "openshift-ingress" && strings.HasPrefix(p.Name, "router-")
}

// order has the object by which an operator makes a pod do what helps, where there is one: the operator takes back what others do.
func (w *survey) order(i int32, what string) string {
	if w.makers == nil {
		w.makers = rollout.NewMakers(w.of.Controllers)
	}
	p := &w.Pods[i]
	workload := p.Workload()
	switch maker := w.makers.Of(p.Pod); {
	case isRouter(p):
		return "have their IngressController " + what
	case maker != "":
		return "have " + maker + " " + what
	case slices.Contains(w.of.Unknown, rollout.ControllerResources[workload.Kind]):
		return fmt.Sprintf("%s (or have the owner of %s do so, if it has one)", what, text.Line(workload.Kind+" "+workload.Name))
	default:
		return what
	}
}

// budgetObstacles are those that budgets make.
func (w *survey) budgetObstacles() []Obstacle {
	var all []Obstacle
	doubled := map[string]*Obstacle{}
	for _, b := range w.Budgets {
		if w.Ask(10) {
			break
		}
		ready := 0
		var running []int32
		for _, i := range b.Pods {
			p := &w.Pods[i]
			ready += convert.Int(p.State == scheduling.Healthy)
			if p.Stays || p.State != scheduling.Healthy && p.State != scheduling.Unready {
				continue
			}
			if len(p.PodClass.Budgets) > 1 {
				if p.PodClass.Budgets[0] == b {
					w.addDoubled(doubled, i)
				}
				continue
			}
			running = append(running, i)
		}
		refused := slices.DeleteFunc(running, func(i int32) bool { return b.Allows(w.Pods[i].State, ready) })
		if len(refused) > 0 {
			all = append(all, w.noEviction(b, refused, ready))
		}
	}
	for _, o := range doubled {
		all = append(all, *o)
	}
	return all
}

func (w *survey) addDoubled(doubled map[string]*Obstacle, i int32) {
	names := w.Pods[i].PodClass.BudgetNames()
	key := strings.Join(names, " ")
	if doubled[key] == nil {
		help := "make their selectors select different pods, or delete all but one"
		for _, b := range w.Pods[i].PodClass.Budgets {
			if b.Maker() != "" {
				help = b.FullName() + " is to stay: " + b.Maker() + " made it"
			}
		}
		doubled[key] = &Obstacle{Kind: ManyBudgets, Budgets: names, Why: scheduling.TooManyBudgets, Help: help}
	}
	doubled[key].with(w, i)
}

func (w *survey) noEviction(b *scheduling.Budget, refused []int32, ready int) Obstacle {
	o := Obstacle{Kind: NoEviction, Budgets: []string{b.FullName()}}
	for _, i := range refused {
		o.with(w, i)
	}
	switch {
	case b.Never != "":
		o.Why, o.Help = b.Never, "change the budget"
	case b.Most <= b.Required:
		o.Why, o.Help = b.AsksForAll(), "let the budget allow one to be unavailable"
		switch more := w.order(refused[0], "run more replicas"); {
		case o.Router:
			o.Help = more
		case b.OneMoreHelps(b.Most, b.Most):
			o.Help = more + ", or " + o.Help
		}
		if ready < len(b.Pods) { // more of these, and a budget that lets one of them be away, may let none go
			o.Help = w.seeTo(b) + "; then " + o.Help
		}
	default:
		o.Why = fmt.Sprintf("%s of %s %s ready, and %s to be", text.Number(ready), text.Count(len(b.Pods), "pod"), isAre(ready), text.Plural(b.Required, "has", "have"))
		o.Help = w.seeTo(b)
		return o
	}
	return w.leftToOwner(o, b)
}

// leftToOwner leaves a budget that is owned to its owner: it says what that may wait for.
func (w *survey) leftToOwner(o Obstacle, b *scheduling.Budget) Obstacle {
	if b.Maker() == "" || o.Router { // of a router's, its IngressController lifts nothing
		return o
	}
	o.Help = "see to " + b.Maker() + ", which made the budget, and lifts it by itself"
	var all []*rollout.Pod
	for i := range w.Pods {
		if w.Pods[i].Namespace == b.Namespace && !w.Ask(1) {
			all = append(all, w.Pods[i].Pod)
		}
	}
	if beside := b.Beside(all); len(beside) > 0 {
		o.Help = "see to the pods that are not ready: " + text.Names(convert.Each(beside, (*rollout.Pod).FullName), namesShown) + "; then to " + strings.TrimPrefix(o.Help, "see to ")
	}
	return o
}

// seeTo names the pods of a budget that are not ready, or says that they are missing.
func (w *survey) seeTo(b *scheduling.Budget) string {
	var names []string
	for _, i := range b.Pods {
		if w.Pods[i].State != scheduling.Healthy {
			names = append(names, w.Pods[i].FullName())
		}
	}
	if len(names) == 0 {
		names = []string{text.Count(b.Most-len(b.Pods), "pod") + " not created yet"}
	}
	return "see to the pods that are not ready: " + text.Names(names, namesShown)
}

// immovable are the pods of budgets that fit no other node as things are, those of one owner together.
func (w *survey) immovable() []Obstacle {
	at := w.NewPlacement(scheduling.Assumption{Images: w.Images})
	byOwner := map[string]*Obstacle{}
	elsewhere := make([][]int32, len(w.Classes)) // two nodes are one more than a pod is on
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Stays || p.At < 0 || p.IsBare() || len(p.PodClass.Budgets) == 0 || w.Ask(2) {
			continue
		}
		s := p.PodClass
		if elsewhere[s.ID] == nil {
			elsewhere[s.ID] = w.feasible(at, s, 2)
		}
		if len(elsewhere[s.ID]) > 1 {
			continue
		}
		pod := int32(i)
		at.Remove(pod)
		why := w.onlyOn(at, s, p.At)
		at.Put(pod, p.At)
		if why == "" {
			continue
		}
		key := p.Namespace + "/" + p.Owner.Kind + "/" + p.Owner.Name + "/" + why
		if byOwner[key] == nil {
			byOwner[key] = &Obstacle{Kind: CannotMove, Budgets: s.BudgetNames(), Why: why, Help: w.helpToMove(pod, why)}
		}
		byOwner[key].with(w, pod)
	}
	var all []Obstacle
	for _, found := range byOwner {
		all = append(all, *found)
	}
	return all
}

// feasible returns as many nodes where a pod can go.
func (w *survey) feasible(at *scheduling.Placement, s *scheduling.PodClass, most int) []int32 {
	found := []int32{}
	for _, n := range s.Eligible.List {
		if w.Ask(1); at.Obstructed(s, n) == "" {
			if found = append(found, n); len(found) == most {
				break
			}
		}
	}
	return found
}

// onlyOn says why a pod that is on a node can go to no other one, "" if it can.
func (w *survey) onlyOn(at *scheduling.Placement, s *scheduling.PodClass, own int32) string {
	for _, n := range s.Eligible.List {
		if w.Ask(1); n != own && at.Obstructed(s, n) == "" {
			return ""
		}
	}
	counts := map[scheduling.Obstruction]int{}
	for i := range w.Nodes {
		if n := int32(i); n != own && !w.Ask(1) {
			counts[at.RuledOut(s, n)]++
		}
	}
	var parts []string
	for _, why := range scheduling.Obstructions {
		if counts[why] > 0 {
			parts = append(parts, fmt.Sprintf("%s by %s", text.Number(counts[why]), why))
		}
	}
	switch len(parts) {
	case 0:
		return "there is no other node"
	case 1:
		_, by, _ := strings.Cut(parts[0], " ")
		return fmt.Sprintf("%s ruled out %s", text.Plural(len(w.Nodes)-1, "other node is", "other nodes are"), by)
	default:
		return fmt.Sprintf("of %s, %s", text.Plural(len(w.Nodes)-1, "other node", "other nodes"), strings.Replace(strings.Join(parts, ", "), " by ", " are ruled out by ", 1))
	}
}

func (w *survey) helpToMove(i int32, why string) string {
	switch {
	case strings.Contains(why, string(scheduling.PortTaken)), strings.Contains(why, string(scheduling.AntiAffinity)):
		return w.order(i, "run fewer replicas than there are nodes for them") + ", or add a node"
	case strings.Contains(why, string(scheduling.NoRoom)):
		return "make room on another node"
	default:
		return "expect it to be down until its node is back"
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
