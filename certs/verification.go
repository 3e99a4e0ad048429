package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
)

// A Verification checks whether the API server accepts the certificate of a Reloader. It is
// safe for concurrent use.
type Verification struct {
	reloader *Reloader
	webhooks func() []Webhook

	mu       sync.Mutex
	accepted time.Time // when the certificate was last found to be accepted; zero for never
}

// NewVerification returns the Verification of the certificate that r serves. webhooks returns
// those of the configuration that is installed, none if it is not known; it must not block.
func NewVerification(r *Reloader, webhooks func() []Webhook) *Verification {
	return &Verification{reloader: r, webhooks: webhooks}
}

// grace is the time for which a certificate that was accepted may fail verification before the replica
// is not ready. The issuer renews the certificate and the caBundle one after the
// other, within seconds; leaving the Service for that would take longer than waiting.
const grace = 10 * time.Second

// Failures returns the webhooks for which the API server does not accept the certificate.
// known is false if that cannot be determined.
func (v *Verification) Failures() (failures []*Failure, known bool) {
	return v.judge(v.webhooks())
}

func (v *Verification) judge(webhooks []Webhook) (failures []*Failure, known bool) {
	now, pair := time.Now(), v.reloader.current()
	for _, w := range webhooks {
		if r := w.verify(pair, now); r != nil {
			failures = append(failures, r)
		}
	}
	return failures, len(webhooks) > 0
}

// Ready returns an error if it is proved that the API server cannot call this replica for any
// webhook: another replica may have a certificate that is accepted, and a rolling update to one
// that is not must stop. Other faults of the certificate are only in Notes: all
// replicas would have them, and leaving the Service helps none of them.
func (v *Verification) Ready() error {
	webhooks := v.webhooks()
	failures, _ := v.judge(webhooks)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(webhooks) == 0 || len(failures) < len(webhooks) || slices.ContainsFunc(failures, func(f *Failure) bool { return !f.Proven }) {
		v.accepted = time.Now()
		return nil
	}
	if !v.accepted.IsZero() && time.Since(v.accepted) < grace {
		return nil
	}
	return failures[0]
}

// Notes lists the faults of the certificate, each in one line.
func (v *Verification) Notes() []string {
	var notes []string
	if err := v.reloader.Err(); err != nil {
		notes = append(notes, fmt.Sprintf("an earlier serving certificate is in use: %v", err))
	}
	if note := v.reloader.expiry(time.Now()); note != "" {
		notes = append(notes, note)
	}
	failures, _ := v.Failures()
	for _, r := range failures {
		notes = append(notes, r.Error())
	}
	return notes
}

// Run logs when the API server begins and ceases to accept the certificate, until ctx ends.
func (v *Verification) Run(ctx context.Context, log logr.Logger) {
	var last string
	mounted.Poll(ctx, func() { last = v.logChange(log, last) })
}

// logChange logs the failures if they differ from last, and returns them.
func (v *Verification) logChange(log logr.Logger, last string) string {
	failures, _ := v.Failures()
	err := errors.Join(convert.Each(failures, func(r *Failure) error { return r })...)
	switch {
	case err == nil && last != "":
		log.Info("The API server accepts the serving certificate again", "notAfter", v.reloader.NotAfter())
		return ""
	case err == nil || err.Error() == last:
		return last
	}
	log.Error(err, "The API server does not accept the serving certificate", "notAfter", v.reloader.NotAfter())
	return err.Error()
}

// Metrics returns those of the serving certificate.
func Metrics(reloader *Reloader, v *Verification) prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_certificate_expiry_timestamp_seconds",
			"When the serving certificate expires. With an expired one, the API server cannot call the webhook.",
			func(give prom.Give) { give(float64(reloader.NotAfter().Unix())) }),
		prom.Gauge("mirrorset_guard_certificate_verified",
			"1 if the caBundle of each webhook that is installed verifies the serving certificate, 0 if not. Missing if that is not known.",
			func(give prom.Give) {
				if failures, known := v.Failures(); known {
					give(prom.Bool(len(failures) == 0))
				}
			}),
		prom.Gauge("mirrorset_guard_certificate_last_reload_successful",
			"Whether the certificate in the mounted secret is in use (1), or an earlier one is because it cannot be used (0).",
			func(give prom.Give) { give(prom.Bool(reloader.Err() == nil)) }),
	}
}

// A Webhook is the way in which an API server calls this server, and verifies the certificate
// that it is presented.
type Webhook struct {
	// Name is that of the webhook in its configuration.
	Name string
	// Host is the name or address that the certificate has to be for.
	Host string
	// CABundle holds the authorities that the API server trusts, as PEM. If it is empty,
	// these are the ones of the API server's own system.
	CABundle []byte
	// ByURL is set if the webhook is called by URL instead of by Service. Something between
	// the API server and this server may then present another certificate.
	ByURL bool
}

// A Failure is the reason why an API server does not accept the certificate for a webhook.
type Failure struct {
	Webhook string
	Err     error
	// Proven is set if no replica with this certificate can be called, independently of the API
	// server's clock and of the authorities that its system trusts.
	Proven bool
}

// Error implements error.
func (r *Failure) Error() string {
	return fmt.Sprintf("the API server does not accept the serving certificate for webhook %s: %v", r.Webhook, r.Err)
}

// Unwrap returns the error of package x509.
func (r *Failure) Unwrap() error { return r.Err }

var (
	errEmptyBundle = errors.New("its caBundle is empty")
	errNoAuthority = errors.New("its caBundle holds no certificate")
)

// verify returns the reason why an API server whose clock shows now does not accept pair, nil if it
// does. It does what the API server does, which is what crypto/tls does in a client.
func (w Webhook) verify(pair *tls.Certificate, now time.Time) *Failure {
	options := x509.VerifyOptions{DNSName: w.Host, CurrentTime: now, Intermediates: x509.NewCertPool()}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(c)
		}
	}
	if len(w.CABundle) > 0 {
		options.Roots = x509.NewCertPool()
		if !options.Roots.AppendCertsFromPEM(w.CABundle) {
			return &Failure{Webhook: w.Name, Err: errNoAuthority} // a placeholder, to be filled in
		}
	}
	_, err := pair.Leaf.Verify(options)
	switch {
	case err == nil:
		return nil
	case len(w.CABundle) == 0:
		return &Failure{Webhook: w.Name, Err: fmt.Errorf("%w: %w", errEmptyBundle, err)}
	}
	return &Failure{Webhook: w.Name, Err: err, Proven: !w.ByURL && !isAboutTime(err)}
}

// isAboutTime reports whether err depends on the clock.
func isAboutTime(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}
