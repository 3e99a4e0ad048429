package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// Options configure a Follower. The zero value is the default.
type Options struct {
	// OnChange receives the Trust once everything has been read, and again whenever it
	// changes. Calls come one at a time; the next waits for the last to return.
	OnChange func(Trust)
	// OnUnreviewed receives the names of the objects that may have changed the Trust, whenever it has
	// changed after the first time, except image.config/cluster, whose changes a webhook sees. It may be
	// nil.
	OnUnreviewed func(objects []string)
	// Roots are trusted whatever the cluster says; nil means the system's.
	Roots *x509.CertPool
	// ForbiddenAfter is how long an object has to be refused to count as one that may not be
	// read. Zero means follow.DefaultForbiddenAfter.
	ForbiddenAfter time.Duration
	// Logger gets client-go's messages about watches. The zero value is silent.
	Logger logr.Logger
}

// A Follower keeps a Trust up to date from a cluster. It is safe for concurrent use.
type Follower struct {
	options Options
	kube    kubernetes.Interface
	dyn     dynamic.Interface
	objects fixed
	dirty   chan struct{} // has room for one
	ready   chan struct{} // closed once OnChange has been called

	mu    sync.Mutex
	named [2]*running // the ConfigMaps that objects name: for registries, for the proxy
	trust Trust

	touched []string // objects that have changed since Trust last did
}

// A fixed holds the objects that have the same name in every cluster.
type fixed struct {
	image, proxy              *object
	providers, providersAlpha *object
	registryCAs, userCAs      *object
}

func (f *fixed) all() []*object {
	return []*object{f.image, f.proxy, f.providers, f.providersAlpha, f.registryCAs, f.userCAs}
}

// Follow returns a Follower of the cluster that cfg leads to. It does not contact it
// yet, and leaves cfg as it is.
func Follow(cfg *rest.Config, o Options) (*Follower, error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for ConfigMaps: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the cluster's configuration: %w", err)
	}
	f := &Follower{
		options: o,
		kube:    kube,
		dyn:     dyn,
		dirty:   make(chan struct{}, 1),
		ready:   make(chan struct{}),
	}
	f.objects = fixed{
		image:          f.config("v1", "images", "image.config"),
		proxy:          f.config("v1", "proxies", "proxy.config"),
		providers:      f.config("v1", "criocredentialproviderconfigs", "criocredentialproviderconfig.config"),
		providersAlpha: f.config("v1alpha1", "criocredentialproviderconfigs", "criocredentialproviderconfig.config"),
		registryCAs:    f.configMap(managedNamespace, registryCAs),
		userCAs:        f.configMap(configNamespace, userCABundle),
	}
	for _, o := range []*object{f.objects.proxy, f.objects.providers, f.objects.providersAlpha} {
		o.Forgets = false // where nodes have a proxy or other credentials, less is proved
	}
	return f, nil
}

// Run follows the cluster until ctx ends, and then returns nil. It must be called
// once.
func (f *Follower) Run(ctx context.Context) error {
	var objects sync.WaitGroup
	defer objects.Wait()
	for _, o := range f.objects.all() {
		objects.Go(func() { o.Run(ctx, f.options.Logger) })
	}
	defer f.leave()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.dirty:
			f.renew(ctx)
		}
	}
}

// Ready returns nil once OnChange has received a Trust. Until then the error names what has
// not been read.
func (f *Follower) Ready() error {
	if f.isReady() {
		return nil
	}
	waiting := follow.Waiting(f.all())
	return fmt.Errorf("the CAs and proxies of nodes are not known: %s", strings.Join(waiting, "; "))
}

// WaitReady returns nil as soon as Ready would. When ctx ends before, the error is
// its cause and what Ready says.
func (f *Follower) WaitReady(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), f.Ready())
	}
}

