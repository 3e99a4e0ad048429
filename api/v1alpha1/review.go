package v1alpha1

import "time"

// A Review is a change with what would be decided about it (kind Review).
type Review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Subject    string `json:"subject"`
	Allowed    bool   `json:"allowed"`
	// Summary is the verdict in one sentence.
	Summary string `json:"summary"`
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

// A Finding is one rule's objection to an image, or to the configuration as a whole.
type Finding struct {
	Rule      string     `json:"rule"`
	Severity  string     `json:"severity"` // "deny", "warn" or "info"
	Image     string     `json:"image"`    // "" where the finding is about the configuration
	Reason    string     `json:"reason"`
	Detail    string     `json:"detail"` // a line for each place looked at
	Remedy    string     `json:"remedy"` // commands or advice, a line each
	Consumers []Consumer `json:"users"`
	// ConsumersOmitted is how many more there are; only records of decisions leave some out.
	ConsumersOmitted int `json:"usersOmitted,omitempty"`
	// Exemptions are those without which the finding would be a denial.
	Exemptions []string `json:"exemptions,omitempty"`
}

// A Consumer is an object that uses an image.
type Consumer struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
	Use       string `json:"use"` // "running", "referenced", "next release" or "history"
	Digest    string `json:"digest,omitempty"`
	Guessed   bool   `json:"guessed,omitempty"` // only by the look of the object
}

// Counts are the numbers of images that a verdict rests on.
type Counts struct {
	Total    int `json:"total"`
	Rerouted int `json:"rerouted"`
	Verified int `json:"verified"`
	Layers   int `json:"layers"` // of the verified, those whose layers were found as well
	// Assumed are images that were found only where a mirroring that has not been done would copy
	// them from (check --assume). They do not count as verified.
	Assumed    int `json:"assumed,omitempty"`
	Unverified int `json:"unverified"`
	Pending    int `json:"pending"`   // of the unverified, those that were still being looked up
	Malformed  int `json:"malformed"` // those that cannot be parsed as references
	// Moved are not rerouted, and pulled again because the change drains nodes. Of these, nodes cannot pull
	// movedLost, and movedOpen could not be verified.
	Moved     int `json:"moved"`
	MovedLost int `json:"movedLost"`
	MovedOpen int `json:"movedOpen"`
	// MovedAssumed are those of moved that were found as assumed are.
	MovedAssumed int `json:"movedAssumed,omitempty"`
	// Tags are those of ImageStreams for whose import or pull-through the route changes, and Builds counts
	// BuildConfigs with what they have started: both as soon as the change is stored, with no rollout.
	Tags   int `json:"tags,omitempty"`
	Builds int `json:"builds,omitempty"`
}

// Rerouted is an image whose route changes.
type Rerouted struct {
	Image  string `json:"image"`
	Before Route  `json:"before"`
	After  Route  `json:"after"`
	// BeforeUnknown is set if it is not known what nodes do today, or if the change itself brings the
	// image, as a catalog, so that nothing pulls it today; Before is empty then.
	BeforeUnknown bool `json:"beforeUnknown,omitempty"`
	// Pools are the MachineConfigPools whose nodes take these routes, where not all do.
	Pools []string `json:"pools,omitempty"`
	// Result is the state of the image on its new route: "verified", "unverified", "fails", "fails
	// already" if it is proved to fail before the change as well, or "assumed" (check --assume).
	Result    string     `json:"result"`
	Consumers []Consumer `json:"users"`
}

// A Route is the places that a node tries, in order.
type Route struct {
	// Entry is the scope of the entry of registries.conf that covers the image, "" if none does; for
	// a short name, that of its first candidate.
	Entry   string   `json:"entry,omitempty"`
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
	Blocked   bool   `json:"blocked"`  // skipped without asking
	Insecure  bool   `json:"insecure"` // plain HTTP is allowed and certificates are not verified
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

// A Required is the part of a signature policy that covers an image.
type Required struct {
	// Scope is the key of policy.json that covers the image, "" for its default. Policies are
	// the objects behind it ("ClusterImagePolicy signed"); none where a MachineConfig is.
	Scope    string   `json:"scope"`
	Policies []string `json:"policies"`
	// Requirements are in words; all of them have to be met.
	Requirements []string `json:"requirements"`
}

// A Signature is the answer about the signatures of an image at a place.
type Signature struct {
	// Platform is that of the part of an index ("linux/arm64"), "" for a single image.
	Platform  string `json:"platform,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Reference string `json:"reference,omitempty"`
	// State is "accepted", "missing", "rejected", "unreadable", "not required" or "unknown".
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// A Fact is the answer of a registry about a place.
type Fact struct {
	// Presence is "present", "absent", "denied", "unreachable", "mismatch" (something else is served), "incomplete",
	// "inconclusive" or "unknown".
	Presence string `json:"presence"`
	// Blobs is set if the config and the layers were looked up too.
	Blobs  bool   `json:"blobs,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Platforms are those of nodes that would get the image there, Lacking those that would not;
	// neither if that was not looked up.
	Platforms []string   `json:"platforms,omitempty"`
	Lacking   []string   `json:"lacking,omitempty"`
	Detail    string     `json:"detail,omitempty"`
	Time      *time.Time `json:"time,omitempty"`
	// Assumed says on what evidence the fact rests where the image is not there yet, but is assumed to
	// be once a mirroring has been done (check --assume): the line of the mapping, and where it
	// copies from, which is where everything else about the fact was found.
	Assumed string `json:"assumed,omitempty"`
}
