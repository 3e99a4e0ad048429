package rollout

import (
	"slices"
	"testing"
	"time"
)

func TestLearnedDrain(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// ended returns updates to one config that ended so many minutes after start.
	ended := func(config string, minutes ...int) []NodeUpdate {
		var updates []NodeUpdate
		for _, m := range minutes {
			updates = append(updates, NodeUpdate{Pool: "worker", Config: config, Drained: true, Ended: start.Add(time.Duration(m) * time.Minute)})
		}
		return updates
	}
	timed := func(began, ended int) NodeUpdate {
		return NodeUpdate{
			Pool: "worker", Config: "rendered-2", Drained: true,
			Began: start.Add(time.Duration(began) * time.Minute), Ended: start.Add(time.Duration(ended) * time.Minute),
		}
	}
	reload := ended("rendered-3", 100, 101, 102, 103)
	for i := range reload {
		reload[i].Drained = false
	}
	other := ended("rendered-2", 41, 42, 43, 44)
	for i := range other {
		other[i].Pool = "infra"
	}
	steady := []int{0}
	for i := range 19 {
		steady = append(steady, 6*(i+1))
	}
	late := append(slices.Clone(steady), 6*19+600) // somebody had to help
	minutes := func(least, most int) Range {
		return Range{time.Duration(least) * time.Minute, time.Duration(most) * time.Minute}
	}
	for _, tt := range []struct {
		reason  string
		updates []NodeUpdate
		atOnce  int
		want    Range
	}{
		{"nothing is known", nil, 1, Range{}},
		{"one at a time: from one end to the next", ended("rendered-2", 0, 6, 14, 21), 1, minutes(6, 8)},
		{"in any order", ended("rendered-2", 21, 0, 14, 6), 1, minutes(6, 8)},
		{"two at a time: from an end to the second next", ended("rendered-2", 0, 1, 6, 8, 14), 2, minutes(6, 8)},
		{"too few", ended("rendered-2", 0, 6, 14), 1, Range{}},
		{"as many at once as there are", ended("rendered-2", 0, 6, 14, 21), 4, Range{}},
		{"none at once", ended("rendered-2", 0, 6, 14, 21), 0, Range{}},
		{"an older rollout does not count", append(ended("rendered-1", 0, 60, 120, 180), ended("rendered-2", 200, 206, 214, 221)...), 1, minutes(6, 8)},
		{"nor does one without drains, or another pool", slices.Concat(reload, other, ended("rendered-2", 0, 6, 14, 21)), 1, minutes(6, 8)},
		{"one node that took ten hours is an exception", ended("rendered-2", late...), 1, minutes(6, 6)},
		{"what is under way has no end", append(ended("rendered-2", 0, 6, 14, 21), NodeUpdate{Pool: "worker", Config: "rendered-2", Drained: true, Began: start}), 1, minutes(6, 8)},
		{"beginnings that are known", []NodeUpdate{timed(0, 5), timed(10, 16), timed(20, 27)}, 1, minutes(5, 7)},
		{"clocks that are off", []NodeUpdate{timed(0, 5), timed(10, 16), timed(20, 27), timed(60, 40)}, 1, minutes(5, 7)},
		{"ends of the same moment", ended("rendered-2", 0, 0, 0, 0, 0), 1, Range{}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			before := slices.Clone(tt.updates)
			got, ok := LearnedDrain(tt.updates, "worker", tt.atOnce)
			if got != tt.want || ok != (tt.want != Range{}) {
				t.Errorf("got %v, %t, want %v", got, ok, tt.want)
			}
			if !slices.Equal(before, tt.updates) {
				t.Error("the updates are not as they were")
			}
		})
	}
}
