package standing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// TestTellsWhatChanges: each change once, and nothing while nothing changes.
func TestTellsWhatChanges(t *testing.T) {
	w := newWorld(20)
	verifyNow(t, w, func(t *testing.T) {
		want(t, "all is well", w.wait(time.Hour), "")
		w.lose(3, 17, true)
		want(t, "lost", w.wait(5*time.Minute), "apps MirrorLostImage 14")
		want(t, "still lost", w.wait(2*time.Hour), "")
		w.lose(3, 5, false)
		want(t, "some are back", w.wait(5*time.Minute), "apps MirrorRecovered 2")
		w.lose(0, 20, false)
		w.lose(0, 1, true)
		want(t, "others are back, and one is lost", w.wait(5*time.Minute), "apps MirrorLostImage 1, apps MirrorRecovered 12")
		want(t, "nothing more", w.wait(2*time.Hour), "")
	})
	if len(w.logged) != 4 {
		t.Errorf("logged %d lines, want one for each change:\n%s", len(w.logged), strings.Join(w.logged, "\n"))
	}
}

// TestBaseline: what is lost at the start is told once, what is fine is not.
func TestBaseline(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	verifyNow(t, w, func(t *testing.T) {
		want(t, "start", w.wait(5*time.Minute), "apps MirrorLostImage 2")
		want(t, "afterwards", w.wait(2*time.Hour), "")
	})
}

// TestNoAnswerIsNoNews: a registry that is down, throttles or was not asked neither
// loses images nor gives them back.
func TestNoAnswerIsNoNews(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	verifyNow(t, w, func(t *testing.T) {
		want(t, "start", w.wait(5*time.Minute), "apps MirrorLostImage 2")
		w.change(func() { w.sick = policy.Unreachable })
		want(t, "down", w.wait(2*time.Hour), "")
		w.lose(0, 2, false)
		want(t, "nobody can tell", w.wait(2*time.Hour), "")
		w.change(func() { w.sick = policy.Unknown })
		want(t, "up", w.wait(5*time.Minute), "apps MirrorRecovered 2")
	})
}

// TestOneMissIsNoLoss: an image that is there again in the next round was not lost.
func TestOneMissIsNoLoss(t *testing.T) {
	w := newWorld(3)
	verifyNow(t, w, func(t *testing.T) {
		for range 100 {
			w.wait(10 * time.Minute)
			var before int
			w.change(func() { before = w.asked })
			w.lose(0, 1, true)
			for w.changed(before) == 0 { // until a round has seen it
				time.Sleep(time.Second)
			}
			w.lose(0, 1, false)
		}
		want(t, "misses", w.wait(time.Hour), "")
	})
}

func (w *world) changed(before int) (n int) {
	w.change(func() { n = w.asked - before })
	return n
}

// TestFlap: a mirror that has its images for some minutes, and then not, is
// told of a few times an hour.
func TestFlap(t *testing.T) {
	w := newWorld(5)
	verifyNow(t, w, func(t *testing.T) {
		n := 0
		for i := range 12 * 60 / 4 {
			w.lose(0, 5, i%2 == 0)
			if told := w.wait(4 * time.Minute); told != "" {
				n += len(strings.Split(told, ", "))
			}
		}
		if most := watchloop.Burst + 12*6 + 1; n < 12 || n > most {
			t.Errorf("told %d times in half a day, want at most %d", n, most)
		}
	})
}

