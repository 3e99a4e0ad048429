package policy

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
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

// onlyHistory reports whether every use of img is History.
func onlyHistory(img Image) bool {
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
func (i Image) ConsumerNames(limit int) string { return text.Names(i.users(), limit) }

// users are the names of the consumers of i, each once.
func (i Image) users() []string { return distinct(i.Consumers, Consumer.String) }

// namespaces are those of the consumers of i.
func (i Image) namespaces() []string {
	return distinct(i.Consumers, func(c Consumer) string { return cmp.Or(c.Namespace, "cluster") })
}

func distinct(consumers []Consumer, name func(Consumer) string) (names []string) {
	for _, c := range consumers {
		if n := name(c); !slices.Contains(names, n) {
			names = append(names, n)
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
