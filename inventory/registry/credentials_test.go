package registry

import (
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
			cred, ok := credentials(t, entries).lookup(tc.name)
			if cred.entry != tc.want || ok != (tc.want != "") {
				t.Errorf("lookup(%q) = %q, %v, want %q", tc.name, cred.entry, ok, tc.want)
			}
		})
	}
}

func TestParseCredentials(t *testing.T) {
	c, err := ParseCredentials([]byte(`{"auths": {
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
	want := map[string]credential{
		"a.io": {username: "user", password: "pass"},
		"b.io": {broken: "has a field auth that is not base64"},
		"c.io": {},
		"d.io": {},
		"e.io": {username: "user", password: "pass", identityToken: "idt"},
		"f.io": {},
		"g.io": {},
		"h.io": {broken: "is not an object of strings"},
		"i.io": {broken: "has a field auth that is not base64"},
		"j.io": {helper: true},
		"k.io": {},
		"l.io": {username: "user", password: "pass"},
	}
	for host, w := range want {
		w.entry = host
		if got := c.entries[host]; got != w {
			t.Errorf("%s: got %+v", host, got)
		}
	}
	wantProblems := []string{
		`pull secret entry "b.io" has a field auth that is not base64`,
		`pull secret entry "c.io" has no field auth, the only one that nodes read`,
		`pull secret entry "d.io" has a field auth without a colon, which nodes ignore`,
		`pull secret entry "f.io" has no field auth, the only one that nodes read`,
		`pull secret entry "h.io" is not an object of strings`,
		`pull secret entry "i.io" has a field auth that is not base64`,
		`pull secret entry "k.io" has no field auth, without which nodes ignore identitytoken`,
		`pull secret entry "j.io" names a credential helper, which only a node could run`,
	}
	if diff := cmp.Diff(wantProblems, c.Problems()); diff != "" {
		t.Error(diff)
	}
}

func TestParseCredentialsRefuses(t *testing.T) {
	for _, data := range []string{"", "canary", `{"auths": "canary"}`, `[]`, `{"auths":{`} {
		if _, err := ParseCredentials([]byte(data)); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: error = %v", data, err)
		}
	}
	if _, err := ParseCredentials([]byte(`{"auths":{}}`)); !errors.Is(err, ErrNoCredentials) {
		t.Errorf("error = %v", err)
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	c := credentials(t, map[string]string{"h.io": "user:canary"})
	cred, _ := c.lookup("h.io/a")
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v %+v %#v", cred, cred, cred)} {
		if strings.Contains(text, "canary") {
			t.Errorf("printed %q", text)
		}
	}
}

func FuzzParseCredentials(f *testing.F) {
	f.Add([]byte(`{"auths":{"h.io":{"auth":"dXNlcjpwYXNz"}}}`))
	f.Add([]byte(`{"auths":{"h.io":null,"":{}}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		c, _ := ParseCredentials(data)
		c.lookup("h.io/a/b")
		c.Problems()
	})
}
