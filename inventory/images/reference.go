package images

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A Reference is one place in an object that names an image.
type Reference struct {
	// Image is the reference as written, without surrounding space; "" only with a Tag.
	Image string
	// Container is the container's name, or the field that holds the reference
	// where there is no container ("volume data").
	Container string
	Use       policy.Use
	// Digest is the one that the node reported to run ("sha256:..."), "" if it reported
	// none.
	Digest string
	// OwnPullSecret and PullSecretUnknown are as in policy.Consumer.
	OwnPullSecret, PullSecretUnknown bool
	// Guessed, NeverPulls, Ending and NeverRan are as in policy.Consumer.
	Guessed, NeverPulls, Ending, NeverRan bool
	// Placement is policy.Consumer's in JSON, the same for equal ones; "" where that is nil.
	Placement string
	// Tag is an ImageStreamTag or ImageStreamImage, "NAMESPACE/STREAM:TAG" or
	// "NAMESPACE/STREAM@DIGEST". With an Image, which an ImageStream has, it stands for
	// that image. Without one, an Index enters what it stands for. Mostly "".
	Tag string
	// Account is the service account that pods get their pull secrets from. An Index
	// adds to OwnPullSecret and PullSecretUnknown what it knows of the account. "" where
	// there is none, or a pod names its own.
	Account string
	// Secrets are the pull secrets that a pod names, separated by spaces, if each may be the one that
	// OpenShift has made for Account, which an Index knows. "" where the account's own count.
	Secrets string
	// Keeper is the kind of the controller that keeps the object for a rollback. The Use is History in
	// an Index that is known to read templates of that kind. Zero for none.
	Keeper schema.GroupKind
	// Lookup says where Image may stand for a tag of an ImageStream. An Index with
	// the stream has the image that the tag stands for instead.
	Lookup Lookup
	// Copied is set if a controller has made the object from a template, which has been
	// admitted with this Image: it stands for nothing else there either.
	Copied bool
}

// A Holder is an object and the images it names.
type Holder struct {
	Kind      string
	Namespace string // "" for cluster-scoped objects
	Name      string
	// References are in the order of the object's fields. The same image may be
	// named twice.
	References []Reference
}

// add appends a reference, unless there is no image in it.
func (h *Holder) add(r Reference) {
	r.Image = strings.TrimSpace(r.Image)
	if r.Image == "" && r.Tag == "" {
		return // filled in later by a controller, as OpenShift's image triggers do
	}
	h.References = append(h.References, r)
}
