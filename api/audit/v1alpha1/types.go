// Package v1alpha1 has the records of decisions: who wanted what, what came of it, and what that rests on.
// A record is one line of JSON, of which Decision is the schema; docs/audit.md is made from the
// comments of the types.
package v1alpha1

import (
	"encoding/json"
	"time"
)

// What every line says of itself.
const (
	// APIVersion is the version of the schema. Fields are added without a new version; none
	// changes its meaning or goes away.
	APIVersion = "audit.mirrorset-guard.io/v1alpha1"
	// Kind is that of the record of a decision.
	Kind = "Decision"
	// LossKind is that of a record about lines that could not be written.
	LossKind = "Loss"
	// ConfirmationKind is that of a record about what became of an override.
	ConfirmationKind = "Confirmation"
)

// A Decision is the record of one admission request and its answer. Fields without a value are
// left out, but for those that say who did what, and what came of it.
type Decision struct {
	// APIVersion is audit.mirrorset-guard.io/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is Decision.
	Kind string `json:"kind"`
	// Time is when the request was answered, in UTC, by the clock of the replica.
	Time time.Time `json:"time"`
	// UID is that of the admission request. The audit annotation uid says the same.
	UID string `json:"uid"`
	// Verdict is allowed, denied, waived (the rules deny it, the mode admits it), overridden
	// (it was refused, an override admits it), none (there was no verdict), malformed (the
	// request could not be read) or skipped (there was nothing to review). Only in records from
	// the API server's log there is unreviewed: the change was made without an answer of the
	// guard, which was out of reach.
	Verdict string `json:"verdict"`
	// Admitted says whether the guard let the change pass.
	Admitted bool `json:"admitted"`
	// Mode is the one that the decision was made in: enforce, warn or audit.
	Mode string `json:"mode,omitempty"`
	// Operation is CREATE, UPDATE, DELETE or, of a request that is never reviewed, CONNECT.
	Operation string `json:"operation"`
	// DryRun says whether the change would not have been stored.
	DryRun bool `json:"dryRun"`
	// User is who asked for the change, as the API server has authenticated them.
	User User `json:"user"`
	// Object is what the change is about.
	Object Object `json:"object"`
	// OldSpecHash is the SHA-256 of the spec in force before the change, in its canonical form:
	// specs that mean the same have the same hash. It is left out if there was none.
	OldSpecHash string `json:"oldSpecHash,omitempty"`
	// NewSpecHash is that of the spec that was asked for; it is left out for a deletion.
	NewSpecHash string `json:"newSpecHash,omitempty"`
	// Reason is what the refused user reads, or would read without the mode or the override that
	// admitted the change, on one line and cut.
	Reason string `json:"reason,omitempty"`
	// Rules count the findings by rule and severity. No finding is left out of these.
	Rules []RuleCount `json:"rules,omitempty"`
	// Findings are the first of them, the most severe first.
	Findings []Finding `json:"findings,omitempty"`
	// FindingsOmitted is how many more there are.
	FindingsOmitted int `json:"findingsOmitted,omitempty"`
	// Exemptions are the names of those that made a warning of a denial.
	Exemptions []string `json:"exemptions,omitempty"`
	// Override is the one that admitted the change, or did not count.
	Override *Override `json:"override,omitempty"`
	// Images count the images that the decision rests on; left out if nothing was reviewed.
	Images *Images `json:"images,omitempty"`
	// Facts are what the decision rests on: what was found at the places that were looked up, the
	// places of the images with findings first.
	Facts []Fact `json:"facts,omitempty"`
	// FactsOmitted is how many more there are.
	FactsOmitted int `json:"factsOmitted,omitempty"`
	// Forecast is what the change does to the nodes, in a line.
	Forecast string `json:"forecast,omitempty"`
	// Notes are remarks on what the decision rests on: what could not be read, for instance.
	Notes []string `json:"notes,omitempty"`
	// Seconds is how long the answer took.
	Seconds float64 `json:"seconds"`
	// Guard is which guard decided.
	Guard Guard `json:"guard"`
	// Change is what was to be changed, for the command replay.
	Change *Change `json:"change,omitempty"`
	// Source is kube-apiserver if the record was read from the API server's own audit log, which
	// holds less; left out if the guard wrote it.
	Source string `json:"source,omitempty"`
}

