// Package pullsecret reads a .dockerconfigjson as nodes do, and says which of its entries they use for a repository. It rests
// on no other package of this module but for texts. Nothing that it prints holds a secret.
package pullsecret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Credentials are the entries of a .dockerconfigjson, by the keys they have
// there: "host", "host/path" or a URL. The zero value has none, so
// registries are asked anonymously, and means that those of nodes are not known. A Credentials is not
// changed after it was parsed and may be shared. It prints as the number of its entries.
type Credentials struct {
	entries map[string]Entry
	// known is set where these are all that nodes have, even if that is nothing.
	known bool
	// unreadable is an entry that is none by its type: nodes then read nothing of the file (containers/image
	// pkg/docker/config, authPath.parse).
	unreadable *Entry
	// problems name the entries that were left out, without their content.
	problems []string
}

// An Entry is one entry of a .dockerconfigjson.
type Entry struct {
	// Key is its key in the file.
	Key                string
	Username, password string
	// IdentityToken is exchanged for bearer tokens (OAuth 2).
	IdentityToken string
	// Broken is the reason why nodes could not use the entry. They do not try another one
	// then: the pull fails.
	Broken string
	// Helper is set if nodes would ask a program for what the entry holds.
	Helper bool
}

// String and GoString keep secrets out of logs and failed tests.
func (c Credentials) String() string {
	return fmt.Sprintf("credentials for %d entries", len(c.entries))
}

// GoString implements fmt.GoStringer.
func (c Credentials) GoString() string { return c.String() }

// String and GoString keep secrets out of logs and failed tests.
func (c Entry) String() string { return fmt.Sprintf("credential %q", c.Key) }

// GoString implements fmt.GoStringer.
func (c Entry) GoString() string { return c.String() }

// Anonymous reports whether there are no credentials to send.
func (c Entry) Anonymous() bool {
	return c.Username == "" && c.password == "" && c.IdentityToken == ""
}

// Basic returns what HTTP basic authentication sends, "" if there is nothing.
func (c Entry) Basic() string {
	if c.Username == "" || c.password == "" {
		return "" // nodes send both or neither (docker_client.go, getBearerToken)
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.password))
}

// maxProblem is the length of one of Problems: the API server advises warnings of less than
// 120 characters.
const maxProblem = 119

const maxKey = 80 // runes of a key in one of Problems

// ErrNoEntries means that a .dockerconfigjson has no entries at all.
var ErrNoEntries = errors.New("no entries under \"auths\"")

// Parse reads a .dockerconfigjson, such as the key of that name in Secret
// openshift-config/pull-secret. Entries that cannot be used are left out and named by
// Problems. It returns an error if there is not a single usable entry; the error quotes
// nothing of the data.
func Parse(dockerConfigJSON []byte) (Credentials, error) {
	var file struct {
		Auths       map[string]json.RawMessage `json:"auths"`
		CredHelpers map[string]json.RawMessage `json:"credHelpers"`
	}
	if err := json.Unmarshal(dockerConfigJSON, &file); err != nil {
		return Credentials{}, errors.New("the pull secret is not the JSON of a .dockerconfigjson") // err may quote it
	}
	c := Credentials{entries: make(map[string]Entry, len(file.Auths)), known: true}
	for _, key := range slices.Sorted(maps.Keys(file.Auths)) {
		c.add(key, file.Auths[key])
	}
	for _, host := range slices.Sorted(maps.Keys(file.CredHelpers)) {
		c.entries[host] = Entry{Key: host, Helper: true}
		what := "names a credential helper, which only a node could run"
		if json.Unmarshal(file.CredHelpers[host], new(string)) != nil {
			c.unreadable, what = &Entry{Key: host, Broken: wrongType}, wrongType
		}
		c.problem(host, what)
	}
	if len(c.entries) == 0 {
		return c, ErrNoEntries
	}
	return c, nil
}

// Problems names the entries that cannot be used, or not in the way they are
// written, each in one short line.
func (c Credentials) Problems() []string { return slices.Clone(c.problems) }

// Len returns the number of entries.
func (c Credentials) Len() int { return len(c.entries) }

func (c *Credentials) problem(key, what string) {
	c.problems = append(c.problems, text.OneLine(fmt.Sprintf("pull secret entry %s %s", text.Quote(key, maxKey), what), maxProblem))
}

