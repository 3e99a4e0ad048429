package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		name, timeout string
		want          time.Duration
	}{
		{"ours", "15s", 13500 * time.Millisecond},
		{"the longest there is", "30s", 28500 * time.Millisecond},
		{"longer than there is", "24h", 28500 * time.Millisecond},
		{"longer than a duration", "9999999999h", 8500 * time.Millisecond},
		{"missing: the default of the API", "", 8500 * time.Millisecond},
		{"garbage", "soon", 8500 * time.Millisecond},
		{"no unit", "15", 8500 * time.Millisecond},
		{"nothing", "0s", 8500 * time.Millisecond},
		{"negative", "-5s", 8500 * time.Millisecond},
		{"two seconds may be little more than one", "2s", 500 * time.Millisecond},
		{"one second may be next to nothing", "1s", 500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := budget(tc.timeout); got != tc.want {
				t.Errorf("budget(%q) = %s, want %s", tc.timeout, got, tc.want)
			}
		})
	}
}

// The API server rounds up: what it announces as t may be all but a second less.
func TestBudgetKeepsMoreThanASecond(t *testing.T) {
	for s := 2; s <= 30; s++ {
		announced := time.Duration(s) * time.Second
		if left := announced - budget(announced.String()); left <= time.Second {
			t.Errorf("of %s announced, only %s are kept back", announced, left)
		}
	}
}

func TestWithDeadlineEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := withDeadline(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path+"?timeout=15s", nil))
		if took := time.Since(start); took != 13500*time.Millisecond {
			t.Errorf("the context ended after %s, want 13.5s", took)
		}
	})
}
