package certs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
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
	if len(webhooks) == 0 || len(failures) < len(webhooks) || !areProven(failures) {
		v.accepted = time.Now()
		return nil
	}
	if !v.accepted.IsZero() && time.Since(v.accepted) < grace {
		return nil
	}
	return failures[0]
}

func areProven(failures []*Failure) bool {
	return !slices.ContainsFunc(failures, func(r *Failure) bool { return !r.Proven })
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