func (c *Credentials) add(key string, raw json.RawMessage) {
	cred, remark := parseCredential(raw)
	cred.Key = key
	c.entries[key] = cred
	if cred.Broken == wrongType {
		c.unreadable = &cred
	}
	if remark = cmp.Or(cred.Broken, remark); remark != "" {
		c.problem(key, remark)
	}
}

const wrongType = "has a value of the wrong type, so that nodes can read no entry"

// parseCredential reads one entry as nodes do (containers/image pkg/docker/config,
// dockerAuthConfig and decodeDockerAuth): "auth" and "identitytoken" only, and the second
// only where the first is good. Invalid base64 fails the pull; without a colon the entry
// counts as empty. Other clients also read a user name and a password in the clear, or a
// bearer token. Nodes could not pull with those, so they are not used here, but named: they
// are most likely a mistake.
func parseCredential(raw json.RawMessage) (cred Entry, remark string) {
	var fields struct {
		Auth          string          `json:"auth"`
		IdentityToken string          `json:"identitytoken"`
		Username      json.RawMessage `json:"username"`
		Password      json.RawMessage `json:"password"`
		RegistryToken json.RawMessage `json:"registrytoken"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Entry{Broken: wrongType}, ""
	}
	decoded, err := base64.StdEncoding.DecodeString(fields.Auth)
	if err != nil {
		return Entry{Broken: "has a field auth that is not base64"}, ""
	}
	username, password, found := strings.Cut(string(decoded), ":")
	switch {
	case found:
		return Entry{Username: username, password: strings.Trim(password, "\x00"), IdentityToken: fields.IdentityToken}, ""
	case len(decoded) > 0:
		return Entry{}, "has a field auth without a colon, which nodes ignore"
	case fields.IdentityToken != "":
		return Entry{}, "has no field auth, without which nodes ignore identitytoken"
	case len(fields.Username)+len(fields.Password)+len(fields.RegistryToken) > 0:
		return Entry{}, "has no field auth, the only one that nodes read"
	default:
		return Entry{}, "" // docker leaves these behind where it uses a credential helper
	}
}

// Lookup returns the entry a node uses for a repository ("host/a/b"), and whether there is
// one. The longest key that is the repository, or above it, wins, even if it is unusable;
// then keys that were written as a URL, and the names of the Docker Hub (containers/image
// pkg/docker/config, findCredentialsInFile).
func (c Credentials) Lookup(name string) (Entry, bool) {
	if c.unreadable != nil {
		return *c.unreadable, true
	}
	host, _, _ := strings.Cut(name, "/")
	if cred, ok := c.entries[host]; ok && cred.Helper {
		return cred, true
	}
	for key := name; ; {
		if cred, ok := c.entries[key]; ok {
			return cred, true
		}
		slash := strings.LastIndexByte(key, '/')
		if slash < 0 {
			break
		}
		key = key[:slash]
	}
	for _, key := range slices.Sorted(maps.Keys(c.entries)) { // a node takes an arbitrary one
		if hostOfKey(key) == hubName(host) {
			return c.entries[key], true
		}
	}
	return Entry{}, false
}

// hostOfKey returns the registry that a key stands for, if it was written as a URL
// ("https://index.docker.io/v1/") or names the Docker Hub.
func hostOfKey(key string) string {
	stripped := strings.TrimPrefix(strings.TrimPrefix(key, "http://"), "https://")
	if stripped != key {
		stripped, _, _ = strings.Cut(stripped, "/")
	}
	return hubName(stripped)
}

// hubName maps all names of the Docker Hub to one, and leaves others alone.
func hubName(host string) string {
	switch host {
	case "docker.io", "registry-1.docker.io":
		return "index.docker.io"
	}
	return host
}

// AsNodes reports whether a registry that is asked about a repository with these credentials is
// asked with those that nodes have: not where they are not known, nor where nodes ask a helper.
func (c Credentials) AsNodes(name string) bool {
	cred, _ := c.Lookup(name)
	return c.known && !cred.Helper
}

// Equal reports whether both hold the same entries.
func (c Credentials) Equal(other Credentials) bool {
	return c.known == other.known && (c.unreadable == nil) == (other.unreadable == nil) && maps.Equal(c.entries, other.entries)
}
