package environment

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestServerClock: times are those of the API server, whatever this machine has.
func TestServerClock(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
		}))
		var clock ServerClock
		response, err := (&http.Client{Transport: clock.Wrap(http.DefaultTransport)}).Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		server.Close()
		if got := time.Until(clock.Now()); (got - off).Abs() > time.Minute {
			t.Errorf("off by %v: got %v", off, got)
		}
		clock.set("garbage")
	}
}
