package scheduling

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// ImagePull is an image that a kubelet needs before a pod starts.
type ImagePull struct {
	Image  int32
	Policy corev1.PullPolicy
	// namespace is that of the pod, with is what it brings to pull with.
	namespace string
	with      credential
}

// credential identifies the credentials that pods add to those of the nodes: the pull secrets that they
// name. The zero value stands for none.
type credential struct{ namespace, secrets string }

// HasOwnSecrets reports whether the pod brings a pull secret of its own.
func (p ImagePull) HasOwnSecrets() bool { return p.with != credential{} }

func credentialOf(s *PodClass) credential {
	if len(s.Spec.PullSecrets) == 0 {
		return credential{}
	}
	return credential{s.namespace, strings.Join(s.Spec.PullSecrets, ",")}
}

// Images are the images that nodes hold, and those that they can pull.
type Images struct {
	w     *Cluster
	Names []string
	ids   map[string]int32
	// held are images on nodes before the rollout. Listed are those that nodes name in their
	// status, pulled with unknown credentials.
	held   Holdings
	listed map[uint64]bool
	// pinned are those that nodes hold by PinnedImageSets (rollout.Cluster.Held). MCO's daemon pulled them,
	// or found them there.
	pinned map[uint64]bool
	// ownPolicy are namespaces whose pods CRI-O holds to a signature policy of their own when it creates a
	// container: it may then ask the registry about an image that is there.
	ownPolicy map[string]bool
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

// Holdings are images on nodes and, where it matters, the credentials with which they are known to have
// been pulled there.
type Holdings struct {
	held map[uint64]bool
	with map[heldWith]bool
}

type heldWith struct {
	held uint64
	credential
}

// NewHoldings returns none.
func NewHoldings() Holdings { return Holdings{map[uint64]bool{}, map[heldWith]bool{}} }

func heldKey(image int32, n int32) uint64 { return uint64(uint32(image))<<32 | uint64(uint32(n)) } //nolint:gosec // both are indexes

// Started notes that a pod with the image runs on a node, or ran there.
func (im *Images) Started(h Holdings, p ImagePull, n int32) {
	key := heldKey(p.Image, n)
	h.held[key] = true
	if im.shared[p.Image] {
		h.with[heldWith{key, p.with}] = true
	}
}

// has reports whether the kubelet of a node takes the image from the node, without asking the
// registry. Since Kubernetes 1.35 it does so only where it pulled the image with the credentials
// of the pod, or with none but the node's own (KEP-2535; pkg/kubelet/images/pullmanager,
// MustAttemptImagePull).
func (im *Images) has(h Holdings, p ImagePull, n int32) bool {
	key := heldKey(p.Image, n)
	if !im.shared[p.Image] || !im.verifies[n] {
		return h.held[key] || im.listed[key] || im.pins(p, n)
	}
	return h.with[heldWith{key, p.with}] || h.with[heldWith{key, credential{}}]
}

// Asks reports whether the kubelet of a node asks the registry for an image before the rollout.
func (im *Images) Asks(p ImagePull, n int32) bool {
	return p.Policy == corev1.PullAlways || p.Policy != corev1.PullNever && !im.has(im.held, p, n)
}

// pins reports whether a node certainly holds an image by a PinnedImageSet. By default (NeverVerifyPreloadedImages)
// the kubelet then verifies no credentials for it, unless it pulled the image itself, with those of another
// pod: see has.
func (im *Images) pins(p ImagePull, n int32) bool {
	return im.pinned[heldKey(p.Image, n)] && !im.ownPolicy[p.namespace]
}

// verifiesCredentials reports whether the kubelet of a node does so: the feature
// KubeletEnsureSecretPulledImages is on since 1.35.
func verifiesCredentials(node *corev1.Node) bool {
	v, err := version.ParseGeneric(node.Status.NodeInfo.KubeletVersion)
	return err == nil && v.AtLeast(version.MajorMinor(1, 35))
}

func (w *Cluster) addImages() {
	im := &Images{
		w: w, ids: map[string]int32{}, held: NewHoldings(), listed: map[uint64]bool{}, pinned: map[uint64]bool{}, verifies: make([]bool, len(w.Nodes)),
		answers: map[pullKey]rollout.Pull{},
	}
	w.Images = im
	im.addPulls()
	for n := range w.Nodes {
		im.addListed(int32(n))
		if w.Ask(20) {
			return
		}
	}
	im.pin(w.in.Cluster.Held())
	for i := range w.Pods {
		if p := &w.Pods[i]; p.At >= 0 && p.Started {
			im.startAll(p.PodClass, p.At)
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
	pullOf := func(c rollout.Container, namespace string, with credential) ImagePull {
		id, ok := im.ids[c.Image]
		if !ok {
			id = int32(len(im.Names)) //nolint:gosec // there are not that many
			im.ids[c.Image] = id
			im.Names = append(im.Names, c.Image)
			im.shared = append(im.shared, false)
			users = append(users, with)
		}
		im.shared[id] = im.shared[id] || users[id] != with
		return ImagePull{id, c.Pull, namespace, with}
	}
	for _, s := range w.Classes {
		for _, c := range s.Spec.Containers {
			s.Pulls = append(s.Pulls, pullOf(c, s.namespace, credentialOf(s)))
		}
		s.Made = slices.Clip(s.Pulls)
	}
	templates := map[ownerKey][]rollout.Container{}
	for _, c := range w.in.Cluster.Controllers {
		templates[ownerKey{c.Namespace, c.Owner}] = c.Template
	}
	for _, p := range w.Pods {
		for _, c := range templates[ownerKey{p.Namespace, p.Owner}] {
			if pull := pullOf(c, p.Namespace, credentialOf(p.PodClass)); !slices.Contains(p.PodClass.Made, pull) {
				p.PodClass.Made = append(p.PodClass.Made, pull)
			}
		}
	}
}

// addListed enters what node n lists.
func (im *Images) addListed(n int32) {
	node := im.w.Nodes[n]
	im.verifies[n] = verifiesCredentials(node.Node)
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			im.hold(name, n)
			im.hold(strings.TrimSuffix(name, ":latest"), n)
		}
	}
}

// startAll notes that node has the images of pods of a class that run there.
func (im *Images) startAll(class *PodClass, node int32) {
	for _, pull := range class.Pulls {
		im.Started(im.held, pull, node)
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

func (im *Images) pull(p ImagePull, pool int, updated bool) rollout.Pull {
	key := pullKey{p.Image, p.namespace, pool, updated}
	answer, ok := im.answers[key]
	if !ok {
		name := ""
		if pool >= 0 {
			name = im.w.Pools[pool].Name
		}
		answer = im.w.in.Pull(im.Names[p.Image], p.namespace, name, updated)
		im.answers[key] = answer
	}
	return answer
}

// Assumption decides how unknowns count.
type Assumption struct {
	Images *Images
	// Works assumes that every pull works.
	Works bool
	// Sure assumes the worst only of pods that are known not to end or not to be made again.
	Sure bool
}

// Fails returns the image of a pod that keeps it from starting on a node that has one of the two
// routes, -1 if none does. More are images that came to nodes in the meantime.
func (v Assumption) Fails(pulls []ImagePull, n int32, updated bool, more Holdings) int32 {
	for _, p := range pulls {
		if !v.starts(p, n, updated, more) {
			return p.Image
		}
	}
	return -1
}

// starts restates EnsureImageExists of the kubelet (pkg/kubelet/images): Always asks the
// registry even for an image that is there, and Never asks for none.
func (v Assumption) starts(p ImagePull, n int32, updated bool, more Holdings) bool {
	if v.Works {
		return true
	}
	here := func() bool {
		return v.Images.has(v.Images.held, p, n) || v.Images.has(more, p, n)
	}
	switch p.Policy {
	case corev1.PullAlways:
		return v.pulls(p, n, updated)
	case corev1.PullNever:
		return here()
	default:
		return here() || v.pulls(p, n, updated)
	}
}

func (v Assumption) pulls(p ImagePull, n int32, updated bool) bool {
	return v.Images.pull(p, v.Images.w.Nodes[n].Pool, updated) == rollout.PullWorks
}

// AnywhereFails reports whether there is a pool and a route by which the image cannot be
// pulled, or perhaps cannot.
func (v Assumption) AnywhereFails(p ImagePull) bool {
	if v.Works {
		return false
	}
	if p.Policy == corev1.PullNever {
		return true
	}
	for pool := -1; pool < len(v.Images.w.Pools); pool++ {
		for _, updated := range []bool{false, true} {
			if v.Images.pull(p, pool, updated) != rollout.PullWorks {
				return true
			}
		}
	}
	return false
}

// MayFail returns the node where a pod that is made of the class may be unable to start at some time of the
// rollout, with the image, among the nodes that it may run on. False means that it starts
// wherever it goes.
func (v Assumption) MayFail(s *PodClass, nodes []int32) (n, image int32, updated, fails bool) {
	for _, p := range s.Made {
		if !v.AnywhereFails(p) {
			continue
		}
		for _, n := range nodes {
			v.Images.w.Ask(1)
			if !v.starts(p, n, false, Holdings{}) {
				return n, p.Image, false, true
			}
			if v.Images.w.Nodes[n].Taken && !v.starts(p, n, true, Holdings{}) {
				return n, p.Image, true, true
			}
		}
	}
	return -1, -1, false, false
}
