package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
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
	*cluster
	controllers []rollout.Controller
	makers      rollout.Makers // of controllers, once they are asked for
}

// obstacles returns all of them: those of routers first, then those that block a drain at once.
func obstacles(of *cluster, controllers []rollout.Controller) []Obstacle {
	w := &survey{cluster: of, controllers: controllers}
	all := slices.Concat(w.budgetObstacles(), w.immovable())
	slices.SortStableFunc(all, func(a, b Obstacle) int {
		return cmp.Or(convert.Int(b.Router)-convert.Int(a.Router), slices.Index(kindOrder, a.Kind)-slices.Index(kindOrder, b.Kind), strings.Compare(a.first(), b.first()))
	})
	return all
}

func (o Obstacle) first() string {
	return strings.Join(append(slices.Clone(o.Budgets), o.Pods...), " ")
}

// with adds a pod.
func (o *Obstacle) with(w *survey, i int32) {
	p := &w.pods[i]
	o.Pods = append(o.Pods, w.pods[i].FullName())
	if p.node >= 0 && !slices.Contains(o.Nodes, w.nodes[p.node].Name) {
		o.Nodes = append(o.Nodes, w.nodes[p.node].Name)
	}
	o.Router = o.Router || isRouter(p)
}

func isRouter(p *pod) bool {
	return p.Namespace == "openshift-ingress" && strings.HasPrefix(p.Name, "router-")
}

// order has the object by which an operator makes a pod do what helps, where there is one: the operator takes back what others do.
func (w *survey) order(i int32, what string) string {
	if w.makers == nil {
		w.makers = rollout.NewMakers(w.controllers)
	}
	p := &w.pods[i]
	switch maker := w.makers.Of(p.Pod); {
	case isRouter(p):
		return "have their IngressController " + what
	case maker != "":
		return "have " + maker + " " + what
	default:
		return what
	}
}

