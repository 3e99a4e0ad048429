package text

import (
	"regexp"
	"strings"
)

// WithoutCredentials returns s with "***" instead of the credentials in front of a host, as in
// https://user:password@example.com or https://token@example.com. Digests and tags look similar, and stay:
// example.com/app:v1@sha256:...
func WithoutCredentials(s string) string {
	if !strings.Contains(s, "@") {
		return s
	}
	var b strings.Builder
	rest := s
	for {
		at := userInfo.FindStringSubmatchIndex(rest)
		if at == nil {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:at[0]])
		if digest.MatchString(rest[at[1]:]) {
			b.WriteString(rest[at[0]:at[1]])
		} else {
			b.WriteString(rest[at[0]:max(at[0], at[3])] + "***@") // the scheme stays
		}
		rest = rest[at[1]:]
	}
}

var (
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/"'` + "`" + `]*@|[^\s/@:"'` + "`" + `]*:[^\s/@"'` + "`" + `]+@`)
	digest   = regexp.MustCompile(`^[a-z0-9]+:[0-9a-f]{12}`)
)
