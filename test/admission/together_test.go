package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// A changer makes changes as alice, faster than kubectl.
type changer struct{ client dynamic.Interface }

func (s *stage) changer(t *testing.T) changer {
	t.Helper()
	config := rest.CopyConfig(s.cluster.Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.Impersonate.UserName = "alice"
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return changer{client}
}

// create creates the object of text, and tries again where there is no verdict: on a machine that is short of time the deadline
// of a review may pass, and the guard says so.
func (c changer) create(ctx context.Context, text string) error {
	err := c.try(ctx, text)
	for start := time.Now(); isUndecided(err) && time.Since(start) < process.Patience; {
		err = c.try(ctx, text)
	}
	return err
}

// try creates the object of text.
func (c changer) try(ctx context.Context, text string) error {
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: strings.ToLower(o.GetKind()) + "s"}
	_, err := c.client.Resource(resource).Create(ctx, &o, metav1.CreateOptions{})
	return err
}

// rivals are two objects of which MCO takes either, and not both.
func rivals(first, second, source string) [2]string {
	return [2]string{
		fmt.Sprintf("{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: %s}, spec: {imageDigestMirrors: [{source: %s, mirrors: [mirror.example.com/empty]}]}}", first, source),
		fmt.Sprintf("{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: %s}, spec: {imageTagMirrors: [{source: %s, mirrors: [mirror.example.com/empty], mirrorSourcePolicy: NeverContactSource}]}}", second, source),
	}
}

// testRaces: of two changes that break each other, one is admitted and one refused, although
// each goes to another replica at the same moment.
func testRaces(t *testing.T, s *stage) {
	c := s.changer(t)
	together := 0
	count := campaign.Times(40, 400)
	for n := range count {
		var errs [2]error
		var both sync.WaitGroup
		delay := time.Duration(rand.IntN(20)) * time.Millisecond
		name := fmt.Sprint("race-", n)
		for i, text := range rivals(name, name, name+".example.com") {
			both.Go(func() {
				if i == 1 && n%2 == 1 {
					time.Sleep(delay) // so that one comes in the middle of the other
				}
				errs[i] = c.create(t.Context(), text)
			})
		}
		both.Wait()
		admitted := 0
		for _, err := range errs {
			switch {
			case err == nil:
				admitted++
			case !strings.Contains(err.Error(), "RejectedByMCO"):
				t.Errorf("race %d: %v", n, err)
			case strings.Contains(err.Error(), "admitted a moment ago"):
				together++
			}
		}
		if admitted != 1 {
			t.Fatalf("race %d: %d admitted, want one: %v", n, admitted, errs)
		}
	}
	t.Logf("%d races, in %d of which the second was judged with a change that was not stored yet", count, together)
}

// otherTimeout is how long the other webhook may take while the guard is to find out how long it
// may take: the least there is.
const otherTimeout = time.Second

// testRefusedByAnother: a change that the guard has admitted and another webhook refused keeps
// those that conflict with it waiting no longer than it could still be stored, and no others. Then
// they are admitted.
func testRefusedByAnother(t *testing.T, s *stage) {
	s.stage(t, "", "patch", "validatingwebhookconfiguration", "other", "--type=json", "-p",
		fmt.Sprintf(`[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": %d}]`, int(otherTimeout.Seconds())))
	c := s.changer(t)
	waited := false
	for n := 0; !waited; n++ {
		pair := rivals(fmt.Sprint("refused-", n), fmt.Sprint("after-", n), fmt.Sprintf("refused-%d.example.com", n))
		if err := c.create(t.Context(), pair[0]); err == nil || !strings.Contains(err.Error(), "other.example.com") {
			t.Fatalf("the other webhook refuses it: %v", err)
		}
		unrelated := make(chan error)
		go func() {
			name := fmt.Sprint("unrelated-", n)
			unrelated <- c.create(t.Context(), tagSet(name, name+".example.com", ""))
		}()
		start := time.Now()
		err := c.try(t.Context(), pair[1])
		took := time.Since(start)
		must(t, <-unrelated)
		if isUndecided(err) {
			continue
		}
		// Where the machine is so busy that its time is up before, it is refused.
		if err != nil && !strings.Contains(err.Error(), "admitted a moment ago") {
			t.Fatal(err)
		}
		if waited = err == nil && took > otherTimeout; waited {
			t.Logf("it waited for %s, beside another webhook with a timeout of %s", took.Round(10*time.Millisecond), otherTimeout)
		}
		if took >= recent.MaxStoringTime {
			t.Errorf("kept out for %s, as long as if nothing were known of other webhooks", took)
		}
	}
}

