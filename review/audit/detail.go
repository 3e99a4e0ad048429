package audit

// A Detail is the extent of the records of decisions.
type Detail struct {
	// Off records nothing.
	Off bool
	// Unchanged also records requests that are admitted without a review.
	Unchanged bool
	// Changes keeps what was to be changed (Decision.Change).
	Changes bool
	// Facts is how many facts a record has at most.
	Facts int
}

// Covers reports whether a decision with such a verdict is recorded.
func (d Detail) Covers(verdict string) bool { return !d.Off && (d.Unchanged || verdict != Skipped) }

// Skipped is the verdict where there was nothing to review.
const Skipped = "skipped"
