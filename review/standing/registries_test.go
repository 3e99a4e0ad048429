package standing

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// TestReachability: a registry is unreachable if it is so for every image, and sources are
// none of the registries that count.
func TestReachability(t *testing.T) {
	w := newWorld(2)
	w.set.Objects = append(w.set.Objects, tagSet("tools", "docker.io", "tools.example.com"))
	w.images = append(w.images, image("docker.io/library/tool:1"))
	record, err := (&review.Reviewer{Inventory: w, Registries: w}).Standing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(host string, presences ...policy.Presence) {
		for l, f := range record.Facts {
			if l.Host() == host && len(presences) > 0 {
				f.Presence, presences = presences[0], presences[1:]
			}
		}
	}
	for _, tt := range []struct {
		reason string
		first  []policy.Presence
		want   map[string]bool
	}{
		{"all is well", []policy.Presence{policy.Present, policy.Present}, map[string]bool{"mirror.example.com": true, "tools.example.com": true}},
		{"no image is an answer too", []policy.Presence{policy.Absent, policy.Unreachable}, map[string]bool{"mirror.example.com": true, "tools.example.com": true}},
		{"so is no right", []policy.Presence{policy.Denied, policy.Denied}, map[string]bool{"mirror.example.com": true, "tools.example.com": true}},
		{"dead", []policy.Presence{policy.Unreachable, policy.Unreachable}, map[string]bool{"mirror.example.com": false, "tools.example.com": true}},
		{"dead, as far as is known", []policy.Presence{policy.Unreachable, policy.Unknown}, map[string]bool{"mirror.example.com": false, "tools.example.com": true}},
		{"nothing is known", []policy.Presence{policy.Unknown, policy.Unknown}, map[string]bool{"tools.example.com": true}},
	} {
		at("mirror.example.com", tt.first...)
		at("quay.io", policy.Unreachable, policy.Unreachable)
		if got := reachability(record); !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.reason, got, tt.want)
		}
	}
}

// TestRegistriesAreCountedAndNamed: the metric counts them in every replica, and the log names
// each once when it falls silent and once when it is back.
func TestRegistriesAreCountedAndNamed(t *testing.T) {
	w := newWorld(3)
	synctest.Test(t, func(t *testing.T) {
		v, err := New(Options{
			Reviewer: review.Reviewer{Inventory: w}, Store: w, Outlet: watchloop.Outlet{Reporter: w.Report, Budget: watchloop.NewBudget()}, Metrics: w.metrics,
			Log: funcr.New(func(_, args string) { w.change(func() { w.logged = append(w.logged, args) }) }, funcr.Options{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go v.Keep(ctx)
		for _, tt := range []struct {
			presence               policy.Presence
			reachable, unreachable float64
			logged                 string
		}{
			{policy.Present, 1, 0, ""},
			{policy.Unreachable, 0, 1, `"A registry that is a mirror does not answer" "registry"="mirror.example.com"`},
			{policy.Denied, 1, 0, `"A registry that is a mirror answers again" "registry"="mirror.example.com"`},
		} {
			w.change(func() { w.sick, w.logged = tt.presence, nil })
			w.wait(10 * time.Minute)
			const name = "mirrorset_guard_standing_registries"
			if up, down := value(t, w, name, "reachable"), value(t, w, name, "unreachable"); up != tt.reachable || down != tt.unreachable {
				t.Errorf("%v: %v and %v registries, want %v and %v", tt.presence, up, down, tt.reachable, tt.unreachable)
			}
			w.change(func() {
				if got := strings.Join(w.logged, "; "); !strings.HasSuffix(got, tt.logged) || strings.Count(got, "registry") > 2 || tt.logged == "" && got != "" {
					t.Errorf("%v: logged %q, want %q once", tt.presence, got, tt.logged)
				}
			})
		}
		cancel()
		synctest.Wait()
	})
}
