package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// canary is a password that must turn up at its host and nowhere else.
const canary = "user:canary"

// challenged answers GET /v2/ with 401 and a challenge, and manifests to those who
// bring the authorization that is wanted.
func challenged(challenge, want string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" || r.Header.Get("Authorization") != want {
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveManifest(w, r)
	}
}

func TestBasic(t *testing.T) {
	s := newTLSServer(t, challenged(`Basic realm="registry"`, basic(canary)))
	for _, tc := range []struct {
		reason  string
		entries map[string]string
		want    policy.Presence
		detail  string
	}{
		{"the host's entry", map[string]string{host: canary}, policy.Present, ""},
		{"the repository's entry first", map[string]string{host: "x:y", host + "/app": canary}, policy.Present, ""},
		{
			"the wrong password",
			map[string]string{host: "user:wrong"},
			policy.Denied,
			`mirror.example.com answers 401 to the entry "mirror.example.com" of the global pull secret; renew it or widen its rights`,
		},
		{
			"first hit wins, even if it is wrong",
			map[string]string{host: canary, host + "/app": "user:wrong"},
			policy.Denied,
			`the entry "mirror.example.com/app" of the global pull secret`,
		},
		{"another repository's entry", map[string]string{host + "/other": canary}, policy.Denied, "has no entry for it"},
		{"another host's entry", map[string]string{"example.com": canary, "other.example.com": canary}, policy.Denied, "has no entry for it"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			before := len(s.requests())
			got := probe(t, newTestClient(t, s, withCredentials(credentials(t, tc.entries))), tagged())
			wantFact(t, got, tc.want, tc.detail)
			for _, r := range s.requests()[before:] {
				if tc.want == policy.Denied && r.authorization == basic(canary) {
					t.Errorf("the canary went to %s", r.path)
				}
			}
		})
	}
}

func TestNothingIsSentWithoutAChallenge(t *testing.T) {
	s := newTLSServer(t, healthy)
	wantFact(t, probe(t, newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary}))), tagged()), policy.Present)
	for _, r := range s.requests() {
		if r.authorization != "" {
			t.Errorf("%s %s carried %q", r.method, r.path, r.authorization)
		}
	}
}

func TestBrokenEntry(t *testing.T) {
	s := newTLSServer(t, healthy)
	c, err := pullsecret.Parse([]byte(`{"auths":{"mirror.example.com":{"auth":"%%%"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	wantFact(t, probe(t, newTestClient(t, s, withCredentials(c)), tagged()), policy.Denied,
		`the entry "mirror.example.com" of the global pull secret, which is for mirror.example.com, has a field auth that is not base64; repair it`)
}

// A tokenServer grants tokens that are the scopes they are for.
type tokenServer struct {
	want    string // authorization, "" if anyone may
	honours int    // scopes of a token, 0 for all
	fetched atomic.Int32
}

func (ts *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ts.fetched.Add(1)
	if ts.want != "" && r.Header.Get("Authorization") != ts.want {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	scopes := r.URL.Query()["scope"]
	if ts.honours > 0 && len(scopes) > ts.honours {
		scopes = scopes[:ts.honours]
	}
	json.NewEncoder(w).Encode(map[string]any{"token": "t." + strings.Join(scopes, ","), "expires_in": 300}) //nolint:errcheck // the test would fail
}

// bearer serves manifests to those whose token is for the repository, and tokens
// itself, unless realm is elsewhere.
func bearer(realm func() string, tokens http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			tokens.ServeHTTP(w, r)
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer t.")
		repository, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
		if r.URL.Path == "/v2/" || !slices.Contains(strings.Split(token, ","), "repository:"+repository+":pull") {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="registry"`, realm()))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveManifest(w, r)
	}
}

func ownRealm() string { return "https://" + host + "/token" }

func TestBearer(t *testing.T) {
	tokens := &tokenServer{want: basic(canary)}
	s := newTLSServer(t, bearer(ownRealm, tokens))
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})))
	for range 3 {
		wantFact(t, probe(t, c, tagged()), policy.Present)
	}
	wantFact(t, probe(t, c, digested()), policy.Present)
	if n := tokens.fetched.Load(); n != 1 {
		t.Errorf("%d tokens for one repository, want 1", n)
	}
	for _, r := range s.requests() {
		if strings.Contains(r.authorization, "Basic") && r.path != "/token" {
			t.Errorf("the password went to %s", r.path)
		}
	}
	query, _ := url.ParseQuery(s.requests()[1].query)
	if query.Get("service") != "registry" || query.Get("account") != "user" {
		t.Errorf("token query = %v", query)
	}
}

func TestTokenDenied(t *testing.T) {
	s := newTLSServer(t, bearer(ownRealm, &tokenServer{want: basic("other:one")}))
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})))
	wantFact(t, probe(t, c, tagged()), policy.Denied, `mirror.example.com answers 401 to the entry "mirror.example.com" of the global pull secret`)
}

