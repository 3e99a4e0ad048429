// Package policy decides whether a change of the mirror configuration is safe.
//
// The package is pure: it reads no clock, opens no connection and writes no
// log. A decision takes three steps, with the looking-up in the middle left to
// the caller:
//
//	plan := policy.NewPlan(change, cluster, settings) // which images take a new route?
//	facts := lookUp(ctx, plan.Lookups(facts))         // what is really there? until nothing is left to look up
//	verdict := plan.Decide(facts)                     // may this happen?
//
// The admission webhook, the command line and the standing verifier all make
// these calls, so they cannot disagree.
//
// What a change makes worse is denied. What is proved to be broken today, or to be no
// worse afterwards, is reported, and never stands in the way of a repair. What could not
// be told weakens nothing.
package policy

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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
	// reference. Settings.Guesses says what such a user counts for.
	Guessed bool
}

// An Image is a reference, as written, that something in the cluster depends on.
// References are distinct within one inventory.
type Image struct {
	Ref       string
	Consumers []Consumer
}

// Presence says what a node would meet at a location.
type Presence int

const (
	// Unknown means nobody has looked, or the answer is still awaited. It is the
	// zero value, so that a forgotten fact never reads as good news.
	Unknown Presence = iota
	// Present means that the location serves a manifest that answers the reference.
	Present
	// Absent means that the registry says it does not have the image.
	Absent
	// Denied means that the registry wants credentials that the nodes do not have.
	Denied
	// Unreachable means that there was no usable answer (refused, timed out, TLS,
	// DNS, 429, 5xx).
	Unreachable
	// Mismatch means that the registry answers, but not with that image: another digest,
	// or no manifest. A node that met it would stop there.
	Mismatch
	// Incomplete means that the registry serves the manifest and lacks blobs that it
	// names. A node that met it would stop there. Only Locations of DepthBlobs are, and of
	// DepthManifest where it is the config that is missing.
	Incomplete
)

// String implements fmt.Stringer.
func (p Presence) String() string {
	return [...]string{"unknown", "present", "absent", "denied", "unreachable", "mismatch", "incomplete"}[p]
}

// A Fact is what was found at a location, and when.
type Fact struct {
	Presence Presence
	// Digest is that of the manifest the location serves, if Present and known.
	Digest string
	// MediaType is that of the manifest, if Present.
	MediaType string
	// Platforms are what an index lists ("linux/arm64/v8"), nil for a single
	// image or if nobody has read it. The Missing are not among them.
	Platforms []string
	// Missing are platforms that the index lists for platforms that nodes have, and
	// whose manifests, or blobs where they were asked for, the location does not hold: a
	// sparse copy.
	Missing []string
	// Serves are the platforms of nodes ("linux/arm64") for which a node would get an
	// image there, by the runtime's own choice of an instance, or, for a single image, by
	// its config. Lacks are those for which it would not, because the index lists none or
	// the single image is for another platform. Both are nil where nobody has looked, or
	// the config of a single image does not say. A platform of nodes that is in neither is
	// one for which a node would choose something of the Missing.
	Serves, Lacks []string
	// Guessed is set where no node's platform was known, so that Serves and Missing are of
	// what the index lists for Linux.
	Guessed bool
	// Children are the digests of the manifests that an index lists, nil for a
	// single image or if nobody has read it.
	Children []string
	// Detail is for people: one line that says what the registry answered. It is
	// set if not Present, and says what a part of the Missing lacks that is there but for
	// some blobs. It names no credentials and has no control characters.
	Detail string
	// Time is when the answer came; zero if Unknown.
	Time time.Time
	// Recalled is set where a miss, an Absent, is what an earlier question found, a
	// minute or so ago. It is good enough to plan by, and proves no failure of the old
	// route; where a verdict hangs on it, it is asked again: see Plan.Decisive.
	Recalled bool
}

// Facts are what is known about locations. A location without an entry has not
// been asked about; one with an Unknown fact has, and gave no answer in time.
type Facts map[mirrors.Location]Fact

// Severity says what a Finding does to the verdict. The zero value is Info.
type Severity int

const (
	// Info is reported on request only.
	Info Severity = iota
	// Warn is reported with an admission.
	Warn
	// Deny refuses the change.
	Deny
)

// String implements fmt.Stringer.
func (s Severity) String() string {
	return [...]string{"info", "warn", "deny"}[s]
}

// Settings are the choices an administrator has. The zero value is the default.
type Settings struct {
	// Protected are patterns of namespaces, the most important first, whose
	// images are looked up and named first ("openshift-ingress", "openshift-*").
	// Nil means DefaultProtected.
	Protected []string
	// AllowSourceFallback admits, with a warning, an image that no mirror on its
	// new route holds (or could be verified to hold) as long as its source does
	// and may be contacted: for a migration while the mirror fills.
	AllowSourceFallback bool
	// Blobs says of which images the config and the layers are looked up, not only the
	// manifest. See NewPlan and Location.Depth of package mirrors.
	Blobs BlobScope
	// Guesses says what comes of an image that only guesses name, outside of protected
	// namespaces.
	Guesses Guesses
	// Severities replace what rules say by default, by rule id. An entry weakens
	// the denial of an image of a protected namespace only under the id followed
	// by "@protected", so that it cannot happen by mistake.
	Severities map[string]Severity
	// Namespaces say which namespaces hold up a change, the first pattern that matches
	// counts. An image that only namespaces with Warn use is never denied, unless one of
	// them is protected. Namespaces that none matches hold up changes.
	Namespaces []NamespaceSeverity
}

// A NamespaceSeverity is what findings about images of some namespaces do at most.
type NamespaceSeverity struct {
	Pattern  string // as in Settings.Protected
	Severity Severity
}

// DefaultProtected are the namespaces without which a cluster does not recover:
// the ingress routers before everything else, because they block the drain.
var DefaultProtected = []string{"openshift-ingress", "openshift-*", "kube-*"}

// A Finding is one rule's objection.
type Finding struct {
	// Rule is the stable id of the rule ("ImageMissing").
	Rule     string
	Severity Severity
	// Image is what the finding is about; its Ref is "" where the finding is about
	// the configuration as a whole.
	Image Image
	// Reason is short and the same for every image of the same case.
	Reason string
	// Detail is what was found for this image: a line for each place looked at.
	Detail []string
	// Remedy is advice that would settle the finding: commands, or a sentence.
	Remedy []string
}

// A Verdict is the answer to a Plan.
type Verdict struct {
	Allowed bool
	// Findings are sorted: denials first, protected images first within them.
	Findings []Finding
	Counts   Counts
	// HeldUpBy are the namespaces, none of them protected, whose images are all that is
	// denied, sorted; nil for an admission, and where there is another reason.
	HeldUpBy []string
	// Brings is set if the change brings or alters an entry or a registry list, and does
	// not only take objects away.
	Brings bool
}

// Counts say how much a verdict rests on.
type Counts struct {
	Total      int // images in the inventory
	Rerouted   int // images whose route changes
	Verified   int // of these, found at a place the new route reaches, for all nodes
	Unverified int // of these, nobody could tell
	Pending    int // of the unverified, still being asked when time was up
	Malformed  int // images no node could parse
}
