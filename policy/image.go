package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Use is the way in which a consumer depends on an image. The zero value is Referenced.
type Use int

const (
	// Referenced means that a template, a schedule or a spec names the image, so that a
	// node may have to pull it at any time.
	Referenced Use = iota
	// Running means that a pod that is there now names the image.
	Running
	// History means that nothing pulls the image as things are: it was used once, or
	// is offered (an old revision, a finished pod, an available update, a tag of an
	// image stream). It is reported, and never a reason to refuse.
	History
	// NextRelease means that an update to a release will have nodes pull the image. Only those know who were
	// told of the release.
	NextRelease
)

// String implements fmt.Stringer.
func (u Use) String() string {
	return [...]string{"referenced", "running", "history", "next release"}[u]
}

// A Consumer is one thing in the cluster that depends on an image.
type Consumer struct {
	Kind      string // "Deployment", "Pod", "CronJob" ...
	Namespace string // "" for cluster-scoped objects
	Name      string
	// Container is the container's name, or the field that holds the reference
	// where there is no container ("volume data").
	Container string
	Use       Use
	// Digest is the digest that runs now, as the node reported it ("sha256:..."),
	// "" if nothing runs or nothing was reported.
	Digest string
	// OwnPullSecret is set if the consumer or its service account names, or may name, a pull
	// secret of its namespace, other than those that OpenShift adds to every pod. Nodes send
	// it to the source, and not to mirrors on other hosts.
	OwnPullSecret bool
	// PullSecretUnknown is set, in addition to OwnPullSecret, where the latter is only
	// possible: the service account could not be read.
	PullSecretUnknown bool
	// Placement says on which nodes its pods may run; nil if that is not known, as for images in
	// the settings of an operator.
	Placement *Placement
	// NeverPulls is set for imagePullPolicy Never: nodes use what they have.
	NeverPulls bool
	// Ending is set if the object is being deleted and has no controller that is known to recreate it.
	Ending bool
	// NeverRan is set for a container of a pod whose image no node has had, as the pod's status says:
	// none has tried, or those that have did not get it.
	NeverRan bool
	// AnyNamespace is set for what may run in others than Namespace, too: no release says where its images run.
	AnyNamespace bool
	// Guessed is set where only the look of the object suggests that it names the image:
	// it has the shape of a pod's specification, or a text in it reads like a reference.
	// Outside of protected namespaces it never denies.
	Guessed bool
}

// An Image is a reference, as written, that something in the cluster depends on.
// References are distinct within one inventory.
type Image struct {
	Ref       string
	Consumers []Consumer
}

// OnlyHistory reports whether every use of img is History.
func OnlyHistory(img Image) bool {
	return len(img.Consumers) > 0 && !slices.ContainsFunc(img.Consumers, func(c Consumer) bool { return c.Use != History })
}

// Use returns the most important use of i.
func (i Image) Use() Use {
	best := History
	for _, c := range i.Consumers {
		switch c.Use {
		case Running:
			return Running
		case Referenced:
			best = Referenced
		case NextRelease:
			if best == History {
				best = NextRelease
			}
		}
	}
	return best
}

// ConsumerNames names at most limit consumers of i, in their order: "Deployment shop/cart
// (container app) and 2 more".
func (i Image) ConsumerNames(limit int) string { return text.Names(i.Users(), limit) }

// Users are the names of the consumers of i, each once.
func (i Image) Users() []string { return distinct(i.Consumers, Consumer.String) }

// Namespaces are those of the consumers of i.
func (i Image) Namespaces() []string {
	return distinct(i.Consumers, func(c Consumer) string { return cmp.Or(c.Namespace, "cluster") })
}

func distinct(consumers []Consumer, name func(Consumer) string) (names []string) {
	seen := map[string]bool{}
	for _, c := range consumers {
		if n := name(c); !seen[n] {
			seen[n], names = true, append(names, n)
		}
	}
	return names
}

// String returns how messages name a consumer: "Deployment shop/cart (app)".
func (c Consumer) String() string {
	name := c.Kind + " " + c.Name
	if c.Namespace != "" {
		name = c.Kind + " " + c.Namespace + "/" + c.Name
	}
	if c.Container != "" {
		name += " (" + c.Container + ")"
	}
	return text.Line(name)
}

// IsOwn reports whether the guard runs img.
func IsOwn(img Image) bool {
	return slices.ContainsFunc(img.Consumers, func(c Consumer) bool { return c.Namespace == OwnNamespace && c.Use != History })
}

// Puller says who pulls an image for c. A build pulls what its strategy, its sources and its Dockerfile name
// by itself; its pod, which nodes pull for, names only the builder. But that of a custom build is the image of
// its pod (openshift-controller-manager, pkg/build/controller/strategy/custom.go). An ImageStream's tag is imported, and
// what it stands for may be pulled through by the integrated registry: where that is so, the consumer is
// no history.
func (c Consumer) Puller() mirrors.Puller {
	switch {
	case c.Container == customBuild:
		return mirrors.Nodes
	case c.Kind == "BuildConfig", c.Kind == "Build" && c.Use != History:
		return mirrors.Builds
	case c.Kind != "ImageStream":
		return mirrors.Nodes
	case c.isTag():
		return mirrors.Imports
	case c.Use != History:
		return mirrors.PullThrough
	default:
		return mirrors.Nodes // nothing pulls it
	}
}

