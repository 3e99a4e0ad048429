package pullsecret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLookup holds the choice of an entry to that of nodes (containers/image
// pkg/docker/config, findCredentialsInFile).
func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		entries []string
		name    string
		want    string // the key of the entry, "" for none
	}{
		{"the repository itself", []string{"h.io", "h.io/a", "h.io/a/b", "h.io/a/b/c"}, "h.io/a/b/c", "h.io/a/b/c"},
		{"the longest path above it", []string{"h.io", "h.io/a", "h.io/a/b"}, "h.io/a/b/c", "h.io/a/b"},
		{"the host", []string{"h.io", "other.io"}, "h.io/a/b/c", "h.io"},
		{"paths end at a slash", []string{"h.io/a"}, "h.io/ab/c", ""},
		{"below is not above", []string{"h.io/a/b/c/d"}, "h.io/a/b/c", ""},
		{"a port is a part of the host", []string{"h.io"}, "h.io:5000/a", ""},
		{"a host with its port", []string{"h.io", "h.io:5000"}, "h.io:5000/a", "h.io:5000"},
		{"another host", []string{"h.io"}, "evil.h.io/a", ""},
		{"a suffix", []string{"h.io"}, "evilh.io/a", ""},
		{"the Docker Hub by its old URL", []string{"https://index.docker.io/v1/"}, "docker.io/library/nginx", "https://index.docker.io/v1/"},
		{"the Docker Hub by its API", []string{"registry-1.docker.io"}, "docker.io/library/nginx", "registry-1.docker.io"},
		{"the Docker Hub by its index", []string{"index.docker.io"}, "docker.io/library/nginx", "index.docker.io"},
		{"the plain name before the others", []string{"https://index.docker.io/v1/", "docker.io"}, "docker.io/library/nginx", "docker.io"},
		{"any host written as a URL", []string{"https://h.io/v2/"}, "h.io/a/b", "https://h.io/v2/"},
		{"clear text in the key", []string{"http://h.io"}, "h.io/a/b", "http://h.io"},
		{"a path without a scheme is a path", []string{"h.io/v1/"}, "h.io/a/b", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			entries := map[string]string{}
			for _, e := range tc.entries {
				entries[e] = "user:password"
			}
			cred, ok := credentials(t, entries).Lookup(tc.name)
			if cred.Key != tc.want || ok != (tc.want != "") {
				t.Errorf("lookup(%q) = %q, %v, want %q", tc.name, cred.Key, ok, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`{"auths": {
		"a.io": {"auth": "dXNlcjpwYXNz", "email": "x"},
		"b.io": {"auth": "!!secret!!"},
		"c.io": {"username": "u", "password": "p"},
		"d.io": {"auth": "bm9jb2xvbg=="},
		"e.io": {"auth": "dXNlcjpwYXNz", "identitytoken": "idt"},
		"f.io": {"registrytoken": "rt"},
		"g.io": {},
		"h.io": ["secret"],
		"i.io": {"auth": "dTpw\u0000"},
		"k.io": {"identitytoken": "idt"},
		"l.io": {"auth": "dXNlcjpwYXNz", "username": 7, "password": "other"}
	}, "credHelpers": {"j.io": "ecr-login"}, "credsStore": "x"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Entry{
		"a.io": {Username: "user", password: "pass"},
		"b.io": {Broken: "has a field auth that is not base64"},
		"c.io": {},
		"d.io": {},
		"e.io": {Username: "user", password: "pass", IdentityToken: "idt"},
		"f.io": {},
		"g.io": {},
		"h.io": {Broken: "has a value of the wrong type, so that nodes can read no entry"},
		"i.io": {Broken: "has a field auth that is not base64"},
		"j.io": {Helper: true},
		"k.io": {},
		"l.io": {Username: "user", password: "pass"},
	}
	for host, w := range want {
		w.Key = host
		if got := c.entries[host]; got != w {
			t.Errorf("%s: got %+v", host, got)
		}
	}
	wantProblems := []string{
		`pull secret entry "b.io" has a field auth that is not base64`,
		`pull secret entry "c.io" has no field auth, the only one that nodes read`,
		`pull secret entry "d.io" has a field auth without a colon, which nodes ignore`,
		`pull secret entry "f.io" has no field auth, the only one that nodes read`,
		`pull secret entry "h.io" has a value of the wrong type, so that nodes can read no entry`,
		`pull secret entry "i.io" has a field auth that is not base64`,
		`pull secret entry "k.io" has no field auth, without which nodes ignore identitytoken`,
		`pull secret entry "j.io" names a credential helper, which only a node could run`,
	}
	if diff := cmp.Diff(wantProblems, c.Problems()); diff != "" {
		t.Error(diff)
	}
	for _, data := range []string{`{"auths": {"a.io": {"auth": "dTpw"}, "h.io": {"auth": 1}}}`, `{"auths": {"a.io": {"auth": "dTpw"}}, "credHelpers": {"h.io": {}}}`} {
		c, err := Parse([]byte(data))
		if e, _ := c.Lookup("a.io/x"); err != nil || e.Key != "h.io" || e.Broken == "" {
			t.Errorf("%s: %+v, %v", data, e, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, data := range []string{"", "canary", `{"auths": "canary"}`, `[]`, `{"auths":{`} {
		if _, err := Parse([]byte(data)); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: error = %v", data, err)
		}
	}
	if _, err := Parse([]byte(`{"auths":{}}`)); !errors.Is(err, ErrNoEntries) {
		t.Errorf("error = %v", err)
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	c := credentials(t, map[string]string{"h.io": "user:canary"})
	cred, _ := c.Lookup("h.io/a")
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v %+v %#v", cred, cred, cred)} {
		if strings.Contains(text, "canary") {
			t.Errorf("printed %q", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"auths":{"h.io":{"auth":"dXNlcjpwYXNz"}}}`))
	f.Add([]byte(`{"auths":{"h.io":null,"":{}}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		c, _ := Parse(data)
		c.Lookup("h.io/a/b")
		c.Problems()
	})
}

func credentials(t *testing.T, entries map[string]string) Credentials {
	t.Helper()
	var auths []string
	for key, auth := range entries {
		auths = append(auths, fmt.Sprintf(`%q: {"auth": %q}`, key, base64.StdEncoding.EncodeToString([]byte(auth))))
	}
	c, err := Parse([]byte(`{"auths": {` + strings.Join(auths, ",") + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