// TestManyObjects: what many objects have to tell is spread over rounds, and nothing is
// left out.
func TestManyObjects(t *testing.T) {
	w := newWorld(0)
	w.set.Objects = nil
	for i := range 3 * watchloop.MaxAtOnce {
		repo := fmt.Sprintf("/app%03d", i)
		w.set.Objects = append(w.set.Objects, tagSet(fmt.Sprintf("set%02d", i), "quay.io"+repo, configv1.ImageMirror("mirror.example.com"+repo)))
		w.images = append(w.images, image("quay.io"+repo+":1"))
	}
	w.lose(0, 3*watchloop.MaxAtOnce, true)
	verifyNow(t, w, func(t *testing.T) {
		most := 0
		told := map[string]int{}
		for range 600 {
			reports := strings.Split(w.wait(time.Second), ", ")
			most = max(most, len(reports))
			for _, r := range reports {
				if r != "" {
					told[r]++
				}
			}
		}
		if len(told) != 3*watchloop.MaxAtOnce || most > watchloop.MaxAtOnce {
			t.Errorf("told of %d objects, at most %d at a time, want %d and %d", len(told), most, 3*watchloop.MaxAtOnce, watchloop.MaxAtOnce)
		}
		for report, n := range told {
			if n != 1 {
				t.Errorf("told %d times: %s", n, report)
			}
		}
	})
}

// TestWhatIsGoneIsForgotten: an object that is deleted, or an image that nobody uses any
// more, has neither lost nor recovered anything.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	verifyNow(t, w, func(t *testing.T) {
		want(t, "start", w.wait(5*time.Minute), "apps MirrorLostImage 2")
		w.change(func() { w.images = w.images[1:] })
		want(t, "an image less", w.wait(time.Hour), "")
		objects := w.set.Objects
		w.change(func() { w.set.Objects = nil })
		want(t, "an object less", w.wait(time.Hour), "")
		w.change(func() { w.set.Objects = objects })
		want(t, "the object is back", w.wait(5*time.Minute), "apps MirrorLostImage 1")
	})
}

// TestTellsAgainWhatWasNotHeard: a report that fails is made later, not too often.
func TestTellsAgainWhatWasNotHeard(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	w.deaf = errors.New("events is forbidden")
	verifyNow(t, w, func(t *testing.T) {
		want(t, "deaf", w.wait(2*time.Hour), "")
		w.change(func() { w.deaf = nil })
		want(t, "listens", w.wait(15*time.Minute), "apps MirrorLostImage 2")
		w.change(func() {
			if most := watchloop.Burst + 2*6 + 2; len(w.logged) > most {
				t.Errorf("logged %d lines in two hours, want at most %d", len(w.logged), most)
			}
		})
	})
}

// TestBrokenAPIServer: a round that fails changes nothing.
func TestBrokenAPIServer(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	verifyNow(t, w, func(t *testing.T) {
		want(t, "start", w.wait(5*time.Minute), "apps MirrorLostImage 2")
		w.change(func() { w.broken = errors.New("connection refused") })
		want(t, "down", w.wait(time.Hour), "")
		w.change(func() { w.broken = nil })
		want(t, "up", w.wait(time.Hour), "")
	})
	if got := value(t, w, "mirrorset_guard_standing_rounds_total", "failed"); got < 30 {
		t.Errorf("%v rounds failed in an hour, want about 60", got)
	}
}

// TestPanic: a fault in a round is the end of the round and of nothing else.
func TestPanic(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	verifyNow(t, w, func(t *testing.T) {
		objects := w.set.Objects
		w.change(func() { w.set.Objects = []mirrors.Object{(*configv1.ImageTagMirrorSet)(nil)} })
		w.wait(time.Hour)
		w.change(func() { w.set.Objects = objects })
		want(t, "later", w.wait(5*time.Minute), "apps MirrorLostImage 2")
	})
	if !slices.ContainsFunc(w.logged, func(line string) bool { return strings.Contains(line, "panic: ") }) {
		t.Error("nobody learns of the panic")
	}
}

// TestAsksLittle: what is held is not asked for by the Verifier, only kept; what is lost
// is asked for in each round, up to a bound.
func TestAsksLittle(t *testing.T) {
	w := newWorld(300)
	verifyNow(t, w, func(t *testing.T) {
		w.wait(30 * time.Minute)
		w.change(func() {
			if w.asked != 0 || len(w.kept) != 300 {
				t.Errorf("asked for %d locations and kept %d, want 0 and 300", w.asked, len(w.kept))
			}
		})
		w.lose(0, 300, true)
		want(t, "lost", w.wait(30*time.Minute), "apps MirrorLostImage 300")
		w.change(func() {
			if most := 32 * 4 / 3 * 2 * 256; w.asked > most { // at the mirror and at the source
				t.Errorf("asked for %d locations in half an hour, want at most %d", w.asked, most)
			}
			if len(w.kept) != 600 { // their sources too: a remedy may name them
				t.Errorf("kept %d locations, want 600", len(w.kept))
			}
		})
	})
}