// testManyAtOnce: a GitOps tool applies thirty objects at once, and all go through. How long that
// takes is reported beside the same by a guard that is alone. On a machine that is short of time
// some get no verdict before their deadline; a tool tries these again.
func testManyAtOnce(t *testing.T, s *stage) {
	c := s.changer(t)
	for _, who := range []string{"alone", "shared"} {
		const n = 30
		took := make([]time.Duration, n)
		var all sync.WaitGroup
		start := time.Now()
		for i := range n {
			all.Go(func() {
				name := fmt.Sprintf("%s-many-%d", who, i)
				if err := c.create(t.Context(), tagSet(name, name+".example.com", "")); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				took[i] = time.Since(start)
			})
		}
		all.Wait()
		slices.Sort(took)
		t.Logf("%d objects at once, %s: half after %s, all after %s", n, who, took[n/2].Round(time.Millisecond), took[n-1].Round(time.Millisecond))
	}
}

// isUndecided reports whether err says that there was no verdict in time.
func isUndecided(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "there is no verdict") || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

// testLatency reports what sharing costs a change, beside the same by a guard that is alone.
// Times are not asserted: the machine may be busy.
func testLatency(t *testing.T, s *stage) {
	c := s.changer(t)
	took := map[string][]time.Duration{}
	for i := range 30 {
		for _, who := range []string{"alone", "shared"} {
			start := time.Now()
			must(t, c.create(t.Context(), tagSet(fmt.Sprintf("%s-%d", who, i), fmt.Sprintf("%s-%d.example.com", who, i), "")))
			took[who] = append(took[who], time.Since(start))
		}
	}
	median := func(who string) time.Duration {
		slices.Sort(took[who])
		return took[who][len(took[who])/2].Round(100 * time.Microsecond)
	}
	alone, shared := median("alone"), median("shared")
	t.Logf("a creation takes %s with one guard that is alone, %s with two that share: %s more (medians of 30, one after the other)", alone, shared, shared-alone)
}

// testMissingRight: guards that were upgraded without their new rights go on, and say so. These have
// shared before, so that they wait until nothing can come any more of what others have admitted.
func testMissingRight(t *testing.T, s *stage) {
	for _, g := range s.guards[:2] {
		if _, got := g.Readyz(); strings.Contains(got, "not judged together") {
			t.Errorf("before: %s", got)
		}
	}
	s.stage(t, "", "delete", "rolebinding", "mirrorset-guard-lease", "-n", "mirrorset-guard")
	must(t, cluster.AwaitRefusal(t.Context(), s.cluster.Config, process.User, leaseRight()))
	c := s.changer(t)
	for i := range 5 { // of each replica the first get no verdict
		must(t, c.create(t.Context(), tagSet(fmt.Sprint("upgrade-", i), fmt.Sprintf("upgrade-%d.example.com", i), "")))
	}
	for _, g := range s.guards[:2] {
		if _, got := g.Readyz(); !strings.HasPrefix(got, "ok") || !strings.Contains(got, "note: changes made at the same moment through different replicas are not judged together") || !strings.Contains(got, "mirrorset-guard-recent") {
			t.Errorf("/readyz says %s", got)
		}
	}
}
