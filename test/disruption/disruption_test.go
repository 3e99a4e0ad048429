package disruption

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
)

// quick is enough for a lag of half a second to do harm. A run by hand has what the deployment
// has, and a lag that only a large and busy cluster has.
var (
	quick  = timings{drain: time.Second, lag: 500 * time.Millisecond}
	inFull = timings{drain: 5 * time.Second, lag: 4 * time.Second}
)

func TestNeverInTheWay(t *testing.T) {
	n, with := campaign.Times(1, 10), quick
	if campaign.On() {
		with = inFull
	}
	s := newStage(t)
	t.Run("disruptions", func(t *testing.T) { s.testDisruptions(t, n, with) })
	t.Run("cold starts", func(t *testing.T) { s.testColdStarts(t, with) })
}

// testDisruptions: 50 changes a second are made while replicas are restarted, drained and given
// new certificates, and each gets the guard's verdict.
func (s *stage) testDisruptions(t *testing.T, n int, with timings) {
	t.Helper()
	var pods []*pod
	for range 2 {
		pods = append(pods, s.start(t, s.secret.Dir, with))
	}
	for _, p := range pods {
		s.join(t, p)
	}
	load.AwaitGuarded(t, s.api)
	for round := range n {
		what := func(name string) string { return fmt.Sprintf("round %d, %s of %d replicas", round+1, name, len(pods)) }
		load.Under(t, s.api, what("rolling restart"), func() { pods = s.restart(t, pods, with) })
		load.Under(t, s.api, what("certificate rotation"), func() { s.rotate(t, pods) })
		s.testBadCertificate(t, pods, with)

		pods = append(pods, s.start(t, s.secret.Dir, with))
		s.join(t, pods[2])
		load.Under(t, s.api, what("node drain"), func() { pods = s.drain(t, pods, with) })
		load.Under(t, s.api, what("rolling restart"), func() { pods = s.restart(t, pods, with) })
		load.Under(t, s.api, what("certificate rotation"), func() { s.rotate(t, pods) })
		s.delete(t, pods[2], with)
		pods = pods[:2]
	}
	for _, p := range pods {
		s.delete(t, p, with)
	}
}

// restart replaces the pods as a Deployment with maxUnavailable 0 and maxSurge 1 does.
func (s *stage) restart(t *testing.T, pods []*pod, with timings) []*pod {
	t.Helper()
	fresh := make([]*pod, len(pods))
	for i, old := range pods {
		fresh[i] = s.start(t, s.secret.Dir, with)
		s.join(t, fresh[i])
		s.delete(t, old, with)
		if s.guard.connections(old.listen) == 0 {
			t.Errorf("%s was never used", old.name)
		}
	}
	return fresh
}

// drain evicts the pods one at a time, as their budget with maxUnavailable 1 demands: the next
// goes when a new one is ready.
func (s *stage) drain(t *testing.T, pods []*pod, with timings) []*pod {
	t.Helper()
	fresh := make([]*pod, len(pods))
	for i, old := range pods {
		s.delete(t, old, with)
		fresh[i] = s.start(t, s.secret.Dir, with)
		s.join(t, fresh[i])
	}
	return fresh
}

// rotate replaces the CA and the certificate as the service CA does: first both CAs are
// trusted, then the kubelet brings the new pair, by way of one that is half written, and at
// last only the new CA is trusted.
func (s *stage) rotate(t *testing.T, pods []*pod) {
	t.Helper()
	pair, ca := s.issue(t)
	s.configure(t, slices.Concat(s.ca, ca))
	torn, err := s.secret.AddTorn(pair, s.pair)
	if err != nil {
		t.Fatal(err)
	}
	s.use(t, torn)
	for _, p := range pods {
		s.awaitNote(t, p, "an earlier serving certificate is in use: reading the serving certificate: ")
	}
	s.use(t, pair)
	for _, p := range pods {
		p.awaitCertificate(t, ca)
	}
	s.configure(t, ca)
	s.pair, s.ca = pair, ca
	for _, p := range pods {
		load.Await(t, p.name+" has nothing to say", func(ctx context.Context) error {
			answer, err := p.probe(ctx)
			if err == nil && strings.Contains(answer, "certificate") {
				return fmt.Errorf("it says %s", answer)
			}
			return err
		})
	}
}

func (s *stage) use(t *testing.T, pair string) {
	t.Helper()
	if err := s.secret.Use(pair); err != nil {
		t.Fatal(err)
	}
}

// awaitNote waits until a pod that stays ready says so.
func (s *stage) awaitNote(t *testing.T, p *pod, words string) {
	t.Helper()
	load.Await(t, p.name+": "+words, func(ctx context.Context) error {
		answer, err := p.probe(ctx)
		if err == nil && !strings.Contains(answer, words) {
			return fmt.Errorf("it says %s", answer)
		}
		return err
	})
}

// awaitCertificate waits until a pod has a certificate of the CA.
func (p *pod) awaitCertificate(t *testing.T, ca []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	load.Await(t, p.name+" has the new certificate", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: serviceHost}}
		conn, err := dialer.DialContext(ctx, "tcp", p.listen)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// testBadCertificate: a new replica whose certificate the API server does not accept never
// joins the Service, so that a rolling update to it stops; and a replica that gets one leaves
// the Service. The others go on without a failure.
func (s *stage) testBadCertificate(t *testing.T, pods []*pod, with timings) {
	t.Helper()
	bad, err := certificates.Mount(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, _, err := bad.Add([]string{serviceHost}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Use(pair); err != nil {
		t.Fatal(err)
	}
	const words = "the API server does not accept the serving certificate for webhook mirrorsets.mirrorset-guard.io: x509: certificate signed by unknown authority"
	load.Under(t, s.api, "update to a bad certificate", func() {
		p := s.start(t, bad.Dir, with)
		load.Await(t, "the new replica says why it is not ready", func(ctx context.Context) error {
			if answer, err := p.probe(ctx); err == nil || !strings.Contains(answer, words) {
				return fmt.Errorf("it says %q, %w", answer, err)
			}
			return nil
		})
		s.delete(t, p, with)
	})
	for _, p := range pods {
		if _, err := p.probe(t.Context()); err != nil {
			t.Errorf("%s is no longer ready: %v", p.name, err)
		}
	}
}
