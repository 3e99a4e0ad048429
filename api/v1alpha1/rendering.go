package v1alpha1

// A Rendering holds the files of nodes before and after a change (kind Rendering).
type Rendering struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Before and After are registries.conf, as TOML. They are equal without a change.
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is the unified diff of the two, "" if they are equal.
	Diff string `json:"diff"`
	// Files are the others, which say what nodes require of images and where they look for
	// signatures, sorted by path: policy.json, those of namespaces with an ImagePolicy, and
	// the one of registries.d.
	Files []RenderedFile `json:"files"`
	// MachineConfig compares the objects in force with what nodes are given.
	MachineConfig Comparison `json:"machineConfig"`
}

// A RenderedFile is a file of nodes as MCO writes it, "" where there is none.
type RenderedFile struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is the unified diff of the two, "" if they are equal.
	Diff string `json:"diff"`
}

// A Comparison says whether MCO has applied the objects in force.
type Comparison struct {
	Name  string          `json:"name"`
	State ComparisonState `json:"state"`
	// Detail is why the state is not known, "" otherwise.
	Detail string `json:"detail"`
	// Differences are the entries that differ, sorted by scope.
	Differences []Difference `json:"differences"`
	// SparesPayload is set if a difference may be intended: a blocked registry that holds the
	// release image and has no mirror is left out on purpose, and that image is not known.
	SparesPayload bool `json:"-"`
}

// A ComparisonState is the result of a Comparison in a word.
type ComparisonState string

// The states of a Comparison.
const (
	StateApplied  ComparisonState = "applied"  // the MachineConfig says what the objects say
	StateDiffers  ComparisonState = "differs"  // it says something else
	StateRejected ComparisonState = "rejected" // MCO rejects the objects and applies nothing; where JSON is asked for, that is an error
	StateUnknown  ComparisonState = "unknown"  // it was not found or could not be read
)

// A Difference is an entry of a file that is not as the objects ask for.
type Difference struct {
	// File is the path of the file, "" for registries.conf and its drop-ins.
	File          string `json:"file,omitempty"`
	Scope         string `json:"scope"` // or "unqualified-search-registries", "all other images"
	Objects       string `json:"objects"`
	MachineConfig string `json:"machineConfig"`
}
