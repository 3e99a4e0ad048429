package certs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const serviceHost = "mirrorset-guard.mirrorset-guard.svc"

func byService(name string, bundle []byte) Webhook {
	return Webhook{Name: name, Host: serviceHost, CABundle: bundle}
}

// What the API server would say of the certificate, and whether that is beyond doubt.
func TestVerify(t *testing.T) {
	dir, ca := folder(t)
	_, otherCA := folder(t)
	pair := load(t, dir).current()
	const unknownAuthority = "x509: certificate signed by unknown authority"
	for _, tt := range []struct {
		reason  string
		webhook Webhook
		after   time.Duration
		want    string // the beginning; "" if it is accepted
		proven  bool
	}{
		{"its CA", byService("w", ca), 0, "", false},
		{"its CA among others, as while a CA is replaced", byService("w", slices.Concat(otherCA, ca)), 0, "", false},
		{"an address of the certificate", Webhook{Name: "w", Host: "127.0.0.1", CABundle: ca, ByURL: true}, 0, "", false},
		{"an IPv6 address of the certificate", Webhook{Name: "w", Host: "::1", CABundle: ca, ByURL: true}, 0, "", false},
		{"another CA", byService("w", otherCA), 0, unknownAuthority, true},
		{"another CA, by URL: something may be in between", Webhook{Name: "w", Host: "127.0.0.1", CABundle: otherCA, ByURL: true}, 0, unknownAuthority, false},
		{"another name", Webhook{Name: "w", Host: "guard.other.svc", CABundle: ca}, 0, "x509: certificate is valid for " + serviceHost + ", not guard.other.svc", true},
		{"no name at all", Webhook{Name: "w", CABundle: ca, ByURL: true}, 0, "", false}, // not judged by name: such a URL is not accepted
		{"nobody has filled in the bundle", byService("w", nil), 0, "its caBundle is empty: x509: ", false},
		{"a placeholder", byService("w", []byte("\n")), 0, "its caBundle holds no certificate", false},
		{"expired: a matter of clocks", byService("w", ca), 2 * time.Hour, "x509: certificate has expired or is not yet valid: ", false},
		{"not valid yet", byService("w", ca), -2 * time.Hour, "x509: certificate has expired or is not yet valid: ", false},
	} {
		r := tt.webhook.verify(pair, time.Now().Add(tt.after))
		got := ""
		if r != nil {
			got = r.Err.Error()
		}
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") || r != nil && r.Proven != tt.proven {
			t.Errorf("%s: got %v, want %q, proven %t", tt.reason, r, tt.want, tt.proven)
		}
	}
}

// A replica leaves the Service only for what is proved, for all webhooks, and lasts.
func TestVerificationReady(t *testing.T) {
	dir, ca := folder(t)
	_, other := folder(t)
	reloader := load(t, dir)
	placeholder := []byte("\n")
	for _, tt := range []struct {
		reason   string
		webhooks []Webhook
		ready    bool
	}{
		{"accepted", []Webhook{byService("a", ca), byService("b", ca)}, true},
		{"not known", nil, true},
		{"rejected", []Webhook{byService("a", other), byService("b", other)}, false},
		{"one of two accepts it", []Webhook{byService("a", other), byService("b", ca)}, true},
		{"one of two is not filled in yet", []Webhook{byService("a", other), byService("b", placeholder)}, true},
	} {
		v := NewVerification(reloader, func() []Webhook { return tt.webhooks })
		if err := v.Ready(); (err == nil) != tt.ready {
			t.Errorf("%s: got %v", tt.reason, err)
		}
	}
}

// While the CA is replaced, the certificate is rejected for seconds. A replica that stays for
// that is back at once.
func TestVerificationGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ca := folder(t)
		_, other := folder(t)
		bundle := ca
		v := NewVerification(load(t, dir), func() []Webhook { return []Webhook{byService("w", bundle)} })
		probe := func(what string, ready bool) {
			t.Helper()
			if err := v.Ready(); (err == nil) != ready {
				t.Errorf("%s: got %v", what, err)
			}
		}
		probe("accepted", true)
		bundle = other
		time.Sleep(grace - time.Nanosecond)
		probe("rejected for a moment", true)
		time.Sleep(time.Nanosecond)
		probe("rejected for long", false)
		bundle = ca
		probe("accepted again", true)
		bundle = other
		probe("rejected again", true)
		time.Sleep(grace)
		probe("rejected again for long", false)
	})
}

func TestVerificationNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ca := folder(t)
		other, otherCA := folder(t)
		bundle := ca
		reloader := load(t, dir)
		v := NewVerification(reloader, func() []Webhook { return []Webhook{byService("w", bundle)} })
		expect := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, v.Notes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		expect()
		copyFile(t, other, dir, KeyFile)
		_, _ = reloader.Reload() // the error is in the notes
		expect("an earlier serving certificate is in use: reading the serving certificate: tls.crt and tls.key in " + dir + ": tls: private key does not match public key")
		copyFile(t, other, dir, CertFile)
		if _, err := reloader.Reload(); err != nil {
			t.Fatal(err)
		}
		expect(`the API server does not accept the serving certificate for webhook w: x509: certificate signed by unknown authority (possibly because of ` +
			`"x509: ECDSA verification failure" while trying to verify candidate authority certificate "mirrorset-guard self-signed CA")`)
		bundle = otherCA
		time.Sleep(55 * time.Minute)
		expect("the serving certificate expires at 2000-01-01T01:00:00Z, and its renewal is overdue")
		time.Sleep(5 * time.Minute)
		expect("the serving certificate expired at 2000-01-01T01:00:00Z") // to the second; x509 includes it
		time.Sleep(time.Second)
		expect("the serving certificate expired at 2000-01-01T01:00:00Z",
			"the API server does not accept the serving certificate for webhook w: x509: certificate has expired or is not yet valid: current time 2000-01-01T01:00:01Z is after 2000-01-01T01:00:00Z")
	})
}

// Each change is logged, once.
func TestVerificationRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ca := folder(t)
		_, other := folder(t)
		var bundle atomic.Value
		bundle.Store(ca)
		v := NewVerification(load(t, dir), func() []Webhook { return []Webhook{byService("w", bundle.Load().([]byte))} })
		var lines []string
		log := funcr.New(func(_, args string) {
			_, words, _ := strings.Cut(args, `"msg"=`)
			lines = append(lines, strings.SplitN(words, `"`, 3)[1])
		}, funcr.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go v.Run(ctx, log)
		for _, b := range [][]byte{ca, other, other, ca, ca, {}, other} {
			bundle.Store(b)
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		const rejects, accepts = "The API server does not accept the serving certificate", "The API server accepts the serving certificate again"
		if diff := cmp.Diff([]string{rejects, accepts, rejects, rejects}, lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestCollector(t *testing.T) {
	dir, ca := folder(t)
	_, other := folder(t)
	reloader := load(t, dir)
	var webhooks []Webhook
	registry := prometheus.NewRegistry()
	registry.MustRegister(Metrics(reloader, NewVerification(reloader, func() []Webhook { return webhooks })))
	expect := func(reason string, want map[string]float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, values(families)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	expiry := float64(reloader.NotAfter().Unix())
	expect("not known whether it is verified", map[string]float64{"expiry_timestamp_seconds": expiry, "last_reload_successful": 1})
	webhooks = []Webhook{byService("a", ca), byService("b", other)}
	expect("one does not", map[string]float64{"expiry_timestamp_seconds": expiry, "last_reload_successful": 1, "verified": 0})
	webhooks[1].CABundle = ca
	write(t, dir, filepath.Base(KeyFile), "")
	_, _ = reloader.Reload() // is in the metrics
	expect("both do", map[string]float64{"expiry_timestamp_seconds": expiry, "last_reload_successful": 0, "verified": 1})
}

func values(families []*dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for _, f := range families {
		values[strings.TrimPrefix(f.GetName(), "mirrorset_guard_certificate_")] = f.GetMetric()[0].GetGauge().GetValue()
	}
	return values
}
