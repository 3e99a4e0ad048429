package review

import (
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// APIVersion is the version of the documents that the command line writes. A
// field is added without a new version; none changes its meaning or goes away.
const APIVersion = "mirrorset-guard.io/v1alpha1"

// A Document is a Record as JSON (kind Review).
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Subject    string `json:"subject"`
	Allowed    bool   `json:"allowed"`
	// Message is what refuses the change, "" for an admission; Warnings are the
	// lines that go with the answer. Both are what the webhook would say.
	Message  string    `json:"message"`
	Warnings []string  `json:"warnings"`
	Findings []Finding `json:"findings"`
	// Mode is "enforce", "warn" or "audit". Waived is what would refuse the change in mode
	// enforce, if it is admitted because of another mode.
	Mode   string `json:"mode"`
	Waived string `json:"waived,omitempty"`
	Images Counts `json:"images"`
	// Forecast is what the change would do to the nodes; null where that is not known.
	Forecast *Forecast `json:"forecast"`
	// Rerouted has an entry for each image whose route changes.
	Rerouted []Rerouted `json:"rerouted"`
	Notes    []string   `json:"notes"`
	// Seconds is how long the review took.
	Seconds float64 `json:"seconds"`
}

// A Finding is a policy.Finding as JSON.
type Finding struct {
	Rule      string     `json:"rule"`
	Severity  string     `json:"severity"` // "deny", "warn" or "info"
	Image     string     `json:"image"`    // "" where the finding is about the configuration
	Reason    string     `json:"reason"`
	Detail    string     `json:"detail"` // a line for each place looked at
	Remedy    string     `json:"remedy"` // commands or advice, a line each
	Consumers []Consumer `json:"users"`  // so called in this version of the format
	// Exemptions are those without which the finding would be a denial.
	Exemptions []string `json:"exemptions,omitempty"`
}

// A Consumer is a policy.Consumer as JSON.
type Consumer struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
	Use       string `json:"use"` // "running", "referenced" or "history"
	Digest    string `json:"digest,omitempty"`
	Guessed   bool   `json:"guessed,omitempty"` // as policy.Consumer has it
}

// Counts are policy.Counts as JSON.
type Counts struct {
	Total      int `json:"total"`
	Rerouted   int `json:"rerouted"`
	Verified   int `json:"verified"`
	Layers     int `json:"layers"` // of the verified, those whose layers were found as well
	Unverified int `json:"unverified"`
	Pending    int `json:"pending"`
	Malformed  int `json:"malformed"`
	Moved      int `json:"moved"`
	MovedLost  int `json:"movedLost"`
	MovedOpen  int `json:"movedOpen"`
}

// Rerouted is an image whose route changes.
type Rerouted struct {
	Image  string `json:"image"`
	Before Route  `json:"before"`
	After  Route  `json:"after"`
	// BeforeUnknown is set if it is not known what nodes do today; Before is empty then.
	BeforeUnknown bool `json:"beforeUnknown,omitempty"`
	// Pools are the MachineConfigPools whose nodes take these routes, where not all do.
	Pools []string `json:"pools,omitempty"`
}

// A Route is a mirrors.Route as JSON: what a node tries, in order.
type Route struct {
	Sources []Source `json:"sources"`
	// Error is why the route cannot be computed; the pull then fails without
	// anything being tried.
	Error string `json:"error"`
	// Refused is why nodes would not run the image, whichever place serves it: the signature
	// policy, which the registry lists of Image cluster are written to as well. "" if
	// they would.
	Refused string `json:"refused,omitempty"`
}

// A Source is one place of a Route.
type Source struct {
	Reference string `json:"reference"`
	Mirror    bool   `json:"mirror"`
	Blocked   bool   `json:"blocked"`
	Insecure  bool   `json:"insecure"`
	// Refused is set if the signature policy refuses the name under which a node would
	// pull from here, of the several that a short name stands for. It is not asked.
	Refused bool `json:"refused,omitempty"`
	// Fact is what was found there, if it was looked up.
	Fact *Fact `json:"fact,omitempty"`
	// Required is what nodes require of the image's signatures, wherever it comes from.
	Required *Required `json:"required,omitempty"`
	// LooksForSignatures is set if nodes look for signatures there (registries.d), whether or
	// not they require any, and Signatures is what was found of them.
	LooksForSignatures bool        `json:"looksForSignatures,omitempty"`
	Signatures         []Signature `json:"signatures,omitempty"`
}

// A Required is a mirrors.Trust as JSON.
type Required struct {
	// Scope is the key of policy.json that covers the image, "" for its default. Policies are
	// the objects behind it ("ClusterImagePolicy signed"); none where a MachineConfig is.
	Scope    string   `json:"scope"`
	Policies []string `json:"policies"`
	// Requirements are in words; all of them have to be met.
	Requirements []string `json:"requirements"`
}

