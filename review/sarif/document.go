package sarif

// The parts of SARIF 2.1.0 that are written. github.com/owenrumney/go-sarif has them all, and writes null or
// an empty list for omitted ones.

type log struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []run  `json:"runs"`
}

type run struct {
	Tool       tool         `json:"tool"`
	Invocation []invocation `json:"invocations"`
	ColumnKind string       `json:"columnKind"`
	Results    []result     `json:"results"`
	Properties properties   `json:"properties"`
}

type tool struct {
	Driver driver `json:"driver"`
}

type driver struct {
	Name           string       `json:"name"`
	Version        string       `json:"version"`
	InformationURI string       `json:"informationUri"`
	Rules          []descriptor `json:"rules"`
}

type descriptor struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Short   message       `json:"shortDescription"`
	Help    message       `json:"help"`
	HelpURI string        `json:"helpUri"`
	Default configuration `json:"defaultConfiguration"`
}

type configuration struct {
	Level string `json:"level"`
}

type message struct {
	Text string `json:"text"`
}

type invocation struct {
	ExecutionSuccessful bool           `json:"executionSuccessful"`
	Notifications       []notification `json:"toolExecutionNotifications,omitempty"`
}

type notification struct {
	Level   string  `json:"level"`
	Message message `json:"message"`
}

// properties are ours: the subject of the review, and the verdict.
type properties struct {
	Subject string `json:"subject"`
	Allowed bool   `json:"allowed"`
}

type result struct {
	RuleID       string            `json:"ruleId"`
	Level        string            `json:"level"`
	Message      message           `json:"message"`
	Locations    []location        `json:"locations,omitempty"`
	Related      []location        `json:"relatedLocations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type location struct {
	ID       int              `json:"id,omitempty"`
	Physical physicalLocation `json:"physicalLocation"`
	Logical  []logical        `json:"logicalLocations"`
}

type physicalLocation struct {
	Artifact artifact `json:"artifactLocation"`
	Region   region   `json:"region"`
}

type artifact struct {
	URI         string   `json:"uri,omitempty"`
	Description *message `json:"description,omitempty"` // where there is no file
}

type region struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
	EndColumn   int `json:"endColumn,omitempty"`
}

type logical struct {
	FullName string `json:"fullyQualifiedName"`
	Kind     string `json:"kind"`
}