// TestKeepsInFollowers: a replica that does not lead keeps facts and reports nothing.
func TestKeepsInFollowers(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	synctest.Test(t, func(t *testing.T) {
		v, err := New(Options{Reviewer: review.Reviewer{Inventory: w}, Store: w, Outlet: watchloop.Outlet{Reporter: w.Report, Budget: watchloop.NewBudget()}, Metrics: w.metrics})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go v.Keep(ctx)
		want(t, "follower", w.wait(time.Hour), "")
		cancel()
		synctest.Wait()
	})
	if len(w.kept) != 22 || w.asked != 0 {
		t.Errorf("kept %d locations and asked for %d, want 22 and 0", len(w.kept), w.asked)
	}
	if got := value(t, w, "mirrorset_guard_standing_facts", "absent"); got != 2 {
		t.Errorf("%v facts are absent, want 2", got)
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(20)
	w.lose(0, 2, true)
	verifyNow(t, w, func(t *testing.T) {
		w.wait(5 * time.Minute)
		for _, tt := range []struct {
			name, label string
			want        float64
		}{
			{"mirrorset_guard_standing_findings", "ImageMissing", 2},
			{"mirrorset_guard_standing_findings", "RejectedByMCO", 0},
			{"mirrorset_guard_standing_images", "held", 18},
			{"mirrorset_guard_standing_images", "lost", 2},
			{"mirrorset_guard_standing_images", "unverified", 0},
			{"mirrorset_guard_standing_facts", "present", 20}, // 18 mirrors and the sources of the others
			{"mirrorset_guard_standing_verifying", "", 1},
		} {
			if got := value(t, w, tt.name, tt.label); got != tt.want {
				t.Errorf("%s %s is %v, want %v", tt.name, tt.label, got, tt.want)
			}
		}
		if got := value(t, w, "mirrorset_guard_standing_oldest_fact_age_seconds", ""); got < 60 {
			t.Errorf("the oldest fact is %v s old, want 60 or more", got)
		}
	})
	if got := value(t, w, "mirrorset_guard_standing_findings", "ImageMissing"); got != -1 {
		t.Errorf("findings are still exported when nobody verifies: %v", got)
	}
}

// value returns that of a metric with a label, -1 if there is none.
func value(t *testing.T, w *world, name, label string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (label == "" || m.Label[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func TestNotes(t *testing.T) {
	w := newWorld(20)
	var notes []string
	verifyNow(t, w, func(t *testing.T) {
		note := func() {
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			w.change(func() {
				for _, r := range w.told {
					notes = append(notes, r.Note)
				}
				w.told = nil
			})
		}
		w.lose(0, 1, true)
		note()
		w.lose(0, 1, false)
		note()
		w.lose(5, 10, true)
		note()
		w.lose(5, 10, false)
		note()
	})
	want := []string{
		"1 image cannot be pulled from its mirrors (ImageMissing): quay.io/app000:1, used by Deployment shop/cart (app): " +
			"mirror.example.com/app000:1: mirror.example.com answers 404; quay.io/app000:1: found",
		"1 image is back at its mirror: quay.io/app000:1 at mirror.example.com/app000:1",
		"5 images cannot be pulled from their mirrors (ImageMissing 5): quay.io/app005:1, used by Deployment shop/cart (app): " +
			"mirror.example.com/app005:1: mirror.example.com answers 404; quay.io/app005:1: found. Also quay.io/app006:1, quay.io/app007:1 and 2 more",
		"5 images are back at their mirrors: quay.io/app005:1 at mirror.example.com/app005:1. Also quay.io/app006:1, quay.io/app007:1 and 2 more",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
	}
}
