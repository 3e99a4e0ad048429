package rollouts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// TestLedger: what each pool does is told, whatever others do.
func TestLedger(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// Words are "gpu:stalls", "infra:moves", "infra:done", and "infra:next" for one that is to have
	// something else.
	pools := func(words string) (all []progress.Pool) {
		for _, word := range strings.Fields(words) {
			name, state, _ := strings.Cut(word, ":")
			p := progress.Pool{Pool: &status.Pool{Pool: rollout.Pool{Name: name}, Target: "2"}, Active: state != "done", Counts: progress.Counts{progress.Done: 3}}
			switch state {
			case "stalls":
				p.Stall = &progress.Stall{Since: now.Add(-20 * time.Minute), Cause: "it is so"}
				fallthrough
			case "moves":
				p.Changes = &rollout.Changes{Registries: []rollout.RegistryChange{{Scope: "quay.io/shop"}}}
				p.Counts = progress.Counts{progress.Done: 1, progress.Waiting: 2}
			case "next":
				p.Target, p.Counts = "3", progress.Counts{progress.Waiting: 3}
			}
			all = append(all, p)
		}
		return all
	}
	l := newLedger()
	for i, step := range []struct{ pools, want string }{
		{"gpu:moves infra:moves", "Began: pool gpu gets 2: registries.conf for quay.io/shop; a node , 0 at a time; pool infra gets 2: registries.conf for quay.io/shop; a node , 0 at a time"},
		{"gpu:stalls infra:moves", "Stalled: pool gpu has not moved for 20m: it is so"},
		{"gpu:stalls infra:moves", ""},
		{"gpu:stalls infra:stalls", "Stalled: pool infra has not moved for 20m: it is so"},
		{"gpu:stalls infra:moves", "Resumed: pool infra moves again: 0 of 0 nodes are done"},
		{"gpu:stalls infra:stalls", "Stalled: pool infra has not moved for 20m: it is so"},
		{"gpu:stalls infra:done", "Resumed: pool infra has 2 on 3 of 3 nodes"},
		{"gpu:done infra:next", "Ended: after 0s, pool gpu has 2 on 3 of 3 nodes; pool infra goes on to 3, in which nothing of this is new to its 3 nodes"},
		{"gpu:done infra:next", ""},
	} {
		seen := pools(step.pools)
		l.record(shopSet(), mirrorPools(seen), now)
		got := ""
		for _, a := range l.accounts {
			if news, ok := a.news(seen, now); ok {
				got += fmt.Sprintf("%s: %s", strings.TrimPrefix(news.Reason, "MirrorRollout"), news.Note)
				news.Done()
			}
		}
		if got != step.want {
			t.Errorf("%d, %s: got %q, want %q", i, step.pools, got, step.want)
		}
	}
}
