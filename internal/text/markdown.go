package text

import "strings"

// html escapes what HTML has a meaning for, and what a Markdown reader looks for within it.
var html = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "&#96;", "\\", "&#92;", "*", "&#42;", "_", "&#95;", "[", "&#91;", "]", "&#93;", "@", "@<!-- -->", "~", "&#126;", "|", "&#124;")

// Markdown returns s as text of one line without any meaning to Markdown. An @ notifies no user.
func Markdown(s string) string { return html.Replace(Line(s)) }

// Code returns s as a code span of Markdown, "" for "".
func Code(s string) string {
	if s = Line(s); s == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(s)+1)
	return fence + " " + s + " " + fence
}

// Block returns s as a code block of Markdown.
func Block(s string) string {
	fence := strings.Repeat("`", max(3, longestRun(s)+1))
	return fence + "text\n" + s + "\n" + fence + "\n"
}

// longestRun is the length of the longest run of backticks in s: a fence that is longer is not ended
// by s.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
