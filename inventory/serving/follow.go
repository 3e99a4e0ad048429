// Package serving follows the objects of a cluster that configure the guard's own serving: the TLS
// security profile (apiservers.config.openshift.io/cluster), and the webhook configuration,
// by whose CAs the API server verifies the guard's certificate.
//
//	follower, err := serving.Follow(config, serving.Options{WebhookConfiguration: name, Installed: installed})
//	go follower.Run(ctx)
//	server.TLSConfig = reloader.TLSConfig(follower.Profile)
//	verification := certs.NewVerification(reloader, follower.Webhooks)
//
// Both are read by name, so a role can be limited to these objects. Reviews do not
// wait for them. A guard that may not read them serves with its own default, and says so in
// Notes.
package serving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	configv1 "github.com/openshift/api/config/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/certs/tlsprofile"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// Options configure a Follower.
type Options struct {
	// WebhookConfiguration is the name of the ValidatingWebhookConfiguration.
	WebhookConfiguration string
	// Installed is what it was installed as. Required. Other configurations that have
	// webhooks of the same names are the guard's too: OLM makes one for each webhook, and the names.
	Installed *admissionregistrationv1.ValidatingWebhookConfiguration
	// OnProfile receives each Profile that differs from the last one. Calls come one at a
	// time. It may be nil.
	OnProfile func(tlsprofile.Profile)
	// ForbiddenAfter is how long an object that has never been read has to be refused to
	// count as one that may not be read. Zero means follow.DefaultForbiddenAfter.
	ForbiddenAfter time.Duration
	// Logger gets client-go's messages about watches. The zero value is silent.
	Logger logr.Logger
}

// A Follower keeps up with how a cluster wants the guard to serve. It is safe for concurrent
// use.
type Follower struct {
	options   Options
	apiServer follow.Source
	held      follow.Single // the Sink of apiServer
	webhooks  follow.Source
	calls     follow.Table[*admissionregistrationv1.ValidatingWebhookConfiguration] // the Sink of webhooks; nil for those that do not call the guard
	profile   atomic.Pointer[tlsprofile.Profile]

	mu           sync.Mutex
	registration Registration
	news         chan struct{} // closed when registration changes
}

// apiServerName is that of the only APIServer there is.
const apiServerName = "cluster"

// Follow returns a Follower of the cluster that cfg leads to. It does not contact it yet, and
// leaves cfg as it is.
func Follow(cfg *rest.Config, o Options) (*Follower, error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the webhook configuration: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the TLS profile: %w", err)
	}
	f := &Follower{options: o, news: make(chan struct{})}
	f.profile.Store(new(tlsprofile.Unread()))
	f.held.Changed, f.calls.Changed = f.renew, f.compare
	f.apiServer = follow.Source{
		Name: "apiserver.config/" + apiServerName, Object: apiServerName, PageSize: 1,
		Client: follow.Custom(dyn, configv1.GroupVersion.WithResource("apiservers")),
		Trim:   func(o runtime.Object) any { return profileOf(o.(*unstructured.Unstructured)) }, Sink: follow.One(f.held.Set), OnSync: f.renew,
	}
	f.webhooks = follow.Source{
		Name: "validatingwebhookconfigurations", Client: follow.Builtin(kube.AdmissionregistrationV1().ValidatingWebhookConfigurations(), kube),
		Trim: f.trimWebhooks, Sink: &f.calls, OnSync: f.compare,
	}
	for _, s := range f.sources() {
		s.IsAnswer, s.ForbiddenAfter = follow.NotServedOrForbidden, o.ForbiddenAfter
	}
	return f, nil
}

// Run follows the cluster until ctx ends, and then returns nil. It must be called once.
func (f *Follower) Run(ctx context.Context) error {
	var sources sync.WaitGroup
	for _, s := range f.sources() {
		sources.Go(func() { s.Run(ctx, f.options.Logger) })
	}
	sources.Wait()
	return nil
}

// Ready returns nil once everything has been read, or is known not to be there, or for long
// enough that it may not be read. Until then the error names the missing objects.
func (f *Follower) Ready() error {
	waiting := follow.Waiting(f.sources())
	if len(waiting) > 0 {
		return fmt.Errorf("how to serve is not known: %s", strings.Join(waiting, "; "))
	}
	return nil
}

// sources returns the followed sources.
func (f *Follower) sources() []*follow.Source { return []*follow.Source{&f.apiServer, &f.webhooks} }

// Profile returns what to offer to TLS clients. While the API server is out of reach, that is
// what it said last.
func (f *Follower) Profile() tlsprofile.Profile { return *f.profile.Load() }

// renew makes the Profile from what has been read. Only the goroutine of apiServer calls it.
func (f *Follower) renew() {
	if !f.apiServer.Status().Synced {
		return // OnSync is still to come
	}
	value, _ := f.held.Read()
	profile, exists := value.(tlsprofile.Profile)
	if !exists {
		profile = tlsprofile.Default()
	}
	if before := f.profile.Swap(&profile); !before.Equal(profile) && f.options.OnProfile != nil {
		f.options.OnProfile(profile)
	}
}

// profileOf decodes no more of an APIServer than is used, so that nothing else in it matters.
func profileOf(o *unstructured.Unstructured) tlsprofile.Profile {
	var apiServer struct {
		Spec struct {
			TLSAdherence       configv1.TLSAdherencePolicy  `json:"tlsAdherence"`
			TLSSecurityProfile *configv1.TLSSecurityProfile `json:"tlsSecurityProfile"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &apiServer); err != nil {
		return tlsprofile.Unreadable(err)
	}
	return tlsprofile.Of(apiServer.Spec.TLSAdherence, apiServer.Spec.TLSSecurityProfile)
}

// Webhooks returns how the API server calls the guard, none if that is not known or it does
// not.
func (f *Follower) Webhooks() []certs.Webhook {
	var called []certs.Webhook
	for _, c := range f.registered() {
		called = append(called, webhooksOf(c)...)
	}
	return called
}

// Registration returns how the webhooks are registered as last seen, and a channel that is closed
// when that changes.
func (f *Follower) Registration() (Registration, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.registration, f.news
}

// compare makes the Registration from what has been read. Only the goroutine of webhooks calls it.
func (f *Follower) compare() {
	if !f.webhooks.Status().IsReadable() {
		return // OnSync is still to come, or it is not known
	}
	now := Registration{Known: true, Differences: []string{f.unregistered()}}
	if registered := f.registered(); len(registered) > 0 {
		now.Differences = differences(f.options.Installed, registered)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registration.Known && slices.Equal(f.registration.Differences, now.Differences) {
		return
	}
	if len(now.Differences) > 0 {
		now.Since = cmp.Or(f.registration.Since, time.Now())
	}
	f.registration = now
	close(f.news)
	f.news = make(chan struct{})
}
