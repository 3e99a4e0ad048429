package registry

import (
	"net/http"
	"strings"
)

// A challenge is what a registry answered to GET /v2/: how to authenticate.
type challenge struct {
	scheme  string // "basic" or "bearer"; "" if none that is known
	realm   string
	service string
}

// chooseChallenge returns the first challenge that nodes can answer
// (docker_client.go, setupRequestAuth). They look at any answer, 200 included, and
// where there is no such challenge they send nothing, whatever later answers want.
func chooseChallenge(header http.Header) challenge {
	for _, value := range header.Values("WWW-Authenticate") {
		scheme, params := parseChallenge(value)
		if scheme == "basic" || scheme == "bearer" {
			return challenge{scheme: scheme, realm: params["realm"], service: params["service"]}
		}
	}
	return challenge{}
}

// parseChallenge reads one WWW-Authenticate header: a scheme and its parameters,
// their names in lower case. Like containers/image (docker/wwwauthenticate.go), and
// unlike RFC 9110, it knows one challenge a header. What cannot be read ends it.
func parseChallenge(value string) (scheme string, params map[string]string) {
	scheme, rest := cutToken(strings.TrimLeft(value, spaces))
	params = map[string]string{}
	for rest != "" {
		var key, val string
		var ok bool
		key, rest = cutToken(strings.TrimLeft(rest, spaces+","))
		if rest, ok = strings.CutPrefix(rest, "="); !ok || key == "" {
			break
		}
		if val, rest, ok = cutValue(rest); !ok {
			break
		}
		params[strings.ToLower(key)] = val
	}
	return strings.ToLower(scheme), params
}

const spaces = " \t\r\n"

// cutToken returns the token (RFC 9110, 5.6.2) that s starts with, and the rest.
func cutToken(s string) (token, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[]\\{}", r)
	})
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

// cutValue returns the token or quoted string that s starts with, and the rest.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		value, rest = cutToken(s)
		return value, rest, value != ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++ // the next byte stands for itself
			if i == len(s) {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

// wantedScope returns the scope a registry says a token lacks, "" if it does not
// (docker_client.go, needsRetryWithUpdatedScope).
func wantedScope(header http.Header) string {
	for _, value := range header.Values("WWW-Authenticate") {
		scheme, params := parseChallenge(value)
		if scheme == "bearer" && params["error"] == "insufficient_scope" && strings.Count(params["scope"], ":") == 2 {
			return params["scope"]
		}
	}
	return ""
}
