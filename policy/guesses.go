package policy

import "slices"

// Guesses is the treatment of findings on images all of whose consumers are guessed, or are
// guesses and history. In a protected namespace a guess counts as much as any other consumer,
// as a cluster must not be lost because a kind is unknown here. Elsewhere it only warns by
// default, as a text that merely looks like an image would block harmless changes.
type Guesses int

const (
	// GuessesWarn makes denials warnings. It is the zero value.
	GuessesWarn Guesses = iota
	// GuessesDeny treats guesses like other consumers.
	GuessesDeny
	// GuessesIgnore makes findings Info, which is shown on request only.
	GuessesIgnore
)

// maxSeverity returns the greatest severity of a finding on an image that is only guessed.
func (g Guesses) maxSeverity() Severity {
	return [...]Severity{GuessesWarn: Warn, GuessesDeny: Deny, GuessesIgnore: Info}[g]
}

// merelyGuessed reports whether img has guessed consumers, none of them in a protected
// namespace, and beside those nothing but history.
func (s Settings) merelyGuessed(img Image) bool {
	guessed := func(c Consumer) bool { return c.Guessed }
	sure := func(c Consumer) bool { return !c.Guessed && c.Use != History }
	return slices.ContainsFunc(img.Consumers, guessed) && !slices.ContainsFunc(img.Consumers, sure) && !s.IsProtected(img)
}