// A User is the person or account that asked for a change.
type User struct {
	// Name is that of the user. Of a user who was impersonated, it is the impersonated one.
	Name string `json:"name"`
	// Groups are those of the user.
	Groups []string `json:"groups,omitempty"`
	// GroupsOmitted is how many more there are.
	GroupsOmitted int `json:"groupsOmitted,omitempty"`
	// Impersonator is who acted as the user. Only the API server's log knows.
	Impersonator string `json:"impersonator,omitempty"`
}

// An Object is the object that a change is about.
type Object struct {
	// Group is that of the API, as in config.openshift.io.
	Group string `json:"group"`
	// Version is that of the API, as in v1.
	Version string `json:"version"`
	// Kind is the kind; in records from the API server's log, of a kind that is not known, it is
	// the resource.
	Kind string `json:"kind"`
	// Namespace is left out for objects that have none.
	Namespace string `json:"namespace,omitempty"`
	// Name is the object's.
	Name string `json:"name"`
}

// A RuleCount is the number of findings that a rule has of one severity.
type RuleCount struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Severity is deny, warn or info; left out in records from the API server's log.
	Severity string `json:"severity,omitempty"`
	// Count is how many; 0 if that is not known.
	Count int `json:"count,omitempty"`
}

// A Finding is one rule's objection to one image, or to the configuration as a whole.
type Finding struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Severity is deny, warn or info.
	Severity string `json:"severity"`
	// Image is the reference as written in the cluster; left out if the finding is about the
	// configuration as a whole.
	Image string `json:"image,omitempty"`
	// Reason is a sentence.
	Reason string `json:"reason"`
	// Places are what was found for this image: a line for each place that was looked at.
	Places []string `json:"places,omitempty"`
	// PlacesOmitted is how many more there are.
	PlacesOmitted int `json:"placesOmitted,omitempty"`
	// Exempted are the names of the exemptions without which the finding would be a denial.
	Exempted []string `json:"exempted,omitempty"`
}

// An Override is the outcome for the annotation that asks for a refused change to be made.
type Override struct {
	// Result is used, no_reason, wrong_code, forbidden (the user may not) or unknown (whether the
	// user may could not be found out). In records from the API server's log it is used or unused.
	Result string `json:"result"`
	// Of is the verdict that it was for: denied or none.
	Of string `json:"of,omitempty"`
	// Code is what bound it to the change.
	Code string `json:"code,omitempty"`
	// Reason is why the user made the change, in the user's own words.
	Reason string `json:"reason,omitempty"`
	// Refused is why it did not count; left out if it did.
	Refused string `json:"refused,omitempty"`
	// Confirmed says whether the change was seen in force with the annotation. When the guard answers
	// it is not, as whoever reaches its port can send a request: a Confirmation with the same uid says
	// what became of it. In records from the API server's log it is true.
	Confirmed bool `json:"confirmed"`
}

// Images count what a decision rests on.
type Images struct {
	// Total is how many images the cluster has.
	Total int `json:"total,omitempty"`
	// Rerouted is how many of them take a new route.
	Rerouted int `json:"rerouted"`
	// Verified is how many of these were found on the new route.
	Verified int `json:"verified"`
	// Layers is of how many of the verified the layers were found as well.
	Layers int `json:"layers,omitempty"`
	// Unverified is about how many of these that could not be determined.
	Unverified int `json:"unverified"`
	// Pending is how many of the unverified were still being looked up when time was up.
	Pending int `json:"pending,omitempty"`
	// Malformed is how many references no node could parse.
	Malformed int `json:"malformed,omitempty"`
	// Moved is how many images that take no new route the drains of the change have pulled again.
	Moved int `json:"moved,omitempty"`
	// MovedLost is how many of these nodes cannot pull.
	MovedLost int `json:"movedLost,omitempty"`
	// MovedOpen is of how many of these that could not be determined.
	MovedOpen int `json:"movedOpen,omitempty"`
}

