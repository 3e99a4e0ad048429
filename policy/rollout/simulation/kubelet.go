package simulation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// imagePull is an image that a kubelet needs before a pod starts.
type imagePull struct {
	image  int32
	policy corev1.PullPolicy
	// namespace is that of the pod, with is what it brings to pull with.
	namespace string
	with      credential
}

// credential identifies the credentials that pods add to those of the nodes: the pull secrets that they
// name. The zero value stands for none.
type credential struct{ namespace, secrets string }

// hasOwnSecrets reports whether the pod brings a pull secret of its own.
func (p imagePull) hasOwnSecrets() bool { return p.with != credential{} }

func credentialOf(s *podClass) credential {
	if len(s.spec.PullSecrets) == 0 {
		return credential{}
	}
	return credential{s.namespace, strings.Join(s.spec.PullSecrets, ",")}
}

// Images are the images that nodes hold, and those that they can pull.
type Images struct {
	w     *cluster
	names []string
	ids   map[string]int32
	// held are images on nodes before the rollout. Listed are those that nodes name in their
	// status, pulled with unknown credentials.
	held   holdings
	listed map[uint64]bool
	// pinned are those that nodes hold by PinnedImageSets (rollout.Cluster.Held). MCO's daemon pulled them,
	// or found them there.
	pinned map[uint64]bool
	// ownPolicy are namespaces whose pods CRI-O holds to a signature policy of their own when it creates a
	// container: it may then ask the registry about an image that is there.
	ownPolicy map[string]bool
	// templates are the images of the pods that controllers make from now on, where they may differ from those of existing pods
	// (rollout.Controller.Template).
	templates map[ownerKey][]imagePull
	// shared says of images that pods with different credentials use them.
	shared []bool
	// verifies says of nodes whether their kubelets verify credentials for images that are there.
	verifies []bool
	// answers are those of Input.Pull, by image, pool and time.
	answers map[pullKey]rollout.Pull
}

type pullKey struct {
	image     int32
	namespace string
	pool      int
	updated   bool
}

// holdings are images on nodes and, where it matters, the credentials with which they are known to have
// been pulled there.
type holdings struct {
	held map[uint64]bool
	with map[heldWith]bool
}

type heldWith struct {
	held uint64
	credential
}

func newHoldings() holdings { return holdings{map[uint64]bool{}, map[heldWith]bool{}} }

func heldKey(image int32, n int32) uint64 { return uint64(uint32(image))<<32 | uint64(uint32(n)) } //nolint:gosec // both are indexes

// started notes that a pod with the image runs on a node, or ran there.
func (im *Images) started(h holdings, p imagePull, n int32) {
	key := heldKey(p.image, n)
	h.held[key] = true
	if im.shared[p.image] {
		h.with[heldWith{key, p.with}] = true
	}
}

// has reports whether the kubelet of a node takes the image from the node, without asking the
// registry. Since Kubernetes 1.35 it does so only where it pulled the image with the credentials
// of the pod, or with none but the node's own (KEP-2535; pkg/kubelet/images/pullmanager,
// MustAttemptImagePull).
func (im *Images) has(h holdings, p imagePull, n int32) bool {
	key := heldKey(p.image, n)
	if !im.shared[p.image] || !im.verifies[n] {
		return h.held[key] || im.listed[key] || im.pins(p, n)
	}
	return h.with[heldWith{key, p.with}] || h.with[heldWith{key, credential{}}]
}

// asks reports whether the kubelet of a node asks the registry for an image before the rollout.
func (im *Images) asks(p imagePull, n int32) bool {
	return p.policy == corev1.PullAlways || p.policy != corev1.PullNever && !im.has(im.held, p, n)
}

// pins reports whether a node certainly holds an image by a PinnedImageSet. By default (NeverVerifyPreloadedImages)
// the kubelet then verifies no credentials for it, unless it pulled the image itself, with those of another
// pod: see has.
func (im *Images) pins(p imagePull, n int32) bool {
	return im.pinned[heldKey(p.image, n)] && !im.ownPolicy[p.namespace]
}

// replacement returns what may have to be on a node for the pod that its controller makes instead of p.
func (im *Images) replacement(p *pod) []imagePull {
	return slices.Concat(p.podClass.pulls, im.templates[ownerKey{p.Namespace, p.Owner}])
}

// verifiesCredentials reports whether the kubelet of a node does so: the feature
// KubeletEnsureSecretPulledImages is on since 1.35.
func verifiesCredentials(node *corev1.Node) bool {
	v, err := version.ParseGeneric(node.Status.NodeInfo.KubeletVersion)
	return err == nil && v.AtLeast(version.MajorMinor(1, 35))
}

func (w *cluster) addImages() {
	im := &Images{
		w: w, ids: map[string]int32{}, held: newHoldings(), listed: map[uint64]bool{}, pinned: map[uint64]bool{}, verifies: make([]bool, len(w.nodes)),
		answers: map[pullKey]rollout.Pull{}, templates: map[ownerKey][]imagePull{},
	}
	w.images = im
	im.addPulls()
	for n := range w.nodes {
		im.addListed(int32(n))
		if w.ask(20) {
			return
		}
	}
	im.pin(w.in.Cluster.Held())
	for i := range w.pods {
		if p := &w.pods[i]; p.node >= 0 && p.Started {
			im.startAll(p.podClass, p.node)
		}
	}
	for _, p := range w.ending {
		im.startAll(p.podClass, p.node)
	}
}

