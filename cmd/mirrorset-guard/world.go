package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// clusterFlags say which cluster to talk to.
type clusterFlags struct {
	kubeconfig, context string
}

func (c *clusterFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; default: KUBECONFIG, ~/.kube/config, or the pod's own service account")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig")
}

func (c *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no cluster: set KUBECONFIG or --kubeconfig, or read a dump of one with --from")
	}
	if err != nil {
		return nil, fmt.Errorf("no cluster: %w (or read a dump of one with --from)", err)
	}
	return config, nil
}

// registryFlags say how to reach registries.
type registryFlags struct {
	cas           []string
	resolve       []string
	rates         []string
	allowLoopback bool
	factLifetime  time.Duration
	// factFile is where facts survive a restart, "" for nowhere. Only serve has a flag
	// for it: it goes with Store.Run and Store.Restore.
	factFile string
	// configured is what the configuration file and the flags say together; nil for the
	// flags alone.
	configured *configuration
}

func (r *registryFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.cas, "registry-ca", nil, "PEM file of certificate authorities to trust for registries, in addition to the system's; may be repeated")
	flags.StringArrayVar(&r.resolve, "resolve", nil, "HOST[:PORT]=ADDRESS:PORT: where to find a registry instead of asking DNS; may be repeated")
	flags.StringArrayVar(&r.rates, "registry-rate", nil, "HOST[:PORT]=N: the most requests per second to a registry (default quay.io=450; 0 for no limit); may be repeated")
	flags.DurationVar(&r.factLifetime, "fact-lifetime", 5*time.Minute, "how long an image that was found is assumed to be still there; misses are looked up again wherever a verdict depends on them")
	flags.BoolVar(&r.allowLoopback, "allow-loopback", false, "ask registries at loopback and link-local addresses too (for tests)")
}

// open returns a client of registries and the store of its answers. It reads
// indexes for the platforms that nodes have; platforms is called from time to time.
func (r *registryFlags) open(platforms func() []string) (*registry.Client, *presence.Store, error) {
	roots, err := r.roots()
	if err != nil {
		return nil, nil, err
	}
	resolve, err := r.resolved()
	if err != nil {
		return nil, nil, err
	}
	configured, err := r.configuration()
	if err != nil {
		return nil, nil, err
	}
	client := registry.NewClient(registry.Options{
		UserAgent: "mirrorset-guard/" + version, RootCAs: roots, Resolve: resolve, AllowLoopback: r.allowLoopback,
		Rates: configured.paces.Rates, AtOnce: configured.paces.AtOnce, Platforms: platforms,
	})
	store := presence.NewStore(client, presence.Options{Path: r.factFile, Lifetimes: configured.lifetimes, Propose: func(hostRoots map[string]*x509.CertPool) presence.ProposedProber { return client.Propose(hostRoots) }})
	return client, store, nil
}

// configuration returns what the file and the flags say about registries.
func (r *registryFlags) configuration() (configuration, error) {
	if r.configured != nil {
		return *r.configured, nil
	}
	rates, err := r.registryRates()
	lifetimes := config.Defaults().FactLifetimes()
	lifetimes.PresentDigest, lifetimes.PresentTag = r.factLifetime, min(r.factLifetime, maxTagLifetime)
	return configuration{paces: registry.Paces{Rates: rates}, lifetimes: lifetimes}, err
}

// maxTagLifetime is shorter than what digests may have: a tag can be moved.
const maxTagLifetime = 2 * time.Minute

func (r *registryFlags) roots() (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without any; --registry-ca may do
	}
	for _, file := range r.cas {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--registry-ca: %w", err)
		}
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--registry-ca %s: no certificate in it", file)
		}
	}
	return pool, nil
}

func (r *registryFlags) resolved() (map[string]string, error) {
	resolve := map[string]string{}
	for _, entry := range r.resolve {
		host, addr, ok := strings.Cut(entry, "=")
		if !ok || host == "" || !strings.Contains(addr, ":") {
			return nil, fmt.Errorf("--resolve %q: want HOST=ADDRESS:PORT or HOST:PORT=ADDRESS:PORT", entry)
		}
		resolve[host] = addr
	}
	return resolve, nil
}