// TestTokensAreShared: one token for many repositories, or for each its own where
// the server honours only the first scope.
func TestTokensAreShared(t *testing.T) {
	var locs []mirrors.Location
	for i := range 120 {
		locs = append(locs, mirrors.Location{Ref: fmt.Sprintf("%s/app/%d:1", host, i)})
	}
	for _, tc := range []struct {
		honours, most int
	}{
		{0, 3},
		{1, 3 + 120},
	} {
		t.Run(fmt.Sprint("honours ", tc.honours), func(t *testing.T) {
			tokens := &tokenServer{honours: tc.honours}
			c := newTestClient(t, newTLSServer(t, bearer(ownRealm, tokens)))
			if !c.Prepare(t.Context(), locs) {
				t.Fatal("the registry does not answer")
			}
			for _, l := range locs {
				wantFact(t, probe(t, c, l), policy.Present)
			}
			if n := int(tokens.fetched.Load()); n > tc.most {
				t.Errorf("%d tokens, want at most %d", n, tc.most)
			}
		})
	}
}

func TestExpiredTokenIsRenewed(t *testing.T) {
	tokens := &tokenServer{}
	inner := bearer(ownRealm, tokens)
	var expired atomic.Bool
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "manifests") && expired.CompareAndSwap(true, false) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner(w, r)
	})
	c := newTestClient(t, s)
	wantFact(t, probe(t, c, tagged()), policy.Present)
	expired.Store(true)
	wantFact(t, probe(t, c, tagged()), policy.Present)
	if n := tokens.fetched.Load(); n != 2 {
		t.Errorf("%d tokens, want 2", n)
	}
}

// TestUnauthorizedForEver ends, and soon.
func TestUnauthorizedForEver(t *testing.T) {
	tokens := &tokenServer{}
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			tokens.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://mirror.example.com/token",error="insufficient_scope",scope="repository:x:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	wantFact(t, probe(t, newTestClient(t, s), tagged()), policy.Denied)
	if n := len(s.requests()); n > 7 {
		t.Errorf("%d requests", n)
	}
}

// TestRealms: where a token server may be, and what it is sent.
func TestRealms(t *testing.T) {
	insecure := tagged()
	insecure.Insecure = true
	entry := map[string]string{host: canary}
	for _, tc := range []struct {
		reason     string
		location   mirrors.Location
		plainRealm bool   // the token server elsewhere does not use TLS
		realm      string // "" for the server elsewhere
		want       policy.Presence
		sent       bool // the password reaches the server elsewhere
		detail     string
	}{
		{"elsewhere, by TLS, as the runtime does", tagged(), false, "https://auth.example.com/token", policy.Present, true, ""},
		{
			"elsewhere, in clear text", tagged(), true, "http://auth.example.com/token", policy.Unreachable, false,
			`mirror.example.com names a token server that does not use TLS ("auth.example.com"); nothing is sent there`,
		},
		{"elsewhere, by TLS, for an insecure location", insecure, false, "https://auth.example.com/token", policy.Present, true, ""},
		{
			"elsewhere, by TLS of somebody else, for an insecure location", insecure, false, "https://auth.test/token", policy.Unreachable, false,
			"certificate for another name",
		},
		{
			"elsewhere, in clear text, for an insecure location", insecure, true, "http://auth.example.com/token", policy.Unreachable, false,
			`mirror.example.com names a token server that does not use TLS ("auth.example.com"); credentials are not sent there`,
		},
		{
			"elsewhere, in clear text, with tokens for anybody that open nothing", insecure, true, "http://auth.example.com/useless", policy.Unreachable, false,
			`mirror.example.com names a token server that does not use TLS ("auth.example.com"); credentials are not sent there`,
		},
		{"no URL", tagged(), false, "auth.example.com", policy.Unreachable, false, "names no usable token server"},
		{"not http", tagged(), false, "file:///etc/passwd", policy.Unreachable, false, "names no usable token server"},
		{"with credentials of its own", tagged(), false, "https://a:b@auth.example.com/token", policy.Unreachable, false, "names no usable token server"},
		{
			"the metadata service", tagged(), false, "https://169.254.169.254/token", policy.Unreachable, false,
			"its token server 169.254.169.254 is not asked: 169.254.169.254 is a link-local address",
		},
		{"the registry itself, which has no tokens", tagged(), false, "https://mirror.example.com/v2/", policy.Denied, false, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			tokens := &tokenServer{want: basic(canary)}
			start := newTLSServer
			if tc.plainRealm {
				start = newPlainServer
			}
			elsewhere := start(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/useless" {
					fmt.Fprint(w, `{"token":"t.nothing"}`)
					return
				}
				tokens.ServeHTTP(w, r)
			})
			s := newTLSServer(t, bearer(func() string { return tc.realm }, tokens))
			c := newTestClient(t, s, withCredentials(credentials(t, entry)), func(o *clientOptions) {
				o.Resolve["auth.example.com"] = elsewhere.address()
				o.Resolve["auth.test"] = elsewhere.address()
			})
			wantFact(t, probe(t, c, tc.location), tc.want, tc.detail)
			sent := slices.ContainsFunc(elsewhere.requests(), func(r seen) bool { return r.authorization == basic(canary) })
			if sent != tc.sent {
				t.Errorf("password sent elsewhere: %v, want %v", sent, tc.sent)
			}
		})
	}
}