// addPulls enters what pods and templates pull.
func (im *Images) addPulls() {
	w := im.w
	var users []credential // of images, their first
	pullOf := func(c rollout.Container, namespace string, with credential) imagePull {
		id, ok := im.ids[c.Image]
		if !ok {
			id = int32(len(im.names)) //nolint:gosec // there are not that many
			im.ids[c.Image] = id
			im.names = append(im.names, c.Image)
			im.shared = append(im.shared, false)
			users = append(users, with)
		}
		im.shared[id] = im.shared[id] || users[id] != with
		return imagePull{id, c.Pull, namespace, with}
	}
	for _, s := range w.classes {
		for _, c := range s.spec.Containers {
			s.pulls = append(s.pulls, pullOf(c, s.namespace, credentialOf(s)))
		}
	}
	templates := map[ownerKey][]rollout.Container{}
	for _, c := range w.in.Cluster.Controllers {
		if len(c.Template) > 0 {
			templates[ownerKey{c.Namespace, c.Owner}] = c.Template
		}
	}
	for i := range w.pods {
		p := &w.pods[i]
		owner := ownerKey{p.Namespace, p.Owner}
		if im.templates[owner] != nil {
			continue
		}
		for _, c := range templates[owner] {
			im.templates[owner] = append(im.templates[owner], pullOf(c, p.Namespace, credentialOf(p.podClass)))
		}
	}
}

// addListed enters what node n lists.
func (im *Images) addListed(n int32) {
	node := im.w.nodes[n]
	im.verifies[n] = verifiesCredentials(node.Node)
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			im.hold(name, n)
			im.hold(strings.TrimSuffix(name, ":latest"), n)
		}
	}
}

// startAll notes that node has the images of pods of a class that run there.
func (im *Images) startAll(class *podClass, node int32) {
	for _, pull := range class.pulls {
		im.started(im.held, pull, node)
	}
}

// pin notes what nodes hold by PinnedImageSets.
func (im *Images) pin(held map[string][]string) {
	im.ownPolicy = map[string]bool{}
	for _, namespace := range im.w.in.OwnPolicies {
		im.ownPolicy[namespace] = true
	}
	for name, refs := range held {
		n, ok := im.w.byName[name]
		if !ok {
			continue
		}
		for _, ref := range refs {
			if id, used := im.ids[ref]; used {
				im.pinned[heldKey(id, n)] = true
			}
		}
	}
}

func (im *Images) hold(name string, n int32) {
	if id, ok := im.ids[name]; ok {
		im.listed[heldKey(id, n)] = true
	}
}

func (im *Images) pull(p imagePull, pool int, updated bool) rollout.Pull {
	key := pullKey{p.image, p.namespace, pool, updated}
	answer, ok := im.answers[key]
	if !ok {
		name := ""
		if pool >= 0 {
			name = im.w.pools[pool].Name
		}
		answer = im.w.in.Pull(im.names[p.image], p.namespace, name, updated)
		im.answers[key] = answer
	}
	return answer
}

// assumption decides how unknowns count.
type assumption struct {
	im *Images
	// works assumes that every pull works.
	works bool
	// sure assumes the worst only of pods that are known not to end or not to be made again.
	sure bool
}

// fails returns the image that keeps a pod from starting on a node that has one of the two
// routes, -1 if none does. More are images that came to nodes in the meantime.
func (v assumption) fails(s *podClass, n int32, updated bool, more holdings) int32 {
	for _, p := range s.pulls {
		if !v.starts(p, n, updated, more) {
			return p.image
		}
	}
	return -1
}

// starts restates EnsureImageExists of the kubelet (pkg/kubelet/images): Always asks the
// registry even for an image that is there, and Never asks for none.
func (v assumption) starts(p imagePull, n int32, updated bool, more holdings) bool {
	if v.works {
		return true
	}
	here := func() bool {
		return v.im.has(v.im.held, p, n) || v.im.has(more, p, n)
	}
	switch p.policy {
	case corev1.PullAlways:
		return v.pulls(p, n, updated)
	case corev1.PullNever:
		return here()
	default:
		return here() || v.pulls(p, n, updated)
	}
}

func (v assumption) pulls(p imagePull, n int32, updated bool) bool {
	return v.im.pull(p, v.im.w.nodes[n].pool, updated) == rollout.PullWorks
}

// anywhereFails reports whether there is a pool and a route by which the image cannot be
// pulled, or perhaps cannot.
func (v assumption) anywhereFails(p imagePull) bool {
	if v.works {
		return false
	}
	if p.policy == corev1.PullNever {
		return true
	}
	for pool := -1; pool < len(v.im.w.pools); pool++ {
		for _, updated := range []bool{false, true} {
			if v.im.pull(p, pool, updated) != rollout.PullWorks {
				return true
			}
		}
	}
	return false
}

// mayFail returns the node where a pod of the class may be unable to start at some time of the
// rollout, with the image, among the nodes that it may run on. False means that it starts
// wherever it goes.
func (v assumption) mayFail(s *podClass, nodes []int32) (n, image int32, updated, fails bool) {
	for _, p := range s.pulls {
		if !v.anywhereFails(p) {
			continue
		}
		for _, n := range nodes {
			v.im.w.ask(1)
			if !v.starts(p, n, false, holdings{}) {
				return n, p.image, false, true
			}
			if v.im.w.nodes[n].taken && !v.starts(p, n, true, holdings{}) {
				return n, p.image, true, true
			}
		}
	}
	return -1, -1, false, false
}