// budgetObstacles are those that budgets make.
func (w *survey) budgetObstacles() []Obstacle {
	var all []Obstacle
	doubled := map[string]*Obstacle{}
	for _, b := range w.budgets {
		if w.ask(10) {
			break
		}
		ready := 0
		var running []int32
		for _, i := range b.pods {
			p := &w.pods[i]
			ready += convert.Int(p.state == healthy)
			if p.stays || p.state != healthy && p.state != unready {
				continue
			}
			if len(p.podClass.budgets) > 1 {
				if p.podClass.budgets[0] == b {
					w.addDoubled(doubled, i)
				}
				continue
			}
			running = append(running, i)
		}
		refused := slices.DeleteFunc(running, func(i int32) bool { return b.allows(w.pods[i].state, ready) })
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
	names := w.pods[i].podClass.budgetNames()
	key := strings.Join(names, " ")
	if doubled[key] == nil {
		help := "make their selectors select different pods, or delete all but one"
		for _, b := range w.pods[i].podClass.budgets {
			if b.Maker() != "" {
				help = b.name() + " is to stay: " + b.Maker() + " made it"
			}
		}
		doubled[key] = &Obstacle{Kind: ManyBudgets, Budgets: names, Why: tooManyBudgets, Help: help}
	}
	doubled[key].with(w, i)
}

func (w *survey) noEviction(b *budget, refused []int32, ready int) Obstacle {
	o := Obstacle{Kind: NoEviction, Budgets: []string{b.name()}}
	for _, i := range refused {
		o.with(w, i)
	}
	switch {
	case b.never != "":
		o.Why, o.Help = b.never, "change the budget"
	case b.most <= b.desired:
		o.Why = b.asksForAll()
		if o.Help = w.order(refused[0], "run more replicas"); !o.Router {
			o.Help += ", or let the budget allow one to be unavailable"
		}
	default:
		o.Why = fmt.Sprintf("%s of %s %s ready, and %s to be", text.Number(ready), text.Count(len(b.pods), "pod"), isAre(ready), text.Plural(b.desired, "has", "have"))
		o.Help = "see to the pods that are not ready: " + text.Names(w.notReady(b), namesShown)
		return o
	}
	return w.leftToOwner(o, b)
}

// leftToOwner leaves a budget that is owned to its owner: it says what that may wait for.
func (w *survey) leftToOwner(o Obstacle, b *budget) Obstacle {
	if b.Maker() == "" || o.Router { // of a router's, its IngressController lifts nothing
		return o
	}
	o.Help = "see to " + b.Maker() + ", which made the budget, and lifts it by itself"
	var all []*rollout.Pod
	for i := range w.pods {
		if w.pods[i].Namespace == b.Namespace && !w.ask(1) {
			all = append(all, w.pods[i].Pod)
		}
	}
	if beside := b.Beside(all); len(beside) > 0 {
		o.Help = "see to the pods that are not ready: " + text.Names(convert.Each(beside, (*rollout.Pod).FullName), namesShown) + "; then to " + strings.TrimPrefix(o.Help, "see to ")
	}
	return o
}

// notReady names the pods of a budget that are not, or says that they are missing.
func (w *survey) notReady(b *budget) []string {
	var names []string
	for _, i := range b.pods {
		if w.pods[i].state != healthy {
			names = append(names, w.pods[i].FullName())
		}
	}
	if len(names) == 0 {
		names = []string{text.Count(b.most-len(b.pods), "pod") + " not created yet"}
	}
	return names
}

// immovable are the pods of budgets that fit no other node as things are, those of one owner together.
func (w *survey) immovable() []Obstacle {
	at := w.newPlacement(assumption{im: w.images})
	byOwner := map[string]*Obstacle{}
	elsewhere := make([][]int32, len(w.classes)) // two nodes are one more than a pod is on
	for i := range w.pods {
		p := &w.pods[i]
		if p.stays || p.node < 0 || p.IsBare() || len(p.podClass.budgets) == 0 || w.ask(2) {
			continue
		}
		s := p.podClass
		if elsewhere[s.id] == nil {
			elsewhere[s.id] = w.feasible(at, s, 2)
		}
		if len(elsewhere[s.id]) > 1 {
			continue
		}
		pod := int32(i)
		at.remove(pod)
		why := w.onlyOn(at, s, p.node)
		at.put(pod, p.node)
		if why == "" {
			continue
		}
		key := p.Namespace + "/" + p.Owner.Kind + "/" + p.Owner.Name + "/" + why
		if byOwner[key] == nil {
			byOwner[key] = &Obstacle{Kind: CannotMove, Budgets: s.budgetNames(), Why: why, Help: w.helpToMove(pod, why)}
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
func (w *survey) feasible(at *placement, s *podClass, most int) []int32 {
	found := []int32{}
	for _, n := range s.eligible.list {
		if w.ask(1); at.obstructed(s, n) == "" {
			if found = append(found, n); len(found) == most {
				break
			}
		}
	}
	return found
}

// onlyOn says why a pod that is on a node can go to no other one, "" if it can.
func (w *survey) onlyOn(at *placement, s *podClass, own int32) string {
	for _, n := range s.eligible.list {
		if w.ask(1); n != own && at.obstructed(s, n) == "" {
			return ""
		}
	}
	counts := map[obstruction]int{}
	for i := range w.nodes {
		if n := int32(i); n != own && !w.ask(1) {
			counts[at.ruledOut(s, n)]++
		}
	}
	var parts []string
	for _, why := range obstructions {
		if counts[why] > 0 {
			parts = append(parts, fmt.Sprintf("%s by %s", text.Number(counts[why]), why))
		}
	}
	switch len(parts) {
	case 0:
		return "there is no other node"
	case 1:
		_, by, _ := strings.Cut(parts[0], " ")
		return fmt.Sprintf("%s ruled out %s", text.Plural(len(w.nodes)-1, "other node is", "other nodes are"), by)
	default:
		return fmt.Sprintf("of %s, %s", text.Plural(len(w.nodes)-1, "other node", "other nodes"), strings.Replace(strings.Join(parts, ", "), " by ", " are ruled out by ", 1))
	}
}

func (w *survey) helpToMove(i int32, why string) string {
	switch {
	case strings.Contains(why, string(portTaken)), strings.Contains(why, string(antiAffinity)):
		return w.order(i, "run fewer replicas than there are nodes for them") + ", or add a node"
	case strings.Contains(why, string(noRoom)):
		return "make room on another node"
	default:
		return "expect it to be down until its node is back"
	}
}
