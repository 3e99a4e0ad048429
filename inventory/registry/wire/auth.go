package wire

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// This file handles 401. The 401 to GET /v2/ brings the challenge (chooseChallenge) by
// which each request is authorized before it is sent (keychain.authorization). A 401 to a
// request that was authorized gets one more try with a token for its repository alone
// (Exchange.Get); after that it means that the credential does not open the image (denied).

// wantsToken reports whether requests carry a token that has to be fetched.
func (s *session) wantsToken() bool { return s.challenge.scheme == "bearer" }

// authorization returns the header to send, "" for none. Without a challenge in
// the answer to GET /v2/ nodes send nothing, and so there is nothing here.
func (k *keychain) authorization(s *session, g *grant) string {
	switch {
	case g != nil:
		return "Bearer " + g.value.text
	case s.challenge.scheme == "basic":
		// Nodes without a credential send an empty one, which registries treat as none.
		return k.credential.Basic()
	default:
		return ""
	}
}

// denied returns the failure that the registry wants other credentials than cred, which is
// the zero value if there are none for it.
func denied(host string, r Response, cred pullsecret.Entry) *Failure {
	if r.redirected != "" {
		return statusFailure(host, r)
	}
	f := &Failure{Presence: policy.Denied, Status: r.Status, trouble: policy.Trouble{Cause: policy.RefusedEntry, Entry: cred.Key}}
	switch {
	case cred.Helper:
		f.Presence, f.trouble.Cause = policy.Unreachable, policy.HelperEntry // the nodes' credentials are not known
		f.Detail = fmt.Sprintf("%s answers %d; nodes ask a credential helper for it, which only they can run", host, r.Status)
	case cred.Anonymous() && cred.Key != "":
		f.trouble.Cause = policy.EmptyEntry
		f.Detail = fmt.Sprintf("%s answers %d; the entry %s of the global pull secret is empty%s",
			host, r.Status, Quote(cred.Key), r.Says())
	case cred.Anonymous():
		f.trouble.Cause = policy.NoEntry
		f.Detail = fmt.Sprintf("%s answers %d and the global pull secret has no entry for it; add one%s", host, r.Status, r.Says())
	default:
		f.Detail = fmt.Sprintf("%s answers %d to the entry %s of the global pull secret; renew it or widen its rights%s",
			host, r.Status, Quote(cred.Key), r.Says())
	}
	if r.Status == http.StatusForbidden && !cred.Helper {
		f.Detail += "; or it does not exist: some registries answer 403 for images that they do not have"
	}
	return f
}

// A challenge describes how to authenticate, according to a registry's answer to GET /v2/.
type challenge struct {
	scheme  string // "basic" or "bearer"; "" if none that is known
	realm   string
	service string
}

// chooseChallenge returns the first challenge that nodes can answer (docker_client.go,
// setupRequestAuth). They consider every answer, 200 included; without such a challenge
// they send nothing, whatever later answers ask for.
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
// unlike RFC 9110, it knows one challenge a header. An unreadable part ends it.
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
