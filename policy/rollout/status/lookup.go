package status

import (
	"cmp"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// lookup is an index of an Input: objects by name, and pods by node and by namespace.
type lookup struct {
	in       *Input
	nodes    map[string]*corev1.Node
	machines map[string]*mcfgv1.MachineConfigNode // by node
	on, of   map[string][]*rollout.Pod            // by node, by namespace
	tables   map[string]routing                   // by rendered config, made when asked for
}

// routing is the routes of a rendered config, or the reason why they are not known.
type routing struct {
	table *mirrors.Table
	err   error
}

func newLookup(in *Input) *lookup {
	l := &lookup{
		in: in, nodes: make(map[string]*corev1.Node, len(in.Cluster.Nodes)), machines: make(map[string]*mcfgv1.MachineConfigNode, len(in.MachineNodes)),
		on: map[string][]*rollout.Pod{}, of: map[string][]*rollout.Pod{}, tables: map[string]routing{},
	}
	for _, n := range in.Cluster.Nodes {
		l.nodes[n.Name] = n
	}
	for _, m := range in.MachineNodes {
		l.machines[cmp.Or(m.Spec.Node.Name, m.Name)] = m
	}
	for i := range in.Cluster.Pods {
		p := &in.Cluster.Pods[i]
		l.on[p.Node] = append(l.on[p.Node], p)
		l.of[p.Namespace] = append(l.of[p.Namespace], p)
	}
	return l
}

// routes returns those of a rendered config.
func (l *lookup) routes(config string) (*mirrors.Table, error) {
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

// path is the route of an image for pods of a namespace, which is "" if it has no signature policy of its
// own for the image.
type path struct {
	mirrors.Route
	namespace string
}

// open returns the places that nodes ask.
func (p path) open() []PlaceAsked {
	var places []PlaceAsked
	for _, s := range p.Sources {
		if s.Tried() {
			places = append(places, PlaceAsked{Place{s.Location, p.namespace}, s})
		}
	}
	return places
}

// routeOn returns the route of an image for the pods of a namespace on a node, by the rendered
// config that the node has, or why it is not known.
func (l *lookup) routeOn(node, namespace, image string) (path, string) {
	n := l.nodes[node]
	switch {
	case image == "":
		return path{}, "it is not known which image"
	case n == nil:
		return path{}, "the node is not known"
	}
	return l.routeBy(rollout.ReportOf(n).Current, namespace, image)
}

func (l *lookup) routeBy(config, namespace, image string) (path, string) {
	table, err := l.routes(config)
	if err != nil {
		return path{}, err.Error()
	}
	if !table.DiffersIn(namespace, image) {
		namespace = ""
	}
	r, err := table.Route(image, namespace)
	switch {
	case err != nil:
		return path{}, err.Error()
	case r.Err != nil:
		return path{}, r.Err.Error()
	}
	return path{r, namespace}, ""
}

// placesOf returns the places of a route in words, in order.
func placesOf(r mirrors.Route) []string {
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
