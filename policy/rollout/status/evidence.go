package status

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Asks are the questions of a Diagnosis that objects do not answer. Their number is bounded, whatever the
// size of the cluster.
type Asks struct {
	// Evictions are pods: would the API server let them go now?
	Evictions []PodName
	// Places are what nodes ask for the images that they cannot pull: is the image there now?
	Places []PlaceAsked
	// Owners are controllers of pods: have they made all, and why not?
	Owners []OwnerName
	// Requests asks which certificates kubelets wait for.
	Requests bool
	// Configs asks which MachineConfigs there are.
	Configs bool
}

// Without returns the questions that have no answer yet.
func (a Asks) Without(e Evidence) Asks {
	a.Evictions = slices.DeleteFunc(slices.Clone(a.Evictions), func(p PodName) bool { _, ok := e.Evictions[p]; return ok })
	a.Places = slices.DeleteFunc(slices.Clone(a.Places), func(p PlaceAsked) bool { _, ok := e.Places[p.Place]; return ok })
	a.Owners = slices.DeleteFunc(slices.Clone(a.Owners), func(o OwnerName) bool { _, ok := e.Owners[o]; return ok })
	a.Requests = a.Requests && e.Requests == nil
	a.Configs = a.Configs && e.Configs == nil
	return a
}

// IsEmpty reports whether there is nothing to ask.
func (a Asks) IsEmpty() bool {
	return len(a.Evictions)+len(a.Places)+len(a.Owners) == 0 && !a.Requests && !a.Configs
}

// Place is a place where nodes look for an image, for the pods of a namespace that has an ImagePolicy of its
// own, or for all others ("").
type Place struct {
	mirrors.Location
	Namespace string
}

// PlaceAsked is a Place, with the signatures that nodes require there.
type PlaceAsked struct {
	Place
	Source mirrors.PullSource
}

// PodName is the namespace and the name of a pod.
type PodName struct{ Namespace, Name string }

// String returns "namespace/name".
func (p PodName) String() string { return p.Namespace + "/" + p.Name }

// OwnerName is the name of a controller of pods.
type OwnerName struct {
	Namespace string
	rollout.Owner
}

// Evidence holds the answers to Asks. The zero Evidence means that nothing was asked.
type Evidence struct {
	// Evictions are the answers to evictions that were asked for as a dry run.
	Evictions map[PodName]Eviction
	// Places are the answers of registries, by place.
	Places map[Place]Answer
	// Owners are what controllers of pods say.
	Owners map[OwnerName]Made
	// Requests are the certificates that kubelets wait for, nil if not asked for.
	Requests []CertificateRequest
	// Configs are the MachineConfigs that MCO has not rendered itself, nil if not asked for.
	Configs []MachineConfig
	// Notes say what could not be asked, and what it takes.
	Notes []string
}

// Eviction is the answer of the API server to a dry run of an eviction.
type Eviction struct {
	// Allowed says that the pod would be evicted, or is gone.
	Allowed bool
	// Budgets says that it is refused on account of a budget, which may change.
	Budgets bool
	// Words are those of the API server.
	Words string
}

// Made is the progress of a controller with its pods. The zero Made means that nothing is known.
type Made struct {
	// Wanted is how many there are to be, Made how many there are.
	Wanted, Made int32
	// Refused is why it could not make the last one, "" if it could, or does not say.
	Refused string
}

// Answer is the answer of a place to the question whether it has an image.
type Answer struct {
	// Presence is Unknown if the place gave no answer.
	Presence policy.Presence
	// Words are those of the registry, or why it could not be asked; "" where it has the
	// image.
	Words string
	// Without are platforms ("linux/arm64") for whose nodes it has no image, though it has one for others.
	Without []string
	// Signatures are where nodes look for those of the image, where they do.
	Signatures []SignatureAnswer
}

// SignatureAnswer is the state of the signatures of one instance of an image.
type SignatureAnswer struct {
	// Digest is that of the instance, At the reference of its signatures.
	Digest, At string
	Accepted   bool
}

// CertificateRequest is an unapproved CertificateSigningRequest of a kubelet.
type CertificateRequest struct{ Name, Node string }

// MachineConfig is a MachineConfig that MCO renders into that of a pool, with the labels that pools select. Owned says that something
// makes it from an object of another kind, and would make it again.
type MachineConfig struct {
	Name   string
	Labels map[string]string
	Owned  bool
}