// A Fact is the answer of one place.
type Fact struct {
	// Location is the reference that was looked up.
	Location string `json:"location"`
	// Insecure says that plain HTTP and unverified certificates were allowed.
	Insecure bool `json:"insecure,omitempty"`
	// Depth is how much was looked up: exists, manifest, blobs or, of what belongs to an image,
	// signatures or referrers.
	Depth string `json:"depth"`
	// ProposedTrust says that the registry was asked with the CAs of the change instead of those
	// in force.
	ProposedTrust bool `json:"proposedTrust,omitempty"`
	// Presence is present, absent, denied, unreachable, mismatch (something else is served),
	// incomplete (blobs are missing), inconclusive (the manifest is there, and nobody knows of
	// the rest) or unknown (no answer in time).
	Presence string `json:"presence"`
	// Age is how many seconds before the decision the registry gave this answer; left out if it
	// gave none.
	Age *float64 `json:"age,omitempty"`
	// Detail is what the registry said, for people.
	Detail string `json:"detail,omitempty"`
	// Digest is that of the manifest.
	Digest string `json:"digest,omitempty"`
	// MediaType is that of the manifest.
	MediaType string `json:"mediaType,omitempty"`
	// Platforms are what an index lists.
	Platforms []string `json:"platforms,omitempty"`
	// Missing are platforms of nodes that the index lists and the place does not hold.
	Missing []string `json:"missing,omitempty"`
	// Serves are the platforms of nodes for which a node would get an image there.
	Serves []string `json:"serves,omitempty"`
	// Lacks are the platforms of nodes for which it would not.
	Lacks []string `json:"lacks,omitempty"`
	// Guessed says that no platform of nodes was known.
	Guessed bool `json:"guessed,omitempty"`
	// Children are the digests that an index lists.
	Children []string `json:"children,omitempty"`
	// Instances are the manifests that nodes would run; left out where that was not looked up.
	Instances []Instance `json:"instances,omitzero"`
	// Signatures are those found, where they were looked up.
	Signatures []Signature `json:"signatures,omitempty"`
	// AsNodes says that the registry was asked with the very credentials that nodes have.
	AsNodes bool `json:"asNodes,omitempty"`
	// Recalled says that the answer was older than such answers count for a verdict, and was used
	// for planning only.
	Recalled bool `json:"recalled,omitempty"`
}

// An Instance is the manifest that nodes of a platform run of an image.
type Instance struct {
	// Platform is that of the nodes; left out for a single image.
	Platform string `json:"platform,omitempty"`
	// Digest is that by which its signatures are looked up.
	Digest string `json:"digest"`
}

// A Signature is one layer of what is attached to an image.
type Signature struct {
	// MediaType is that of the layer; of layers that are no signatures nothing else is recorded.
	MediaType string `json:"mediaType"`
	// Payload is the content of the layer, in base64.
	Payload []byte `json:"payload,omitempty"`
	// Annotations are those of the layer that nodes read.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A Guard is one replica of the guard.
type Guard struct {
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Replica is the name of its pod, with something that changes with each start.
	Replica string `json:"replica,omitempty"`
}

// A Change is the change that was asked for.
type Change struct {
	// Step is put, delete, or removeFinally: the last finalizer of an object under deletion is
	// removed.
	Step string `json:"step"`
	// Old is the object in force, with its name, labels and spec; left out if there was none.
	Old json.RawMessage `json:"old,omitempty"`
	// New is the object that was asked for; left out for a deletion.
	New json.RawMessage `json:"new,omitempty"`
	// Omitted is why one of them is left out although there was one.
	Omitted string `json:"omitted,omitempty"`
}

// The steps of a Change.
const (
	StepPut           = "put"
	StepDelete        = "delete"
	StepRemoveFinally = "removeFinally"
)

// A Confirmation is the record of what became of an override, some seconds after its Decision. There
// is none of a dry run, and none if the guard ended meanwhile.
type Confirmation struct {
	// APIVersion is audit.mirrorset-guard.io/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is Confirmation.
	Kind string `json:"kind"`
	// Time is when that was known.
	Time time.Time `json:"time"`
	// UID is that of the Decision.
	UID string `json:"uid"`
	// Confirmed says whether the change was seen in force with the annotation. If not, another
	// webhook refused it, or no API server had asked.
	Confirmed bool `json:"confirmed"`
	// User is who asked for the change, according to the request.
	User User `json:"user"`
	// Object is what it is about.
	Object Object `json:"object"`
	// Guard is which guard decided.
	Guard Guard `json:"guard"`
}

// A Loss is the record of lines that were lost because they could not be written, as the first
// line after that.
type Loss struct {
	// APIVersion is audit.mirrorset-guard.io/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is Loss.
	Kind string `json:"kind"`
	// Time is when the last of them was lost.
	Time time.Time `json:"time"`
	// Since is when the first of them was lost.
	Since time.Time `json:"since"`
	// Lost is how many lines were lost.
	Lost int `json:"lost"`
	// Reason is why.
	Reason string `json:"reason"`
	// Guard is which guard lost them.
	Guard Guard `json:"guard"`
}
