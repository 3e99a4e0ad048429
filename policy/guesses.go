package policy

import "slices"

// merelyGuessed reports whether img has guessed consumers, none of them in a protected
// namespace, and beside those nothing but history. In a protected namespace a guess counts as
// much as any other consumer, as a cluster must not be lost because a kind is unknown here.
// Elsewhere it only warns, as a text that merely looks like an image would block harmless changes.
func (s Settings) merelyGuessed(img Image) bool {
	guessed := func(c Consumer) bool { return c.Guessed }
	sure := func(c Consumer) bool { return !c.Guessed && c.Use != History }
	return slices.ContainsFunc(img.Consumers, guessed) && !slices.ContainsFunc(img.Consumers, sure) && !s.IsProtected(img)
}