// registryRates returns the limits that registries have published, and those of the
// flags over them. How many requests are under way adapts to the registry's answers all
// the same.
func (r *registryFlags) registryRates() (map[string]float64, error) {
	rates := maps.Clone(registry.DefaultRates)
	for _, entry := range r.rates {
		host, text, _ := strings.Cut(entry, "=")
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || host == "" || strings.Contains(host, "/") || !(rate >= 0 && rate <= maxRate) {
			return nil, fmt.Errorf("--registry-rate %q: want HOST=N or HOST:PORT=N, N from 0 to %d", entry, maxRate)
		}
		if host == "docker.io" {
			host = "registry-1.docker.io" // where its API is
		}
		rates[host] = rate
	}
	return rates, nil
}

const maxRate = 1_000_000

// followTrust returns what follows the CAs and proxies of the nodes, and hands them
// to client. --registry-ca stays trusted. What forbiddenAfter and changed are, see trust.Options.
func (r *registryFlags) followTrust(config *rest.Config, client *registry.Client, log logr.Logger, forbiddenAfter time.Duration, changed func(objects []string)) (*trust.Follower, error) {
	roots, err := r.roots()
	if err != nil {
		return nil, err
	}
	return trust.Follow(config, trust.Options{Roots: roots, Logger: log, ForbiddenAfter: forbiddenAfter, OnUnreviewed: changed, OnChange: func(t trust.Trust) {
		client.SetTrust(t.RootCAs, t.HostRootCAs, t.Proxy)
	}})
}

// A pullSecret hands the nodes' credentials to the client as they change.
type pullSecret struct {
	client *registry.Client
	store  *presence.Store
	mu     sync.Mutex
}

// set takes the content of the global pull secret, or why there is none.
func (p *pullSecret) set(dockerConfigJSON []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var credentials registry.Credentials
	if err == nil {
		credentials, err = registry.ParseCredentials(dockerConfigJSON)
	}
	note := strings.Join(credentials.Problems(), "; ")
	if err != nil {
		note = fmt.Sprintf("registries were asked without credentials: %v", err)
	}
	p.client.SetCredentials(credentials)
	p.store.SetNote("credentials", note)
}

// A world is what check and explain look at: a cluster or a dump of one, and the
// registries.
type world struct {
	cluster    clusterFlags
	registries registryFlags
	from       string
	pullSecret string
}

func (w *world) addFlags(flags *pflag.FlagSet) {
	w.cluster.addFlags(flags)
	w.registries.addFlags(flags)
	flags.StringVar(&w.from, "from", "", "read the cluster from a dump: a YAML or JSON file, a folder of manifests, or - (standard input)")
	flags.StringVar(&w.pullSecret, "pull-secret", "", "file with the nodes' credentials (.dockerconfigjson); default: Secret openshift-config/pull-secret of the cluster or dump")
}

// A clusterSource is a live cluster or a dump: a *live.Inventory or a *snapshot.Snapshot.
type clusterSource interface {
	review.Inventory
	snapshot.Source
	// Applied returns what MCO last wrote for the nodes. The error is objects.ErrNotApplied if it
	// wrote nothing.
	Applied(context.Context) (*mirrors.Applied, error)
}

// An openWorld is to be closed.
type openWorld struct {
	inventory  clusterSource
	registries *presence.Store
	client     *registry.Client
	noters     []review.NoteSource
	// otherCredentials is as in review.Reviewer.
	otherCredentials func(ref string) bool
	trust            review.Trust // as in review.Reviewer
	// trustSettings returns the objects that determine what nodes trust; nil if they were not read.
	trustSettings func() trust.Settings
	stop          context.CancelFunc
}

// platforms returns those of the nodes, as far as they are known.
func (w *openWorld) platforms() []string {
	if w.inventory == nil {
		return nil
	}
	return policy.PlatformsOf(w.inventory.Nodes())
}

func (w *openWorld) close() {
	w.stop()
	w.registries.Close()
	w.client.Close()
}

// open reads the whole world.
func (w *world) open(ctx context.Context, io streams) (*openWorld, error) {
	return w.openWith(ctx, io, true)
}

