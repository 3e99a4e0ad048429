package status

import (
	"cmp"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Lookup is an index of an Input: objects by name, and pods by node and by namespace.
type Lookup struct {
	in       *Input
	machines map[string]*mcfgv1.MachineConfigNode // by node
	tables   map[string]routing                   // by rendered config, made when asked for
	// NodeOf are the nodes by name, PodsOn the pods by node, PodsOf those by namespace.
	NodeOf         map[string]*corev1.Node
	PodsOn, PodsOf map[string][]*rollout.Pod
}

// routing is the routes of a rendered config, or the reason why they are not known.
type routing struct {
	table *mirrors.Table
	err   error
}

// NewLookup returns that of in, which it keeps.
func NewLookup(in *Input) *Lookup {
	l := &Lookup{
		in: in, NodeOf: make(map[string]*corev1.Node, len(in.Cluster.Nodes)), machines: make(map[string]*mcfgv1.MachineConfigNode, len(in.MachineNodes)),
		PodsOn: map[string][]*rollout.Pod{}, PodsOf: map[string][]*rollout.Pod{}, tables: map[string]routing{},
	}
	for _, n := range in.Cluster.Nodes {
		l.NodeOf[n.Name] = n
	}
	for _, m := range in.MachineNodes {
		l.machines[cmp.Or(m.Spec.Node.Name, m.Name)] = m
	}
	for i := range in.Cluster.Pods {
		p := &in.Cluster.Pods[i]
		l.PodsOn[p.Node] = append(l.PodsOn[p.Node], p)
		l.PodsOf[p.Namespace] = append(l.PodsOf[p.Namespace], p)
	}
	return l
}

// routes returns those of a rendered config.
func (l *Lookup) routes(config string) (*mirrors.Table, error) {
	known, ok := l.tables[config]
	if !ok {
		if r := l.in.Rendered[config]; r == nil {
			known.err = fmt.Errorf("rendered config %s of the node was not read", cmp.Or(config, "(none)"))
		} else {
			known.table, known.err = r.Routes()
		}
		l.tables[config] = known
	}
	return known.table, known.err
}

// Path is the route of an image for pods of a namespace, which is "" if it has no signature policy of its
// own for the image.
type Path struct {
	mirrors.Route
	Namespace string
}

// Open returns the places that nodes ask.
func (p Path) Open() []PlaceAsked {
	var places []PlaceAsked
	for _, s := range p.Sources {
		if s.Tried() {
			places = append(places, PlaceAsked{Place{s.Location, p.Namespace}, s})
		}
	}
	return places
}

// RouteOn returns the route of an image for the pods of a namespace on a node, by the rendered
// config that the node has, or why it is not known.
func (l *Lookup) RouteOn(node, namespace, image string) (Path, string) {
	n := l.NodeOf[node]
	switch {
	case image == "":
		return Path{}, "it is not known which image"
	case n == nil:
		return Path{}, "the node is not known"
	}
	return l.RouteBy(rollout.ReportOf(n).Current, namespace, image)
}

// RouteBy returns the route of an image by a rendered config, as RouteOn does.
func (l *Lookup) RouteBy(config, namespace, image string) (Path, string) {
	table, err := l.routes(config)
	if err != nil {
		return Path{}, err.Error()
	}
	if !table.DiffersIn(namespace, image) {
		namespace = ""
	}
	r, err := table.Route(image, namespace)
	switch {
	case err != nil:
		return Path{}, err.Error()
	case r.Err != nil:
		return Path{}, r.Err.Error()
	}
	return Path{r, namespace}, ""
}

// PlacesOf returns the places of a route in words, in order.
func PlacesOf(r mirrors.Route) []string {
	var places []string
	for _, s := range r.Sources {
		place := s.Ref
		if !s.Tried() {
			place += " (blocked)"
		}
		places = append(places, place)
	}
	return places
}
