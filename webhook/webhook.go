// Package webhook answers the API server's admission requests for mirror objects.
//
// It turns an AdmissionReview into an edit of the mirror configuration, has the
// edit reviewed within the time the API server waits, and writes the Record as
// an admission response, audit annotations, one log line and metrics. It has no
// opinion of its own: whether a change is safe is for package policy, what it
// rests on for the Reviewer.
//
// A request that cannot be read, reviewed or answered is refused with the reason; no fault in here
// admits a change, unless the mode is one that refuses nothing. A request that changes no spec is
// admitted without a review, and a refused change if it carries an override whose user the cluster
// permits to (override.go).
//
//	mux, err := webhook.NewServeMux(webhook.Options{Reviewer: reviewer, Ready: ready})
//	p := webhook.HTTPPort(mux, reloader.TLSConfig(nil), nil, logger)
//	err = p.ServeTLS(p.Listener(listener), "", "")
//
// The only state between requests are the changes that were admitted in the last seconds, and
// those only until they are in force; replicas share them (package recent). So a server may be
// shut down between any two requests.
package webhook

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/port"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// The values by which a ValidatingWebhookConfiguration reaches this package. A test in package
// manifests holds the manifests to these values.
const (
	// MirrorSetsWebhook reviews creations and updates. It fails closed: the kinds it matches are rare,
	// and none is needed to bring the guard back.
	MirrorSetsWebhook = "mirrorsets.mirrorset-guard.io"
	// DeletionsWebhook reviews deletions. It fails open, because the remedy for a bad mirror set is
	// often to delete it, which must be possible when the guard is down.
	DeletionsWebhook = "mirrorset-deletions.mirrorset-guard.io"
	// Path is where AdmissionReviews are posted.
	Path = "/validate"
	// Namespace and ServiceName are where the API server finds the guard, and the
	// name of its deployment.
	Namespace   = "mirrorset-guard"
	ServiceName = "mirrorset-guard"
	// ServicePort is the port of the service, Port the one the process listens on.
	ServicePort = 443
	Port        = 9443
	// TimeoutSeconds is how long the API server is asked to wait: half of the 30 s
	// it allows at most, so that a second webhook and a retry find room in the
	// 34 s it gives to the whole request.
	TimeoutSeconds = 15
	// DryRunMisses is the age at which a miss still denies a dry run without being looked up again.
	// Tools refresh dozens of applications within seconds, by dry runs of the same objects; an
	// administrator who copies an image takes longer, and a change that is meant is asked about anew.
	DryRunMisses = 5 * time.Second
)

// Options are what NewServeMux needs.
type Options struct {
	// Reviewer gives the verdicts. Required.
	Reviewer Reviewer
	// DryRuns gives the verdicts on dry runs; nil: Reviewer does.
	DryRuns Reviewer
	// Ready returns why no verdict can be given yet, or any more (informers have not
	// synced, the process is terminating); nil if one can. A nil func is always
	// ready. It is called once for each request and must not block.
	Ready func() error
	// Authenticate returns why a request is not from an API server; nil if it is, whereupon its sender is
	// known. A nil func accepts every client that can reach the port. It must not block.
	Authenticate func(*http.Request) error
	// Log receives a line for each decision. The zero value discards it.
	Log logr.Logger
	// Metrics is where the metrics are registered, nil for nowhere.
	Metrics prometheus.Registerer
	// ExpectRetry receives each review of a sender that is known after which the same change is likely to be made again,
	// because it was refused or was a dry run. It may be nil. It is called before the answer
	// is sent, and must not block.
	ExpectRetry func(review.Record)
	// Mode returns the treatment of requests without a verdict; nil means
	// policy.ModeEnforce. Other requests go by the mode of their Record. It must not block.
	Mode func() policy.Mode
	// Authorizer decides who may override a refusal by OverrideAnnotation; nil: no user may.
	Authorizer Authorizer
	// Overridden receives each Override once it was seen in force. It may be nil, and must not
	// block.
	Overridden func(Override)
	// Audit keeps a record of each decision; nil for none.
	Audit AuditLog
	// Recent is what replicas share of the changes that they admit; nil for a process that is
	// the only one. The caller runs it.
	Recent *recent.Edits
}

// NewServeMux returns what to serve: Path answers AdmissionReviews of
// admission.k8s.io/v1, everything else is not found. It is an error if there is
// no Reviewer, or if the metrics are registered already.
func NewServeMux(o Options) (*http.ServeMux, error) {
	if o.Reviewer == nil {
		return nil, errors.New("webhook: no Reviewer")
	}
	m := newMetrics()
	if err := m.register(o.Metrics); err != nil {
		return nil, err
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	handler := &Handler{Options: o, metrics: m}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, withDeadline(&endpoint{
		handler: handler,
		rank:    handler.edits().Rank,
		bodies:  newBodies(),
		ready:   o.Ready,
		log:     o.Log,
		metrics: m,
	}))
	return mux, nil
}

// HTTPPort returns the port to serve h at, which is Port at all addresses unless that is changed. Clients at
// addresses that are known go first; nil: none does.
func HTTPPort(h http.Handler, config *tls.Config, known func(address string) bool, log logr.Logger) *port.Port {
	return port.New(":"+strconv.Itoa(Port), h, config, port.Limits{
		Header:      8 << 10, // many times what an API server sends
		Connections: 512,     // with some 100 KiB each
		PerAddress:  128,     // there is room for as many small reviews under way
		First:       known,
		Answer:      maxTimeout + 5*time.Second, // to write what the longest review came to
	}, log)
}
