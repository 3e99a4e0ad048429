package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

func TestSurveyFlag(t *testing.T) {
	o := serveOptions{surveyEvery: time.Millisecond}
	const want = "--survey-every 1ms: want 1s or more"
	if err := o.validate(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStandingFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "facts")
	if err := os.WriteFile(file, []byte("damaged is no mistake of the flag"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		factFile string
		standing standingFlags
		want     string
	}{
		{"nothing", "", standingFlags{}, ""},
		{"a file that is there", file, standingFlags{}, ""},
		{"a file that is not", filepath.Join(dir, "other"), standingFlags{}, ""},
		{"a folder", dir, standingFlags{}, `--fact-file "` + dir + `": exists and is not a regular file`},
		{"no folder", dir + "/none/facts", standingFlags{}, `--fact-file "` + dir + `/none/facts": there is no folder ` + dir + "/none"},
		{"backwards", "", standingFlags{every: -time.Minute}, "--verify-every -1m0s: must not be negative; 0 is for never"},
		{"nowhere", "", standingFlags{elect: true}, `--leader-elect-namespace "": the Lease needs a namespace`},
		{"nowhere, and not needed", "", standingFlags{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := serveOptions{registries: registryFlags{factFile: tt.factFile}, standing: tt.standing}
			got := ""
			if err := o.validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestKeepForNextTry: what a change that was refused rests on is looked up again while
// somebody may be mending it, and no longer.
func TestKeepForNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int64
		store := presence.NewStore(presence.ProberFunc(func(context.Context, mirrors.Location) policy.Fact {
			probes.Add(1)
			return policy.Fact{Presence: policy.Absent, AsNodes: true}
		}), presence.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- store.Run(ctx) }()

		k := newKeeper()
		kept := make(chan struct{})
		go func() {
			k.run(ctx, store.Keep)
			close(kept)
		}()
		k.add(review.Record{Subject: "ImageTagMirrorSet apps", Asked: []mirrors.Location{{Ref: "mirror.example.com/app:1"}}})
		time.Sleep(nextTry)
		synctest.Wait()
		during := probes.Load()
		time.Sleep(time.Hour)
		if after := probes.Load() - during; during < 10 || after > 0 {
			t.Errorf("%d probes within %s and %d afterwards, want about one a minute and none", during, nextTry, after)
		}
		cancel()
		<-kept
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestKeepingHoldsNoAnswerUp: whatever is kept takes its time after the answer, and not before it.
func TestKeepingHoldsNoAnswerUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, start := newKeeper(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			k.run(ctx, func(string, []mirrors.Location, time.Duration) { time.Sleep(time.Minute) })
			close(ended)
		}()
		for range 2 * maxToKeep {
			k.add(review.Record{Subject: "ImageTagMirrorSet apps"})
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("answers wait for %s", took)
		}
		cancel()
		<-ended
	})
}
