package policy

import "slices"

// Guesses says what comes of a finding on an image all of whose consumers were guessed, or
// are history beside. In a protected namespace a guess counts as much as any other consumer:
// what keeps a cluster alive is not to be lost because its kind is not known here. Else
// it warns by default, as a text that only looks like an image would hold up changes that
// hurt no one.
type Guesses int

const (
	// GuessesWarn makes denials warnings. It is the zero value.
	GuessesWarn Guesses = iota
	// GuessesDeny takes guesses for what they seem to be.
	GuessesDeny
	// GuessesIgnore reports them on request only.
	GuessesIgnore
)

// maxSeverity returns the greatest severity of a finding on an image that is only guessed.
func (g Guesses) maxSeverity() Severity {
	return [...]Severity{GuessesWarn: Warn, GuessesDeny: Deny, GuessesIgnore: Info}[g]
}

// merelyGuessed reports whether img has no consumer that weighs more than a guess outside of
// the protected namespaces.
func (s Settings) merelyGuessed(img Image) bool {
	guessed := func(c Consumer) bool { return c.Guessed }
	sure := func(c Consumer) bool { return !c.Guessed && c.Use != History }
	return slices.ContainsFunc(img.Consumers, guessed) && !slices.ContainsFunc(img.Consumers, sure) && !s.IsProtected(img)
}
