package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

func testStage(t *testing.T, images int) *stage {
	t.Helper()
	registries.Need(t)
	s, err := newStage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := s.fill(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRequests: the Store asks a real registry no more often than the floor does, and
// not at all for what it knows. Times are only for the table: they depend on the machine.
func TestRequests(t *testing.T) {
	const images = 505
	s := testStage(t, images)
	want := map[string]int64{ // 51 repositories: two tokens
		"floor: net/http, HTTP/2":   1 + 2 + images,
		"Store, cold":               1 + 2 + images,
		"Store, warm":               0,
		"ggcr remote.Head for each": 3 * images,
		"ggcr shared Puller":        2*51 + images,
	}
	for _, c := range contenders(0) {
		requests, ok := want[c.name]
		if !ok {
			continue
		}
		r, err := s.measure(t.Context(), c, images)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if r.requests != requests {
			t.Errorf("%s: %d requests, want %d", c.name, r.requests, requests)
		}
	}
}

// TestMissing: no contender takes a registry that lacks an image for one that has it.
func TestMissing(t *testing.T) {
	s := testStage(t, 20)
	s.images[7].repository = "team0/gone"
	for _, c := range contenders(20) {
		_, err := s.measure(t.Context(), c, len(s.images))
		if err == nil {
			t.Errorf("%s has found an image that is not there", c.name)
		}
	}
}

// TestThrottled: below Quay's published limits nothing is refused.
func TestThrottled(t *testing.T) {
	s := testStage(t, 300)
	for _, c := range contenders(0) {
		if !c.limits || c.sample > 0 {
			continue
		}
		r, err := s.measure(t.Context(), c, 300)
		if err != nil || r.refused > 5 {
			t.Errorf("%s: %d answers 429, %v", c.name, r.refused, err)
		}
	}
}

func TestScale(t *testing.T) {
	r := result{took: time.Second, requests: 70, connections: 10, refused: 2}
	if got := r.scale(20, 20); got != r {
		t.Errorf("got %+v, want it as it was", got)
	}
	want := result{took: 100 * time.Second, requests: 7000, connections: 1000, refused: 200, scaled: true}
	if got := r.scale(2000, 20); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]result{{took: 9}, {took: 1}, {took: 2}}); got.took != 2 {
		t.Errorf("got %v, want 2", got.took)
	}
}

// TestRun runs the program the way make does.
func TestRun(t *testing.T) {
	registries.Need(t)
	var out, errs bytes.Buffer
	if code := run([]string{"-images", "20,30", "-delays", "0s", "-tools", "1"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	for _, line := range []string{"floor: net/http", "Store, cold", "Store, warm", "ggcr remote.Head", "ggcr shared Puller"} {
		if strings.Count(out.String(), line) < 2 {
			t.Errorf("no two rows of %q in\n%s", line, &out)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-images", "many"}, {"-delays", "-1s"}, {"-images", ""}, {"-unknown"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 2 || errs.Len() == 0 || out.Len() != 0 {
			t.Errorf("%q: exit %d, said %q", args, code, &errs)
		}
	}
}

// TestInterrupted: the program ends when it is interrupted.
func TestInterrupted(t *testing.T) {
	registries.Need(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := options{images: []int{10}, delays: []time.Duration{0}}
	if err := o.run(ctx, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
		t.Error("it went on")
	}
}
