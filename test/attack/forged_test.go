package attack

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

var printedCode = regexp.MustCompile(regexp.QuoteMeta(webhook.OverrideAnnotation) + `: \\?"([^:]+): <your reason>`)

// verdict sends the text of a review until there is a verdict on it, five times at most.
func (s stranger) verdict(t *testing.T, g *guard, text []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	for tries := 1; ; tries++ {
		_, answer := s.post(t.Context(), g, text, 15*time.Second)
		if decided := answer != nil && (answer.Result == nil || !strings.Contains(answer.Result.Message, "there is no verdict")); decided || tries == 5 {
			return answer
		}
		t.Logf("no verdict: %v", answer)
	}
}

// testForgedOverride: a stranger who says that an administrator overrides leaves no trace but in the
// log: no Event, no metric, and no change that others are judged with for longer than seconds.
func testForgedOverride(t *testing.T, s *stage) {
	g, stranger := s.guards[0], newStranger(t, 200)
	n := campaign.Times(1, 10)
	for i := range n {
		name := fmt.Sprint("forged-", i)
		bad := tagSet(name, "quay.io/shop/cart", "mirror.example.com/empty")
		refused := stranger.verdict(t, g, forged(t, "kubernetes-admin", bad))
		if refused == nil || refused.Allowed {
			t.Fatalf("the set is bad: %v", refused)
		}
		code := printedCode.FindStringSubmatch(refused.Result.Message)
		if code == nil {
			t.Fatalf("no code in %s", refused.Result.Message)
		}
		with := strings.Replace(bad, "metadata: {", fmt.Sprintf("metadata: {annotations: {%s: %q}, ", webhook.OverrideAnnotation, code[1]+": it is Friday"), 1)
		answer := stranger.verdict(t, g, forged(t, "kubernetes-admin", with))
		t.Logf("the answer to a forged override: %v", answer != nil && answer.Allowed)
	}
	g.Eventually(t, "they are given up", func() bool {
		return g.Value("mirrorset_guard_overrides_total", "unconfirmed") > 0
	})
	if used := g.Value("mirrorset_guard_overrides_total", "used"); used != 0 {
		t.Errorf("%v overrides count as used", used)
	}
	events, err := s.kube.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, e := range events.Items {
		if e.Reason == "Overridden" {
			t.Errorf("an Event says: %s", e.Note)
		}
	}
}

// introduce makes changes until one was seen in force that the API server had asked
// about, as in any cluster where somebody has made changes.
func (s *stage) introduce(t *testing.T) {
	t.Helper()
	alice, hand := s.as(t, "alice"), s.as(t, stageHand)
	for i := range 2 * len(s.guards) {
		set := tagSet(fmt.Sprint("known-", i), fmt.Sprintf("known-%d.example.com", i), "mirror.example.com/x")
		insist(t, func() error { return alice.create(t.Context(), set) })
		defer func() { must(t, hand.remove(t.Context(), set)) }()
	}
	leases := s.leases(t)
	s.guards[0].Eventually(t, "the API server is known", func() bool {
		lease, err := leases.Get(t.Context(), recent.LeaseName, metav1.GetOptions{})
		return err == nil && lease.Annotations["mirrorset-guard.io/known-senders"] != ""
	})
}

// testFlood: strangers who have changes of a source admitted that never come keep others' changes of
// it out for seconds at most, and others' changes of other sources not at all.
func testFlood(t *testing.T, s *stage) {
	s.introduce(t)
	for _, attack := range []struct {
		what      string
		strangers int
		every     time.Duration
	}{
		{"two a second from one pod", 1, 500 * time.Millisecond},
		{"sixteen pods, all the time", 16, time.Millisecond},
	} {
		t.Run(attack.what, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var sent, admitted atomic.Int64
			var attacking sync.WaitGroup
			for i := range attack.strangers {
				attacking.Go(func() {
					stranger := newStranger(t, 300+attack.strangers*16+i)
					for n := 0; ctx.Err() == nil; n++ {
						text := forged(t, "mallory", tagSet(fmt.Sprintf("c-%d-%d", i, n), "victim.example.com", "mirror.example.com/x", never))
						_, answer := stranger.post(ctx, s.guards[n%len(s.guards)], text, 15*time.Second)
						if sent.Add(1); answer != nil && answer.Allowed {
							admitted.Add(1)
						}
						select {
						case <-time.After(attack.every):
						case <-ctx.Done():
						}
					}
				})
			}
			time.Sleep(2 * time.Second) // it is under way
			alice, hand := s.as(t, "alice"), s.as(t, stageHand)
			victim, refused := new(sample), 0
			if err := alice.dryRun(ctx, tagSet("victim", "victim.example.com", "mirror.example.com/x")); err != nil && !isUndecided(err) {
				t.Errorf("a dry run: %v", err)
			}
			before := ""
			for i := range campaign.Times(3, 20) {
				set := tagSet(fmt.Sprint("victim-", i), "victim.example.com", "mirror.example.com/x")
				start := time.Now()
				err := verdict(t, func() error { return alice.create(t.Context(), set) })
				victim.add(time.Since(start), nil)
				if first := victim.at(1); i == 0 && campaign.On() && attack.strangers == 1 && first > 3*time.Second {
					t.Errorf("the first change is answered after %s", first)
				}
				if err != nil {
					t.Log(err)
					refused++
					continue
				}
				if before != "" {
					insist(t, func() error { return hand.remove(t.Context(), before) })
				}
				before = set
			}
			if before != "" {
				insist(t, func() error { return hand.remove(t.Context(), before) })
			}
			short, end := context.WithTimeout(ctx, time.Duration(campaign.Times(3, 15))*time.Second)
			defer end()
			others := s.others(short, t, "alice")
			cancel()
			attacking.Wait()
			t.Logf("%d sent, %d admitted; changes of that source: refused %d of %s; others: %s", sent.Load(), admitted.Load(), refused, victim, others)
			if most := campaign.Times(1, 0); refused > most { // few are no measure
				t.Errorf("%d changes of the source were refused", refused)
			}
			if err := others.failed(); err != nil {
				t.Errorf("others: %v", err)
			}
		})
	}
}
