package registry

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
	entries map[string]credential
	// known is set where these are all that nodes have, even if that is nothing.
	known bool
	// problems name the entries that were left out, without their content.
	problems []string
}

// A credential is one entry of a .dockerconfigjson.
type credential struct {
	// entry is its key in the file.
	entry              string
	username, password string
	// identityToken is exchanged for bearer tokens (OAuth 2).
	identityToken string
	// broken is the reason why nodes could not use the entry. They do not try another one
	// then: the pull fails.
	broken string
	// helper is set if nodes would ask a program for what the entry holds.
	helper bool
}

// String and GoString keep secrets out of logs and failed tests.
func (c Credentials) String() string {
	return fmt.Sprintf("credentials for %d entries", len(c.entries))
}

// GoString implements fmt.GoStringer.
func (c Credentials) GoString() string { return c.String() }

func (c credential) String() string   { return fmt.Sprintf("credential %q", c.entry) }
func (c credential) GoString() string { return c.String() }

// anonymous reports whether there are no credentials to send.
func (c credential) anonymous() bool {
	return c.username == "" && c.password == "" && c.identityToken == ""
}

// basic returns what HTTP basic authentication sends, "" if there is nothing.
func (c credential) basic() string {
	if c.username == "" || c.password == "" {
		return "" // nodes send both or neither (docker_client.go, getBearerToken)
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.username+":"+c.password))
}

// maxProblem is the length of one of Problems: the API server advises warnings of less than
// 120 characters.
const maxProblem = 119

// ErrNoCredentials means that a .dockerconfigjson has no entries at all.
var ErrNoCredentials = errors.New("no entries under \"auths\"")

// ParseCredentials reads a .dockerconfigjson, such as the key of that name in Secret
// openshift-config/pull-secret. Entries that cannot be used are left out and named by
// Problems. It returns an error if there is not a single usable entry; the error quotes
// nothing of the data.
func ParseCredentials(dockerConfigJSON []byte) (Credentials, error) {
	var file struct {
		Auths       map[string]json.RawMessage `json:"auths"`
		CredHelpers map[string]json.RawMessage `json:"credHelpers"`
	}
	if err := json.Unmarshal(dockerConfigJSON, &file); err != nil {
		return Credentials{}, errors.New("the pull secret is not the JSON of a .dockerconfigjson") // err may quote it
	}
	c := Credentials{entries: make(map[string]credential, len(file.Auths)), known: true}
	for _, key := range slices.Sorted(maps.Keys(file.Auths)) {
		c.add(key, file.Auths[key])
	}
	for _, host := range slices.Sorted(maps.Keys(file.CredHelpers)) {
		c.entries[host] = credential{entry: host, helper: true}
		c.problem(host, "names a credential helper, which only a node could run")
	}
	if len(c.entries) == 0 {
		return c, ErrNoCredentials
	}
	return c, nil
}

// Problems names the entries that cannot be used, or not in the way they are
// written, each in one short line.
func (c Credentials) Problems() []string { return slices.Clone(c.problems) }

// Len returns the number of entries.
func (c Credentials) Len() int { return len(c.entries) }

func (c *Credentials) problem(key, what string) {
	c.problems = append(c.problems, text.OneLine(fmt.Sprintf("pull secret entry %s %s", quote(key), what), maxProblem))
}

func (c *Credentials) add(key string, raw json.RawMessage) {
	cred, remark := parseCredential(raw)
	cred.entry = key
	c.entries[key] = cred
	if remark = cmp.Or(cred.broken, remark); remark != "" {
		c.problem(key, remark)
	}
}

// parseCredential reads one entry as nodes do (containers/image pkg/docker/config,
// dockerAuthConfig and decodeDockerAuth): "auth" and "identitytoken" only, and the second
// only where the first is good. Invalid base64 fails the pull; without a colon the entry
// counts as empty. Other clients also read a user name and a password in the clear, or a
// bearer token. Nodes could not pull with those, so they are not used here, but named: they
// are most likely a mistake.
func parseCredential(raw json.RawMessage) (cred credential, remark string) {
	var fields struct {
		Auth          string          `json:"auth"`
		IdentityToken string          `json:"identitytoken"`
		Username      json.RawMessage `json:"username"`
		Password      json.RawMessage `json:"password"`
		RegistryToken json.RawMessage `json:"registrytoken"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return credential{broken: "is not an object of strings"}, ""
	}
	decoded, err := base64.StdEncoding.DecodeString(fields.Auth)
	if err != nil {
		return credential{broken: "has a field auth that is not base64"}, ""
	}
	username, password, found := strings.Cut(string(decoded), ":")
	switch {
	case found:
		return credential{username: username, password: strings.Trim(password, "\x00"), identityToken: fields.IdentityToken}, ""
	case len(decoded) > 0:
		return credential{}, "has a field auth without a colon, which nodes ignore"
	case fields.IdentityToken != "":
		return credential{}, "has no field auth, without which nodes ignore identitytoken"
	case len(fields.Username)+len(fields.Password)+len(fields.RegistryToken) > 0:
		return credential{}, "has no field auth, the only one that nodes read"
	default:
		return credential{}, "" // docker leaves these behind where it uses a credential helper
	}
}

// lookup returns the entry a node uses for a repository ("host/a/b"), and whether there is
// one. The longest key that is the repository, or above it, wins, even if it is unusable;
// then keys that were written as a URL, and the names of the Docker Hub (containers/image
// pkg/docker/config, findCredentialsInFile).
func (c Credentials) lookup(name string) (credential, bool) {
	host, _, _ := strings.Cut(name, "/")
	if cred, ok := c.entries[host]; ok && cred.helper {
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
	return credential{}, false
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

// asNodes reports whether a registry that is asked about a repository with these credentials is
// asked with those that nodes have: not where they are not known, nor where nodes ask a helper.
func (c Credentials) asNodes(name string) bool {
	cred, _ := c.lookup(name)
	return c.known && !cred.helper
}

// equal reports whether both hold the same entries.
func (c Credentials) equal(other Credentials) bool {
	return c.known == other.known && maps.Equal(c.entries, other.entries)
}
