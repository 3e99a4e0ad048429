package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// registerSlow registers another webhook, which takes its time over objects whose name begins with
// "race": they are stored a while after the guard has admitted them.
func (s *stage) registerSlow(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		time.Sleep(rand.N(250 * time.Millisecond)) // as a webhook does that is slow
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server may have gone
	}))
	t.Cleanup(server.Close)
	s.hand(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slow}
webhooks:
- name: slow.example.com
  timeoutSeconds: 5
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: %q, caBundle: %s}
  rules: [{operations: [CREATE, DELETE], apiGroups: ["*"], apiVersions: ["*"], resources: [imagetagmirrorsets]}]
  matchConditions: [{name: by-name, expression: "request.name.startsWith('race') && request.userInfo.username != '%s'"}]
`, server.URL, base64.StdEncoding.EncodeToString(certificateOf(server)), stageHand), "create", "-f", "-")
	t.Cleanup(func() {
		out, err := s.cluster.Kubectl(context.WithoutCancel(t.Context()), "", "delete", "validatingwebhookconfiguration", "slow")
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// A race is what came of races between two changes that break each other.
type race struct{ both, one, none, undecided int }

func (r race) String() string {
	return fmt.Sprintf("both %d, one %d, none %d (of these without a verdict %d)", r.both, r.one, r.none, r.undecided)
}

// mirrored is how many images there are of which a race may take a mirror away.
const mirrored = 32

// mirror has images in use that their source has, and a mirror.
func (s *stage) mirror(t *testing.T) {
	t.Helper()
	template := corev1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}}
	template.Name, template.Namespace = "mirrored", "shop"
	for i := range mirrored {
		s.front.PushImage(t, fmt.Sprintf("quay.io/race/app-%d:v1", i), "tag")
		s.front.PushImage(t, fmt.Sprintf("mirror.example.com/good/app-%d:v1", i), "tag")
		template.Template.Spec.Containers = append(template.Template.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: fmt.Sprintf("quay.io/race/app-%d:v1", i)})
	}
	text, err := json.Marshal(template)
	must(t, err)
	s.hand(t, string(text), "create", "-f", "-")
	t.Cleanup(func() {
		out, err := s.cluster.Kubectl(context.WithoutCancel(t.Context()), "", "delete", "podtemplate", "mirrored", "-n", "shop")
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, g := range s.guards {
		g.Eventually(t, "it knows of the images", func() bool { return g.Value("mirrorset_guard_inventory_images", "") > mirrored })
	}
}

// pair returns two changes that break each other, as users make them, and the objects that they are about. Of
// every other pair, one takes an object away, and the other needs its mirror.
func (s *stage) pair(t *testing.T, name string, n int) (changes [2]func(context.Context, string) error, texts [2]string) {
	t.Helper()
	alice := s.as(t, "alice")
	if n%2 == 0 || n/2 >= mirrored {
		return [2]func(context.Context, string) error{alice.create, alice.create}, [2]string{
			tagSet(name+"-a", name+".example.com", "mirror.example.com/empty"),
			tagSet(name+"-b", name+".example.com", "mirror.example.com/empty", never),
		}
	}
	source := fmt.Sprint("quay.io/race/app-", n/2)
	texts = [2]string{tagSet(name+"-a", source, fmt.Sprint("mirror.example.com/good/app-", n/2)), tagSet(name+"-b", source, "mirror.example.com/empty")}
	must(t, s.as(t, stageHand).create(t.Context(), texts[0]))
	return [2]func(context.Context, string) error{alice.remove, alice.create}, texts
}

// races makes pairs of changes that break each other at the same moment, as long as more wants.
func (s *stage) races(t *testing.T, prefix string, more func(n int) bool) (r race) {
	hand := s.as(t, stageHand)
	var made []string
	defer func() {
		for _, text := range made {
			if err := hand.remove(t.Context(), text); !apierrors.IsNotFound(err) {
				must(t, err)
			}
		}
	}()
	for n := 0; more(n); n++ {
		name := fmt.Sprintf("race-%s-%d", prefix, n)
		changes, texts := s.pair(t, name, n)
		made = append(made, texts[:]...)
		var errs [2]error
		var all sync.WaitGroup
		for i, text := range texts {
			all.Go(func() {
				time.Sleep(rand.N(20 * time.Millisecond)) // so that one comes in the middle of the other
				errs[i] = changes[i](t.Context(), text)
			})
		}
		all.Wait()
		admitted, undecided := 0, false
		for i, err := range errs {
			switch {
			case err == nil:
				admitted++
			case isUndecided(err):
				undecided = true
			case !strings.Contains(err.Error(), "is refused"):
				t.Errorf("%s: %d: %v", name, i, err)
			}
		}
		switch admitted {
		case 2:
			r.both++
		case 1:
			r.one++
		default:
			if r.none++; undecided {
				r.undecided++
			}
		}
	}
	return r
}

// isUndecided reports whether a change was not made for lack of time, or of what a verdict takes.
func isUndecided(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "there is no verdict") || apierrors.IsInternalError(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err))
}

// leases returns the Leases, for whoever may do anything to them.
func (s *stage) leases(t *testing.T) clientcoordinationv1.LeaseInterface {
	t.Helper()
	config := rest.CopyConfig(s.cluster.Config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)
	return kube.CoordinationV1().Leases(webhook.Namespace)
}

// annotate writes the list of the Lease.
func annotate(ctx context.Context, leases clientcoordinationv1.LeaseInterface, list string) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"mirrorset-guard.io/recent": list}}})
	if err != nil {
		return err
	}
	_, err = leases.Patch(ctx, recent.LeaseName, types.MergePatchType, text, metav1.PatchOptions{FieldManager: "attacker"})
	return err
}

func packed(t *testing.T, list string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(list))
	must(t, err)
	must(t, w.Close())
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// testLease: whatever somebody does to the Lease all the while, of two changes that break each other
// never both are admitted.
func testLease(t *testing.T, s *stage) {
	s.registerSlow(t)
	s.mirror(t)
	leases := s.leases(t)
	for _, attack := range []struct {
		what  string
		every time.Duration
		do    func(context.Context) error
	}{
		{"undisturbed", time.Hour, nil},
		{"deleted ten times a second", 100 * time.Millisecond, func(ctx context.Context) error {
			return leases.Delete(ctx, recent.LeaseName, metav1.DeleteOptions{})
		}},
		{"deleted all the time", time.Millisecond, func(ctx context.Context) error {
			return leases.Delete(ctx, recent.LeaseName, metav1.DeleteOptions{})
		}},
		{"emptied all the time", time.Millisecond, func(ctx context.Context) error { return annotate(ctx, leases, "") }},
		{"garbage every 200 ms", 200 * time.Millisecond, func(ctx context.Context) error { return annotate(ctx, leases, fmt.Sprint("garbage", rand.Int())) }},
	} {
		t.Run(attack.what, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var done atomic.Int64
			var attacking sync.WaitGroup
			if attack.do != nil {
				attacking.Go(func() {
					ticker := time.NewTicker(attack.every)
					defer ticker.Stop()
					for ctx.Err() == nil {
						if attack.do(ctx) == nil {
							done.Add(1)
						}
						select {
						case <-ticker.C:
						case <-ctx.Done():
						}
					}
				})
			}
			start := time.Now()
			got := s.races(t, strings.ReplaceAll(attack.what, " ", "-"), func(n int) bool { return n < campaign.Times(5, 60) })
			took := time.Since(start)
			cancel()
			attacking.Wait()
			t.Logf("%s in %s, while it was done %d times", got, took.Round(time.Second), done.Load())
			if got.both > 0 {
				t.Errorf("both were admitted %d times", got.both)
			}
		})
	}
	s.guards[0].Eventually(t, "it is told", func() bool {
		_, notes := s.guards[0].Readyz()
		return strings.Contains(notes, "note: Lease mirrorset-guard-recent, in which replicas share the changes that they admit, was disturbed")
	})
}

// testLeaseContents: what nobody can read in the Lease keeps no deletion out, and changes for a
// bounded time, once.
func testLeaseContents(t *testing.T, s *stage) {
	leases, alice, hand := s.leases(t), s.as(t, "alice"), s.as(t, stageHand)
	bomb := packed(t, "["+strings.Repeat(" ", 40<<20)+"]")
	var foreign []string
	for i := range 300 {
		foreign = append(foreign, fmt.Sprintf(`{"v":1,"id":"foreign-%d","by":"x","edit":[{"do":"put","object":{"kind":"ImageTagMirrorSet","apiVersion":"config.openshift.io/v1","metadata":{"name":"foreign-%[1]d"},"spec":{"imageTagMirrors":[{"source":"contents.example.com","mirrors":["mirror.example.com/x"],"mirrorSourcePolicy":"NeverContactSource"}]}}}]}`, i))
	}
	for _, attack := range []struct{ what, list string }{
		{"garbage", "garbage"},
		{"a later version", packed(t, `[{"v":2,"id":"later","by":"mirrorset-guard-later","edit":[{"do":"dance"}]}]`)},
		{"a bomb of 40 MiB", bomb},
		{"300 that no replica wrote", packed(t, "["+strings.Join(foreign, ",")+"]")},
		{"many entries", packed(t, "["+strings.Repeat("[],", 1<<20)+"[]]")},
	} {
		t.Run(attack.what, func(t *testing.T) {
			resident := watch(t, s.guards...)
			set := tagSet("contents", "contents.example.com", "mirror.example.com/x")
			must(t, hand.create(t.Context(), set))
			must(t, annotate(t.Context(), leases, attack.list))
			start := time.Now()
			insist(t, func() error { return alice.remove(t.Context(), set) })
			deleted := time.Since(start)
			start = time.Now()
			tries, err := 1, alice.create(t.Context(), set)
			for ; isUndecided(err) && tries < 10; tries++ {
				err = alice.create(t.Context(), set)
			}
			must(t, err)
			t.Logf("a deletion took %s, a creation %s in %d tries; up to %d MiB resident", deleted.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), tries, resident.read())
			must(t, hand.remove(t.Context(), set))
			list := annotationOf(t, leases)
			if kept := strings.Contains(unpacked(t, list), `"id":"later"`); kept != (attack.what == "a later version") {
				t.Errorf("the list holds the later version's: %t", kept)
			}
		})
	}
}

func annotationOf(t *testing.T, leases clientcoordinationv1.LeaseInterface) string {
	t.Helper()
	lease, err := leases.Get(t.Context(), recent.LeaseName, metav1.GetOptions{})
	must(t, err)
	return lease.Annotations["mirrorset-guard.io/recent"]
}

func unpacked(t *testing.T, list string) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(list)
	if err != nil {
		return list
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return list
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	must(t, err)
	return b.String()
}

// testRightsLost: guards that lose the right to the Lease while they run give no verdict as long as
// another may hold a change that conflicts; then they go on alone, and say so.
func testRightsLost(t *testing.T, s *stage) {
	s.registerSlow(t)
	s.mirror(t)
	s.hand(t, "", "delete", "rolebinding", "mirrorset-guard-lease", "-n", webhook.Namespace)
	lost := time.Now()
	must(t, cluster.AwaitRefusal(t.Context(), s.cluster.Config, process.User, leaseRight("update")))
	// A race that begins later may have its verdicts when guards decide alone, and have both. On a
	// machine that has other things to do, some seconds pass before a guard is asked.
	const begins = recent.MaxStoringTime - webhook.TimeoutSeconds*time.Second - 8*time.Second
	got := s.races(t, "lost", func(int) bool { return time.Since(lost) < begins })
	t.Logf("races that began in the first %s: %s", begins, got)
	if got.both > 0 {
		t.Errorf("both were admitted %d times", got.both)
	}
	alice, hand := s.as(t, "alice"), s.as(t, stageHand)
	set := tagSet("after", "after.example.com", "mirror.example.com/x")
	s.guards[0].Eventually(t, "a change is admitted", func() bool { return alice.create(t.Context(), set) == nil })
	t.Logf("a change is admitted again after %s", time.Since(lost).Round(time.Second))
	must(t, hand.remove(t.Context(), set))
	for _, g := range s.guards {
		g.Eventually(t, "it says so", func() bool {
			_, notes := g.Readyz()
			return strings.Contains(notes, "are not judged together") && g.Value("mirrorset_guard_recent_edits_shared", "") == 0
		})
	}
}
