package policy

// Severity is the effect of a Finding on the verdict. The zero value is Info.
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

// A Mode is the treatment of changes that the rules deny. The zero value refuses them.
type Mode int

const (
	// ModeEnforce refuses the change.
	ModeEnforce Mode = iota
	// ModeWarn admits it, with warnings that say what would have been denied.
	ModeWarn
	// ModeAudit admits it in silence; only the records of the guard tell.
	ModeAudit
)

// String implements fmt.Stringer.
func (m Mode) String() string {
	return [...]string{ModeEnforce: "enforce", ModeWarn: "warn", ModeAudit: "audit"}[m]
}
