package registry

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestTraffic: what is counted for a registry is what it answered, and one that was not asked is not there. An
// answer to what is asked in order to know whether the registry is back does not count.
func TestTraffic(t *testing.T) {
	registry := newShop()
	registry.add("1", ociManifest, imageOf("{}", "layer"))
	answered := map[string]int{}
	s := newTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/slow"):
			answered["429"]++
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.Contains(r.URL.Path, "/sick"):
			answered["503"]++
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			registry.serve(w, r)
		}
	}))
	c := newTestClient(t, s)
	if got := c.Traffic(); len(got) != 0 {
		t.Errorf("before anything was asked: %+v", got)
	}
	store := newStore(c, presence.Options{})
	defer store.Close()
	store.Presence(t.Context(), locations(20, host+"/a%d:1"), policy.Freshness{})
	for _, name := range []string{"sick", "slow"} { // the last one is not asked again for a while
		store.Presence(t.Context(), locations(1, host+"/"+name+"%d:1"), policy.Freshness{})
	}
	got := c.Traffic()
	if len(got) != 1 || got[0].Host != host || got[0].Answered != 20 || got[0].Throttled != answered["429"] || got[0].Throttled == 0 || got[0].Overloaded == 0 || got[0].Overloaded > answered["503"] {
		t.Fatalf("of %v it says %+v", answered, got)
	}
	if one := got[0]; one.Unanswered != 0 || one.Usual <= 0 || one.Most != 64 || one.AtOnce < 1 || one.AtOnce > one.Most {
		t.Errorf("%+v", one)
	}
}
