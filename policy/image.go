package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Use says in what way something depends on an image. The zero value is
// Referenced.
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
)

// String implements fmt.Stringer.
func (u Use) String() string {
	return [...]string{"referenced", "running", "history"}[u]
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
	// OwnPullSecret is set if it, or its service account, names a pull secret of its
	// namespace, other than those that OpenShift adds to every pod; or may do so. Nodes
	// show it to the source, and not to mirrors on other hosts.
	OwnPullSecret bool
	// PullSecretUnknown is set, beside OwnPullSecret, where that is only possible: what
	// its service account names could not be read.
	PullSecretUnknown bool
	// Guessed is set where nothing but the look of the object says that it names the
	// image: it has the shape of a pod's specification, or a text in it reads like a
	// reference. Settings.Guesses says what such a consumer counts for.
	Guessed bool
}

// An Image is a reference, as written, that something in the cluster depends on.
// References are distinct within one inventory.
type Image struct {
	Ref       string
	Consumers []Consumer
}

// onlyHistory reports whether nothing but a way back names img.
func onlyHistory(img Image) bool {
	return len(img.Consumers) > 0 && !slices.ContainsFunc(img.Consumers, func(u Consumer) bool { return u.Use != History })
}

// ConsumerNames names at most limit consumers of i, in their order: "Deployment shop/cart
// (container app) and 2 more".
func (i Image) ConsumerNames(limit int) string {
	var names []string
	for _, c := range i.Consumers {
		if name := c.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return text.Names(names, limit)
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
