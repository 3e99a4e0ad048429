package attack

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// slower is how much longer a change may take than before, as a part of that.
const slower = .05

// TestLatency compares how long a change takes with how long it took the program that the
// environment names, by turns, each with a cluster of its own.
func TestLatency(t *testing.T) {
	before := os.Getenv("BEFORE")
	if before == "" {
		t.Log("BEFORE names no program to compare with")
		return
	}
	old, now := newStage(t), newStage(t)
	old.binary = before
	stages := []*stage{old, now}
	for _, s := range stages {
		s.startGuards(t, 2)
	}
	for _, kind := range []struct {
		what string
		do   func(u user, text string) error
	}{
		{"a creation", func(u user, text string) error { return u.create(t.Context(), text) }},
		{"a dry run", func(u user, text string) error { return u.dryRun(t.Context(), text) }},
	} {
		const kept = 10 // a guard is to see that they come
		var took [2]sample
		var made [2][]string
		for n := range 20 + campaign.Times(50, 500) {
			for turn := range stages {
				i := (n + turn) % 2
				text := tagSet(fmt.Sprint("latency-", n), fmt.Sprintf("latency-%d.example.com", n), "mirror.example.com/x")
				// What a review reads may have to wait in the API server until its caches have seen the last write, a tenth of
				// a second at most, which has nothing to do with the program. Here they have.
				must(t, stages[i].as(t, "alice").dryRun(t.Context(), text))
				start := time.Now()
				err := kind.do(stages[i].as(t, "alice"), text)
				if n >= 20 { // it is warm
					took[i].add(time.Since(start), err)
				}
				must(t, err)
				if kind.what != "a creation" {
					continue
				}
				if made[i] = append(made[i], text); len(made[i]) > kept {
					must(t, stages[i].as(t, stageHand).remove(t.Context(), made[i][0]))
					made[i] = made[i][1:]
				}
			}
		}
		for i, rest := range made {
			for _, text := range rest {
				must(t, stages[i].as(t, stageHand).remove(t.Context(), text))
			}
		}
		ratio := float64(took[1].at(.5)) / float64(took[0].at(.5))
		t.Logf("%s before: %s; now: %s; medians as 1 to %.3f", kind.what, &took[0], &took[1], ratio)
		if ratio > 1+slower {
			t.Errorf("%s takes %.0f %% longer than before", kind.what, 100*(ratio-1))
		}
	}
}