func TestClearTextCredentials(t *testing.T) {
	s := newPlainServer(t, challenged(`Basic realm="registry"`, basic(canary)))
	insecure := tagged()
	insecure.Insecure = true
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})))
	wantFact(t, probe(t, c, tagged()), policy.Unreachable)
	for _, r := range s.requests() {
		if r.authorization != "" {
			t.Errorf("a secure location sent %q in clear text", r.authorization)
		}
	}
	wantFact(t, probe(t, c, insecure), policy.Present)
}

func TestIdentityToken(t *testing.T) {
	c, err := pullsecret.Parse([]byte(`{"auths":{"mirror.example.com":{"auth":"dTpw","identitytoken":"canary"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for realm, want := range map[string]policy.Presence{"/token": policy.Present, "/elsewhere": policy.Unreachable} { // it goes no further
		s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/token" && r.Method == http.MethodPost && r.FormValue("refresh_token") == "canary" && r.FormValue("grant_type") == "refresh_token":
				fmt.Fprint(w, `{"access_token":"granted"}`)
			case r.URL.Path == "/elsewhere":
				http.Redirect(w, r, "/token", http.StatusTemporaryRedirect)
			case r.Header.Get("Authorization") == "Bearer granted":
				serveManifest(w, r)
			default:
				w.Header().Set("WWW-Authenticate", `Bearer realm="https://mirror.example.com`+realm+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		wantFact(t, probe(t, newTestClient(t, s, withCredentials(c)), tagged()), want)
		for _, r := range s.requests() {
			if strings.Contains(r.query, "canary") {
				t.Error("the token is in a URL")
			}
		}
	}
}

// TestWhatNodesIgnore: an entry by which other clients could pull, and nodes cannot,
// is as good as empty, and what is in it goes nowhere.
func TestWhatNodesIgnore(t *testing.T) {
	for _, tc := range []struct {
		reason, entry, challenge, opens string
	}{
		{"a user and a password in the clear", `{"username":"user","password":"canary"}`, "Basic", basic(canary)},
		{"a bearer token", `{"registrytoken":"canary"}`, `Bearer realm="https://mirror.example.com/token"`, "Bearer canary"},
		{"an identity token by itself", `{"identitytoken":"canary"}`, "Basic", basic(canary)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, challenged(tc.challenge, tc.opens))
			c, err := pullsecret.Parse([]byte(`{"auths":{"mirror.example.com":` + tc.entry + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			wantFact(t, probe(t, newTestClient(t, s, withCredentials(c)), tagged()), policy.Denied,
				`the entry "mirror.example.com" of the global pull secret is empty`)
			for _, r := range s.requests() {
				if r.authorization != "" || strings.Contains(r.query, "canary") {
					t.Errorf("%s %s?%s carried %q", r.method, r.path, r.query, r.authorization)
				}
			}
			if len(c.Problems()) != 1 {
				t.Errorf("problems: %q", c.Problems())
			}
		})
	}
}

// TestTokenServers that do not do what they should.
func TestTokenServers(t *testing.T) {
	useless := "mirror.example.com answers with something that is not a token; check the registry's authentication settings"
	for _, tc := range []struct {
		reason string
		status int
		body   string
		detail string
	}{
		{"not JSON", 200, "<html>", useless},
		{"no token", 200, "{}", useless},
		{"a token that is no header", 200, `{"token":"a\nb"}`, useless},
		{"huge", 200, `{"token":"` + strings.Repeat("x", 1<<20) + `"}`, useless},
		{"not found", 404, "", "mirror.example.com answers 404 Not Found"},
		{"not well", 503, "", "mirror.example.com is failing: it answers 503"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, bearer(ownRealm, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			})))
			got := probe(t, newTestClient(t, s), tagged())
			wantFact(t, got, policy.Unreachable, tc.detail)
			if got.Trouble == nil || got.Trouble.Server != "" {
				t.Errorf("it is the registry itself: %+v", got.Trouble)
			}
		})
	}
}

