package simulation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// An imagePull is an image that a kubelet needs before a pod starts.
type imagePull struct {
	image  int32
	policy corev1.PullPolicy
}

// Images are what nodes hold, and what they can pull.
type images struct {
	w     *world
	names []string
	ids   map[string]int32
	// held are images on nodes, by heldKey.
	held map[uint64]bool
	// cut says of nodes that they name only the largest of their images.
	cut []bool
	// answers are those of Input.Pull, by image, pool and time.
	answers map[pullKey]Pull
}

type pullKey struct {
	image   int32
	pool    int
	updated bool
}

func heldKey(image int32, n int32) uint64 { return uint64(uint32(image))<<32 | uint64(uint32(n)) } //nolint:gosec // both are indexes

// listedImages is how many images a node names in its status, unless nodeStatusMaxImages of
// its KubeletConfiguration says otherwise; the smaller ones are missing.
const listedImages = 50

func (w *world) addImages() {
	im := &images{w: w, ids: map[string]int32{}, held: map[uint64]bool{}, cut: make([]bool, len(w.nodes)), answers: map[pullKey]Pull{}}
	w.images = im
	for _, s := range w.shapes {
		for _, c := range s.spec.Containers {
			id, ok := im.ids[c.Image]
			if !ok {
				id = int32(len(im.names)) //nolint:gosec // there are not that many
				im.ids[c.Image] = id
				im.names = append(im.names, c.Image)
			}
			s.pulls = append(s.pulls, imagePull{id, c.Pull})
		}
	}
	for n := range w.nodes {
		listed := w.nodes[n].obj.Status.Images
		im.cut[n] = len(listed) >= listedImages
		for _, image := range listed {
			for _, name := range image.Names {
				im.hold(name, int32(n))
				im.hold(strings.TrimSuffix(name, ":latest"), int32(n))
			}
		}
		if w.ask(20) {
			return
		}
	}
	for i := range w.pods {
		p := &w.pods[i]
		if p.node < 0 || !p.Started {
			continue
		}
		for _, pull := range p.shape.pulls {
			im.held[heldKey(pull.image, p.node)] = true
		}
	}
}

func (im *images) hold(name string, n int32) {
	if id, ok := im.ids[name]; ok {
		im.held[heldKey(id, n)] = true
	}
}

func (im *images) pull(image int32, pool int, updated bool) Pull {
	key := pullKey{image, pool, updated}
	answer, ok := im.answers[key]
	if !ok {
		name := ""
		if pool >= 0 {
			name = im.w.pools[pool].Name
		}
		answer = im.w.in.Pull(im.names[image], name, updated)
		im.answers[key] = answer
	}
	return answer
}

// A view says how to take what is not known.
type view struct {
	im *images
	// hopeful takes it for the best; works says that every pull works.
	hopeful, works bool
}

// fails returns the image that keeps a pod from starting on a node that has one of the two
// routes, -1 if none does. More are images that came to nodes in the meantime.
func (v view) fails(s *shape, n int32, updated bool, more map[uint64]bool) int32 {
	for _, p := range s.pulls {
		if !v.starts(p, n, updated, more) {
			return p.image
		}
	}
	return -1
}

// starts restates EnsureImageExists of the kubelet (pkg/kubelet/images): Always asks the
// registry even for an image that is there, and Never asks for none.
func (v view) starts(p imagePull, n int32, updated bool, more map[uint64]bool) bool {
	if v.works {
		return true
	}
	here := func() bool {
		key := heldKey(p.image, n)
		return v.im.held[key] || more[key] || v.hopeful && v.im.cut[n]
	}
	switch p.policy {
	case corev1.PullAlways:
		return v.pulls(p.image, n, updated)
	case corev1.PullNever:
		return here()
	default:
		return here() || v.pulls(p.image, n, updated)
	}
}

func (v view) pulls(image int32, n int32, updated bool) bool {
	switch v.im.pull(image, v.im.w.nodes[n].pool, updated) {
	case PullWorks:
		return true
	case PullFails:
		return false
	default:
		return v.hopeful
	}
}

// anywhereFails reports whether there is a pool and a route by which the image cannot be
// pulled, or perhaps cannot.
func (v view) anywhereFails(p imagePull) bool {
	if v.works {
		return false
	}
	if p.policy == corev1.PullNever {
		return true
	}
	for pool := -1; pool < len(v.im.w.pools); pool++ {
		for _, updated := range []bool{false, true} {
			answer := v.im.pull(p.image, pool, updated)
			if answer == PullFails || answer == PullUnknown && !v.hopeful {
				return true
			}
		}
	}
	return false
}

// mayFail returns the node where a pod of the shape may be unable to start at some time of the
// rollout, with the image, among the nodes that it may run on. False means that it starts
// wherever it goes.
func (v view) mayFail(s *shape, nodes []int32) (n, image int32, updated, fails bool) {
	for _, p := range s.pulls {
		if !v.anywhereFails(p) {
			continue
		}
		for _, n := range nodes {
			v.im.w.ask(1)
			if !v.starts(p, n, false, nil) {
				return n, p.image, false, true
			}
			if v.im.w.nodes[n].taken && !v.starts(p, n, true, nil) {
				return n, p.image, true, true
			}
		}
	}
	return -1, -1, false, false
}