// openMirrors is open for commands that need no images.
func (w *world) openMirrors(ctx context.Context, io streams) (*openWorld, error) {
	return w.openWith(ctx, io, false)
}

func (w *world) openWith(ctx context.Context, io streams, images bool) (*openWorld, error) {
	open := &openWorld{}
	client, store, err := w.registries.open(open.platforms)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	open.registries, open.client, open.stop = store, client, stop
	credentials := &pullSecret{client: client, store: store}
	if w.from != "" {
		err = w.readDump(open, credentials, io)
	} else {
		err = w.followCluster(ctx, open, credentials, io, images)
	}
	if err == nil && w.pullSecret != "" {
		err = w.readPullSecret(credentials)
	}
	if err != nil {
		open.close()
		return nil, err
	}
	return open, nil
}

func (w *world) readDump(open *openWorld, credentials *pullSecret, io streams) error {
	dump, err := readSnapshot(w.from, io)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	for _, problem := range dump.Problems() {
		fmt.Fprintf(io.err, "mirrorset-guard: --from: %v\n", problem)
	}
	if data := dump.PullSecret(); data != nil {
		credentials.set(data, nil)
	} else {
		credentials.set(nil, errors.New("no Secret openshift-config/pull-secret in the dump; see --pull-secret"))
	}
	open.inventory, open.trustSettings = dump, dump.TrustSettings
	return w.trustDump(open, dump)
}

// trustDump makes the client trust the CAs that the nodes in the dump trust. It does not go by
// their proxies, which this machine may not reach.
func (w *world) trustDump(open *openWorld, dump *snapshot.Snapshot) error {
	roots, err := w.registries.roots()
	if err != nil {
		return err
	}
	settings := dump.TrustSettings()
	settings.Roots = roots
	trusted := trust.New(settings)
	open.client.SetTrust(trusted.RootCAs, trusted.HostRootCAs, nil)
	open.otherCredentials = trusted.Matches
	open.trust = proposer{dumpedCAs{settings}, open.registries}
	open.noters = append(open.noters, notes(trusted.Problems()))
	return nil
}

// notes are a review.NoteSource.
type notes []string

// Notes implements review.NoteSource.
func (n notes) Notes() []string { return n }

func readSnapshot(from string, io streams) (*snapshot.Snapshot, error) {
	if from == "-" {
		return snapshot.ReadFrom(io.in, "standard input")
	}
	return snapshot.Read(from)
}

// forbiddenTimeout is for how long a command asks again for what it may not read: people
// often may not read all, and wait for the answer.
const forbiddenTimeout = 3 * time.Second

// clusterTimeout is how long a command waits for a whole cluster to be read.
const clusterTimeout = 2 * time.Minute

func (w *world) followCluster(ctx context.Context, open *openWorld, credentials *pullSecret, io streams, images bool) error {
	config, err := w.cluster.config()
	if err != nil {
		return err
	}
	cluster, err := live.New(config, live.Options{OnPullSecret: credentials.set, ForbiddenAfter: forbiddenTimeout})
	if err != nil {
		return err
	}
	open.inventory = cluster
	if !images { // they are an error, as long as nothing has been read
		return nil
	}
	trusted, err := w.registries.followTrust(config, open.client, logr.Discard(), forbiddenTimeout, nil)
	if err != nil {
		return err
	}
	// Both end with open.stop.
	go cluster.Run(ctx) //nolint:errcheck // it returns nil; WaitReady says what matters
	go trusted.Run(ctx) //nolint:errcheck // as above
	waiting, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if err := awaitRead(waiting, io.err, cluster, clusterTimeout); err != nil {
		return err
	}
	if err := trusted.WaitReady(waiting); err != nil {
		return fmt.Errorf("reading the cluster: %w", err)
	}
	open.noters = append(open.noters, trusted)
	open.otherCredentials = trusted.Matches
	open.trust = proposer{trusted, open.registries}
	open.trustSettings = trusted.Settings
	return nil
}

func (w *world) readPullSecret(credentials *pullSecret) error {
	data, err := os.ReadFile(w.pullSecret)
	if err != nil {
		return fmt.Errorf("--pull-secret: %w", err)
	}
	credentials.set(data, nil)
	return nil
}
