// Package v1alpha1 has the records of decisions: who wanted what, what came of it, and what that rests on.
// A record is one line of JSON, of which Decision is the schema; docs/audit.md is made from the
// comments of the types.
package v1alpha1

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
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
	// (it was refused, an override admits it), none (there was no verdict) or malformed (the
	// request could not be read).
	Verdict string `json:"verdict"`
	// Admitted says whether the guard let the change pass.
	Admitted bool `json:"admitted"`
	// Mode is the one that the decision was made in: enforce, warn or audit.
	Mode string `json:"mode,omitempty"`
	// Operation is CREATE, UPDATE or DELETE.
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
	Images *v1alpha1.Counts `json:"images,omitempty"`
	// Forecast is what the change does to the nodes, in a line.
	Forecast string `json:"forecast,omitempty"`
	// Notes are remarks on what the decision rests on: what could not be read, for instance.
	Notes []string `json:"notes,omitempty"`
	// Seconds is how long the answer took.
	Seconds float64 `json:"seconds"`
	// Guard is which guard decided.
	Guard Guard `json:"guard"`
}

// A User is the person or account that asked for a change.
type User struct {
	// Name is that of the user. Of a user who was impersonated, it is the impersonated one; who
	// acted as the user only the API server's log knows.
	Name string `json:"name"`
	// Groups are those of the user.
	Groups []string `json:"groups,omitempty"`
	// GroupsOmitted is how many more there are.
	GroupsOmitted int `json:"groupsOmitted,omitempty"`
}

// An Object is the object that a change is about.
type Object struct {
	// Group is that of the API, as in config.openshift.io.
	Group string `json:"group"`
	// Version is that of the API, as in v1.
	Version string `json:"version"`
	// Kind is the kind.
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
	// Severity is deny, warn or info.
	Severity string `json:"severity"`
	// Count is how many.
	Count int `json:"count"`
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
	// Users is how many objects use the image.
	Users int `json:"users,omitempty"`
	// Places are what was found for this image: a line for each place that was looked at.
	Places []string `json:"places,omitempty"`
	// PlacesOmitted is how many more there are.
	PlacesOmitted int `json:"placesOmitted,omitempty"`
	// Exempted are the names of the exemptions without which the finding would be a denial.
	Exempted []string `json:"exempted,omitempty"`
}

// An Override is the outcome for the annotation that asks for a refused change to be made. A Confirmation
// with the same uid says whether the change came into force.
type Override struct {
	// Result is used, no_reason, wrong_code, forbidden (the user may not) or unknown (whether the
	// user may could not be found out).
	Result string `json:"result"`
	// Of is the verdict that it was for: denied or none.
	Of string `json:"of,omitempty"`
	// Code is what bound it to the change.
	Code string `json:"code,omitempty"`
	// Reason is why the user made the change, in the user's own words.
	Reason string `json:"reason,omitempty"`
	// Refused is why it did not count; left out if it did.
	Refused string `json:"refused,omitempty"`
}

// A Guard is one replica of the guard.
type Guard struct {
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Replica is the name of its pod, with something that changes with each start.
	Replica string `json:"replica,omitempty"`
}

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