// A Signature is a policy.SignatureFinding as JSON.
type Signature struct {
	// Platform is that of the part of an index ("linux/arm64"), "" for a single image.
	Platform  string `json:"platform,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Reference string `json:"reference,omitempty"`
	State     string `json:"state"`
	Detail    string `json:"detail,omitempty"`
}

// A Fact is a policy.Fact as JSON.
type Fact struct {
	Presence string `json:"presence"`
	// Blobs is set if the config and the layers were looked up too.
	Blobs  bool       `json:"blobs,omitempty"`
	Digest string     `json:"digest,omitempty"`
	Detail string     `json:"detail,omitempty"`
	Time   *time.Time `json:"time,omitempty"`
}

// Document returns r as JSON.
func (r Record) Document() Document {
	d := Document{
		APIVersion: APIVersion,
		Kind:       "Review",
		Subject:    r.Subject,
		Allowed:    r.Verdict.Allowed,
		Message:    r.Denial(),
		Warnings:   append([]string{}, r.Warnings()...),
		Findings:   []Finding{},
		Mode:       r.Verdict.Mode.String(),
		Waived:     r.Waived(),
		Images:     Counts(r.Verdict.Counts),
		Rerouted:   []Rerouted{},
		Forecast:   forecastDocument(r.Forecast),
		Notes:      append([]string{}, r.Notes...),
		Seconds:    r.Took.Seconds(),
	}
	for _, f := range r.Verdict.Findings {
		d.Findings = append(d.Findings, findingDocument(f))
	}
	for _, reroute := range r.Plan.Reroutes {
		d.Rerouted = append(d.Rerouted, Rerouted{
			Image: reroute.Image.Ref, Before: RouteDocument(reroute.Before, r.Facts), After: RouteDocument(reroute.After, r.Facts),
			BeforeUnknown: reroute.BeforeUnknown, Pools: reroute.Pools,
		})
	}
	return d
}

func findingDocument(f policy.Finding) Finding {
	return Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Image: f.Image.Ref, Reason: f.Reason,
		Detail: strings.Join(f.Detail, "\n"), Remedy: strings.Join(f.Remedy, "\n"), Consumers: consumerDocuments(f.Image),
		Exemptions: f.Exemptions,
	}
}

// consumerDocuments returns the consumers of img as JSON.
func consumerDocuments(img policy.Image) []Consumer {
	consumers := []Consumer{}
	for _, c := range img.Consumers {
		consumers = append(consumers, Consumer{
			Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Container: c.Container, Use: c.Use.String(), Digest: c.Digest, Guessed: c.Guessed,
		})
	}
	return consumers
}

// An InventoryList lists images with their consumers (kind Inventory).
type InventoryList struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Images     []InventoryImage `json:"images"`
}

// An InventoryImage is one image of an InventoryList.
type InventoryImage struct {
	Image     string     `json:"image"`
	Consumers []Consumer `json:"users"`
}

// InventoryDocument returns images as JSON.
func InventoryDocument(images []policy.Image) InventoryList {
	doc := InventoryList{APIVersion: APIVersion, Kind: "Inventory", Images: []InventoryImage{}}
	for _, img := range images {
		doc.Images = append(doc.Images, InventoryImage{Image: img.Ref, Consumers: consumerDocuments(img)})
	}
	return doc
}

// RouteDocument returns route as JSON, with what facts say of its places.
func RouteDocument(route mirrors.Route, facts policy.Facts) Route {
	r := Route{Sources: []Source{}, Refused: route.Refused}
	if route.Err != nil {
		r.Error = route.Err.Error()
	}
	for _, s := range route.Sources {
		source := Source{Reference: s.Ref, Mirror: s.Mirror, Blocked: s.Blocked, Insecure: s.Insecure, Refused: s.Refused}
		if f, ok := facts[s.Location]; ok && !s.Blocked {
			source.Fact = factDocument(f)
			source.Fact.Blobs = s.Depth == mirrors.DepthBlobs
			source.Signatures = signatureDocuments(s, facts)
		}
		source.Required, source.LooksForSignatures = requiredDocument(s.Trust), s.Attachments
		r.Sources = append(r.Sources, source)
	}
	return r
}

func requiredDocument(trust *mirrors.Trust) *Required {
	if trust == nil {
		return nil
	}
	required := &Required{Scope: trust.Scope, Policies: append([]string{}, trust.Policies...), Requirements: []string{}}
	for _, r := range trust.Requirements.List() {
		required.Requirements = append(required.Requirements, r.String())
	}
	return required
}

func signatureDocuments(place mirrors.PullSource, facts policy.Facts) []Signature {
	var all []Signature
	for _, s := range policy.SignaturesAt(place, facts) {
		all = append(all, Signature{Platform: s.Platform, Digest: s.Digest, Reference: s.At.Ref, State: s.State, Detail: s.Detail})
	}
	return all
}

func factDocument(f *policy.Fact) *Fact {
	d := &Fact{Presence: f.Presence.String(), Digest: f.Digest, Detail: f.Detail}
	if !f.Time.IsZero() {
		t := f.Time.UTC()
		d.Time = &t
	}
	return d
}

// An Explanation says where nodes pull images from (kind Explanation).
type Explanation struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Images     []Explained `json:"images"` // in the order asked
}

// Explained is one image of an Explanation.
type Explained struct {
	Image  string `json:"image"` // as asked
	Before Route  `json:"before"`
	After  Route  `json:"after"`
}

// Report returns the whole answer for people, every finding in full.
func (r Record) Report() string {
	report := r.Verdict.Report(r.Subject)
	if r.Forecast != nil {
		report += "\nForecast: it " + text.Line(r.Forecast.String()) + ".\n"
		if len(r.Forecast.Unknown) > 0 {
			report += "It does without what could not be read: " + strings.Join(r.Forecast.Unknown, ", ") + ".\n"
		}
	}
	return report
}
