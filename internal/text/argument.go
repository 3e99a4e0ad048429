package text

import "strings"

// Argument returns a name as an argument in a command that people copy to a shell: a dump may hold
// any name.
func Argument(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:/@", r)
	}
	if name != "" && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	return "'" + strings.ReplaceAll(Line(name), "'", `'\''`) + "'"
}
