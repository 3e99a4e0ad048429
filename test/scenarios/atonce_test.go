package scenarios

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// testAtOnce: of two changes that break each other, one is refused, although both are made
// at the same moment and neither finds the other among the objects in force.
func testAtOnce(t *testing.T, w *world) {
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			s := load(t, "10_conflicting_policies")
			s.Change, s.Before = append(s.Change, s.Before...), nil
			w.arrange(t, &s)
			outputs := make([]string, len(s.Change))
			var admitted, refused int
			var mu sync.Mutex
			var both sync.WaitGroup
			for i, object := range s.Change {
				both.Go(func() {
					out, err := w.cluster.Kubectl(t.Context(), object, "apply", "-f", "-")
					mu.Lock()
					defer mu.Unlock()
					switch outputs[i] = out; {
					case err == nil:
						admitted++
					case strings.Contains(out, "RejectedByMCO"):
						refused++
					}
				})
			}
			both.Wait()
			if admitted != 1 || refused != 1 {
				t.Errorf("%d admitted, %d refused, want one of each:\n%s", admitted, refused, strings.Join(outputs, "\n"))
			}
			t.Logf("judged together: %t", strings.Contains(strings.Join(outputs, ""), "admitted a moment ago"))
		})
	}
}
