package wire

import (
	"net/http"
	"testing"
	"time"
)

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://a/token",service="x",scope="repository:a:pull"`)
	f.Add(`Basic`)
	f.Add(`Bearer realm="a\"b`)
	f.Fuzz(func(_ *testing.T, s string) {
		h := http.Header{"Www-Authenticate": {s}}
		chooseChallenge(h)
		wantedScope(h)
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("30")
	f.Add("Wed, 21 Oct 2015 07:28:00 GMT")
	f.Fuzz(func(t *testing.T, s string) {
		if d := retryAfter(http.Header{"Retry-After": {s}}, time.Now()); d < 0 || d > maxRetryAfter {
			t.Errorf("%q: %v", s, d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"1":                             time.Second,
		" 30 ":                          30 * time.Second,
		"-1":                            0,
		"soon":                          0,
		"99999999999999":                0,
		"4294967295":                    maxRetryAfter,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT": 0,
		"Fri, 02 Jan 2036 03:04:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestParseChallenge(t *testing.T) {
	for header, want := range map[string]challenge{
		`Bearer realm="https://a/t",service="s"`: {"bearer", "https://a/t", "s"},
		`bearer  realm="a" , SERVICE=s`:          {"bearer", "a", "s"},
		`Bearer realm="a\"b"`:                    {"bearer", `a"b`, ""},
		`Bearer realm="unfinished`:               {"bearer", "", ""},
		`Basic`:                                  {"basic", "", ""},
		`Negotiate`:                              {},
		``:                                       {},
		`=,=`:                                    {},
		`Bearer error="insufficient_scope",realm=x,`: {"bearer", "x", ""},
	} {
		if got := chooseChallenge(http.Header{"Www-Authenticate": {header}}); got != want {
			t.Errorf("%q: %+v", header, got)
		}
	}
	got := chooseChallenge(http.Header{"Www-Authenticate": {"Negotiate", `Bearer realm="a"`, "Basic"}})
	if got.scheme != "bearer" {
		t.Errorf("chose %+v", got)
	}
}