// Notes lists the faults of the Trust and the objects that could not be read for it, each in one line,
// for the readers of an answer that rests on it.
func (f *Follower) Notes() []string {
	var notes []string
	for _, o := range f.all() {
		switch status := o.Status(); {
		case status.IsForbidden():
			notes = append(notes, fmt.Sprintf("no permission to read %s: nodes may trust other CAs or use other proxies", status.Name))
		case status.IsBlind():
			notes = append(notes, status.Name+" "+status.Staleness())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(slices.Compact(notes), f.trust.Problems()...) // one kind is read in two versions
}

// Matches is Trust.Matches of the current Trust.
func (f *Follower) Matches(ref string) bool {
	f.mu.Lock()
	trust := f.trust
	f.mu.Unlock()
	return trust.Matches(ref)
}

// all returns every object that is followed at the moment.
func (f *Follower) all() []*object {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.objects.all()
	for _, n := range f.named {
		if n != nil {
			all = append(all, n.object)
		}
	}
	return all
}

func (f *Follower) touch() {
	select {
	case f.dirty <- struct{}{}:
	default: // a change is already marked
	}
}

// renew makes the Trust from what has been read. Before everything has been read there is
// none: without its CA, a registry would be called untrusted for a moment.
func (f *Follower) renew(ctx context.Context) {
	s := f.Settings()
	f.name(ctx, 0, registryCAName(s.Image))
	proxyCA := proxyCAName(s.ClusterProxy)
	if proxyCA == userCABundle {
		proxyCA = "" // is followed anyway
	}
	f.name(ctx, 1, proxyCA)
	for _, o := range f.all() {
		if !o.Status().Synced {
			return
		}
	}
	if trust := New(f.Settings()); f.keep(trust) {
		if f.options.OnChange != nil {
			f.options.OnChange(trust)
		}
		f.tellTouched()
	}
	if !f.isReady() { // only Run closes it
		close(f.ready)
	}
}

// touchedBy notes that an object has changed.
func (f *Follower) touchedBy(name string) {
	f.mu.Lock()
	if !slices.Contains(f.touched, name) {
		f.touched = append(f.touched, name)
	}
	f.mu.Unlock()
	f.touch()
}

// tellTouched tells which objects have made the Trust another one. Only Run calls it.
func (f *Follower) tellTouched() {
	f.mu.Lock()
	names := slices.DeleteFunc(f.touched, func(name string) bool { return name == f.objects.image.Name })
	slices.Sort(names)
	f.touched = nil
	f.mu.Unlock()
	if f.isReady() && f.options.OnUnreviewed != nil && len(names) > 0 { // else it is the first one
		f.options.OnUnreviewed(names)
	}
}

func (f *Follower) isReady() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

// keep stores trust and reports whether it differs from the last one.
func (f *Follower) keep(trust Trust) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trust.RootCAs != nil && f.trust.equal(trust) {
		return false
	}
	f.trust = trust
	return true
}

// name makes f follow the ConfigMap of that name instead of the one followed
// before, none if it is "".
func (f *Follower) name(ctx context.Context, slot int, name string) {
	old := f.named[slot] // only Run writes to it
	if old == nil && name == "" || old != nil && old.Object == name {
		return
	}
	var fresh *running
	if name != "" {
		fresh = f.start(ctx, f.configMap(configNamespace, name))
	}
	f.mu.Lock()
	f.named[slot] = fresh
	f.mu.Unlock()
	if old != nil {
		old.stop()
	}
}

// leave ends the following that name has started.
func (f *Follower) leave() {
	for _, n := range f.named {
		if n != nil {
			n.stop()
		}
	}
}

// Settings returns the objects that determine what nodes trust, as last read.
func (f *Follower) Settings() Settings {
	s := Settings{
		Roots:        f.options.Roots,
		Image:        typed[configv1.Image](f.objects.image),
		ClusterProxy: typed[configv1.Proxy](f.objects.proxy),
	}
	for _, o := range []*object{f.objects.providers, f.objects.providersAlpha} {
		if c := typed[configv1.CRIOCredentialProviderConfig](o); c != nil { // both versions have the same fields
			s.CredentialProviders = append(s.CredentialProviders, c)
		}
	}
	for _, o := range f.all() {
		switch value, denied := o.Read(); {
		case o.namespace == "":
		case value != nil:
			s.ConfigMaps = append(s.ConfigMaps, value.(*corev1.ConfigMap))
		case denied:
			s.Unread = append(s.Unread, o.namespace+"/"+o.Object)
		}
	}
	return s
}