// customBuild is the field in which a BuildConfig or Build names the image of the build's own pod.
const customBuild = "spec.strategy.customStrategy.from"

// isTag reports whether an ImageStream names the image as what a tag is imported from.
func (c Consumer) isTag() bool { return strings.HasPrefix(c.Container, "spec.tags[") }

// hasOtherPullers reports whether nodes are not all that pull img.
func hasOtherPullers(img Image) bool {
	return slices.ContainsFunc(img.Consumers, func(c Consumer) bool { return c.Puller() != mirrors.Nodes })
}

// PulledBy returns img with the consumers for which p pulls it, and whether there are any; an image
// without consumers is one that nodes pull.
func PulledBy(p mirrors.Puller, img Image) (Image, bool) {
	if !hasOtherPullers(img) {
		return img, p == mirrors.Nodes
	}
	img.Consumers = slices.DeleteFunc(slices.Clone(img.Consumers), func(c Consumer) bool { return c.Puller() != p })
	return img, len(img.Consumers) > 0
}

// PullType says how a reference is pulled: by tag, or by digest.
func PullType(ref string) string {
	if mirrors.ByDigest(ref) {
		return "digest"
	}
	return "tag"
}

// KindFor returns the Kind of the mirror objects that serve a reference.
func KindFor(ref string) string {
	if mirrors.ByDigest(ref) {
		return "an ImageDigestMirrorSet"
	}
	return "an ImageTagMirrorSet"
}

// ServesPullType reports whether e's mirrors are for pulls like that of ref.
func ServesPullType(e mirrors.Entry, ref string) bool {
	return (mirrors.KindOf(e.Object) == mirrors.TagMirrorSetGVK.Kind) != mirrors.ByDigest(ref)
}

// Repository returns the normalised name of ref without tag and digest.
func Repository(ref string) string {
	parsed, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return parsed.Name()
}

// Hostname returns a host without its port.
func Hostname(host string) string {
	if address, _, ok := strings.Cut(host, "]"); ok {
		return strings.TrimPrefix(address, "[")
	}
	name, _, _ := strings.Cut(host, ":")
	return strings.ToLower(name)
}

// RescueStreams are the ImageStreams of namespace openshift from which oc takes such images: oc adm
// must-gather (must-gather), oc debug node and oc adm copy-to-node (tools), oc adm node-logs and scripts
// (cli), and what support asks for with network problems (network-tools).
var RescueStreams = []string{"must-gather", "tools", "cli", "network-tools"}

// MustGatherAnnotation is the annotation by which an operator's ClusterServiceVersion or ClusterOperator names its
// must-gather image, for oc adm must-gather --all-images.
const MustGatherAnnotation = "operators.openshift.io/must-gather-image"

// IsRescue reports whether img is one that perhaps nothing runs until a fault has to be found, or that of
// the guard itself, without which no mirror set can be mended.
//
// The name of an image counts only if something that no tenant writes names it: the rescue set may be pinned on all nodes.
func (i Image) IsRescue() bool {
	byName := isRescueName(i.Ref) && (len(i.Consumers) == 0 || slices.ContainsFunc(i.Consumers, Consumer.isOfCluster))
	return byName || slices.ContainsFunc(i.Consumers, Consumer.isRescue)
}

// isOfCluster reports whether c is one that no tenant writes: it is in no namespace or in one that is protected by default,
// or a ClusterServiceVersion, which OLM makes of catalogs that the cluster's administrators choose. A guess is none: an
// object in no namespace may be a report on what tenants run.
func (c Consumer) isOfCluster() bool {
	return !c.Guessed && (c.Namespace == "" || c.Kind == "ClusterServiceVersion" || isProtectedByDefault(c.Namespace))
}

func (c Consumer) isRescue() bool {
	switch {
	case c.Namespace == OwnNamespace:
		return c.Use != History
	case c.Kind == "ImageStream":
		past := !c.isTag() && !strings.Contains(c.Container, ".items[0].")
		return c.IsRescueStream(RescueStreams) && !past
	case c.Kind == "ClusterServiceVersion", c.Kind == "ClusterOperator":
		return namesMustGather(c.Container)
	default:
		return false
	}
}

// IsOfOpenShift reports whether c is one that only clusters of OpenShift have.
func (c Consumer) IsOfOpenShift() bool {
	return c.Kind == "ClusterVersion" || c.IsRescueStream(RescueStreams)
}

// IsRescueStream reports whether c is a tag of one of these ImageStreams of OpenShift.
func (c Consumer) IsRescueStream(names []string) bool {
	return c.Kind == "ImageStream" && c.Namespace == "openshift" && slices.Contains(names, c.Name)
}

// CommandKind is the Kind of consumers that are commands: see plan.Unnamed.
const CommandKind = "command"

// isRescueName reports whether the repository of an image is called like those of support's tools.
func isRescueName(ref string) bool {
	base := RepositoryBase(ref)
	return base == "support-tools" || namesMustGather(base)
}

// RepositoryBase returns the last part of the name of a repository, "" for an invalid reference.
func RepositoryBase(ref string) string {
	name, ok := mirrors.Repository(ref)
	if !ok {
		return ""
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

func namesMustGather(name string) bool {
	return strings.Contains(strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)), "mustgather")
}

// OnlyRescue reports whether img is of the rescue set, and nothing else needs it.
func OnlyRescue(img Image) bool { return OnlyHistory(img) && img.IsRescue() }
