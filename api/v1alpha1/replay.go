package v1alpha1

import (
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
)

// A Replay says what would be decided now about recorded changes (kind Replay).
type Replay struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Facts is "now" or "recorded".
	Facts   string           `json:"facts"`
	Changes []ReplayedChange `json:"changes"`
	Summary ReplaySummary    `json:"summary"`
}

// A ReplaySummary counts changes.
type ReplaySummary struct {
	Same     int `json:"same"`
	Differ   int `json:"differ"`
	NoAnswer int `json:"noAnswer"`
}

// A ReplayedChange is a change with the decision of then, and that of now.
type ReplayedChange struct {
	Time      time.Time            `json:"time"`
	UID       string               `json:"uid"`
	User      string               `json:"user"`
	Operation string               `json:"operation"`
	DryRun    bool                 `json:"dryRun"`
	Object    auditv1alpha1.Object `json:"object"`
	// Then and Now are verdicts; Now is "" if there is no answer.
	Then    string `json:"then"`
	Now     string `json:"now"`
	Differs bool   `json:"differs"`
	// Added and Removed are findings by rule and severity that only one of them has, or has more
	// of.
	Added   []auditv1alpha1.RuleCount `json:"added,omitempty"`
	Removed []auditv1alpha1.RuleCount `json:"removed,omitempty"`
	// Message is what refuses the change now, or would without the mode.
	Message string `json:"message,omitempty"`
	// Error is why there is no answer.
	Error string `json:"error,omitempty"`
}