// TestRedirects are followed, without credentials to other servers.
func TestRedirects(t *testing.T) {
	other := newTLSServer(t, serveManifest)
	plain := newPlainServer(t, serveManifest)
	back := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://mirror.example.com/v2/app/web/manifests/1?again", http.StatusTemporaryRedirect)
	})
	for _, tc := range []struct {
		reason string
		to     string
		want   policy.Presence
		detail string
	}{
		{"to another host", "https://cdn.example.com/m", policy.Present, ""},
		{"to a subdomain", "https://cdn.mirror.example.com/m", policy.Unreachable, "certificate for another name"},
		{"to another port", "https://mirror.example.com:8443/m", policy.Present, ""},
		{"away and back", "https://back.example.com/m", policy.Unreachable, "mirror.example.com redirects more than 10 times"},
		{"to plain http", "http://plain.example.com/m", policy.Unreachable, "mirror.example.com redirects to plain http, which is not followed"},
		{"to something else", "ftp://cdn.example.com/m", policy.Unreachable, "mirror.example.com redirects to something that is not http"},
		{"with credentials in the URL", "https://a:b@cdn.example.com/m", policy.Unreachable, "redirects to a URL with credentials in it"},
		{"to the metadata service", "https://169.254.169.254/m", policy.Unreachable, "is a link-local address, which is never asked"},
		{"to loopback", "https://127.0.0.1:1/m", policy.Unreachable, "is a loopback address, which is never asked"},
		{"in a circle", "https://mirror.example.com/v2/app/web/manifests/1", policy.Unreachable, "mirror.example.com redirects more than 10 times"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					w.Header().Set("WWW-Authenticate", "Basic")
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				if r.URL.RawQuery == "again" && r.Header.Get("Authorization") != "" {
					t.Error("the password came back from another server")
				}
				http.Redirect(w, r, tc.to, http.StatusTemporaryRedirect)
			})
			c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})), func(o *clientOptions) {
				for _, name := range []string{"cdn.example.com", "cdn.mirror.example.com", "mirror.example.com:8443"} {
					o.Resolve[name] = other.address()
				}
				o.Resolve["back.example.com"] = back.address()
				o.Resolve["plain.example.com"] = plain.address()
			})
			wantFact(t, probe(t, c, tagged()), tc.want, tc.detail)
			if n := len(s.requests()); n > 1+2*(10+1) {
				t.Errorf("%d requests", n)
			}
		})
	}
	for _, r := range slices.Concat(other.requests(), plain.requests(), back.requests()) {
		if r.authorization != "" {
			t.Errorf("%s carried %q", r.path, r.authorization)
		}
	}
}

// TestRedirectToWhereCredentialsAreWanted: those of the server that redirects are for
// this server, whatever the path, and for no other.
func TestRedirectToWhereCredentialsAreWanted(t *testing.T) {
	const left = "redirects to %s, which answers 401; credentials are not sent along a redirect"
	for _, tc := range []struct {
		reason string
		to     string
		want   policy.Presence
		detail string
	}{
		{"the same server", "/moved", policy.Present, ""},
		{"the same server, with its port", "https://mirror.example.com:443/moved", policy.Present, ""},
		{"the same server twice", "/further", policy.Present, ""},
		{"another port", "https://mirror.example.com:8443/moved", policy.Unreachable, fmt.Sprintf(left, "mirror.example.com:8443")},
		{"another host", "https://cdn.example.com/moved", policy.Unreachable, fmt.Sprintf(left, "cdn.example.com")},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				known := r.Header.Get("Authorization") == basic(canary)
				switch {
				case r.URL.Path == "/moved" && known:
					serveManifest(w, r)
				case r.URL.Path == "/further":
					http.Redirect(w, r, "/moved", http.StatusFound)
				case r.URL.Path == "/v2/app/web/manifests/1":
					http.Redirect(w, r, tc.to, http.StatusFound)
				default:
					w.Header().Set("WWW-Authenticate", "Basic")
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
			c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})), func(o *clientOptions) {
				o.Resolve["mirror.example.com:8443"], o.Resolve["cdn.example.com"] = s.address(), s.address()
			})
			wantFact(t, probe(t, c, tagged()), tc.want, tc.detail)
		})
	}
}

// TestRedirectToClearText: an insecure location may be asked in clear text, and the
// password for its server by TLS does not go there.
func TestRedirectToClearText(t *testing.T) {
	plain := newPlainServer(t, challenged("Basic", basic(canary)))
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, "http://mirror.example.com/v2/app/web/manifests/1", http.StatusFound)
	})
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})), func(o *clientOptions) {
		o.Resolve = map[string]string{host + ":443": s.address(), host + ":80": plain.address()}
	})
	insecure := tagged()
	insecure.Insecure = true
	wantFact(t, probe(t, c, insecure), policy.Unreachable, "credentials are not sent along a redirect")
	for _, r := range plain.requests() {
		if r.authorization != "" {
			t.Errorf("%s carried %q in clear text", r.path, r.authorization)
		}
	}
}
