// Package serve has the command serve: it puts the guard together as its flags and its configuration
// say, and runs it.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/election"
	"github.com/mirrorset-guard/mirrorset-guard/internal/memory"
	"github.com/mirrorset-guard/mirrorset-guard/internal/port"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/serving"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// serveOptions are the choices of the command serve.
type serveOptions struct {
	listen, health string
	observe        observeFlags
	tlsDir         string
	clientCA       string
	drain          time.Duration
	logLevel       string
	cluster        cli.ClusterFlags
	registries     cli.RegistryFlags
	config         cli.ConfigFlags
	standing       standingFlags
	stdout         io.Writer // for records of decisions; nil in tests that have none
	lines          *logLines // of the log; nil in tests that have another
}

// New returns the command serve.
func New() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the API server as a validating admission webhook",
		Long: `serve follows the images of the cluster and answers admission reviews of mirror
sets over TLS at ` + webhook.Path + `. It is ready once it has read the whole cluster.

It also keeps verifying the mirror configuration in force, and reports images that
their mirrors have lost as Events on the mirror sets.`,
		Args: cli.NoArgs,
		// Instead of the root's: run sets a logger, and an empty flag says something (--client-ca).
		PersistentPreRun: func(*cobra.Command, []string) {},
		RunE:             cli.Runs(o.run),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *serveOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "webhook-bind-address", fmt.Sprintf(":%d", webhook.Port), "where to answer admission reviews, over TLS")
	flags.StringVar(&o.health, "health-probe-bind-address", ":8081", "where to answer /healthz and /readyz")
	flags.StringVar(&o.tlsDir, "tls-dir", "/etc/mirrorset-guard/tls", "folder of the serving certificate, tls.crt and tls.key; changes are picked up")
	flags.StringVar(&o.clientCA, "client-ca", "", "file with the CA of the client certificates that API servers have; a review requested without one gets 401; if empty, anyone who can reach the port may ask; changes are picked up")
	flags.DurationVar(&o.drain, "shutdown-delay", 5*time.Second, "how long to keep answering after SIGTERM while reporting not ready; up to 10s longer while reviews still arrive")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	o.observe.addFlags(flags)
	o.cluster.AddFlags(flags)
	o.registries.AddFlags(flags)
	o.config.AddFlags(flags)
	o.config.Mounted = true
	o.standing.addFlags(flags)
}

func (o *serveOptions) validate() error {
	return errors.Join(o.standing.validate(), o.observe.validate())
}

func (o *serveOptions) run(ctx context.Context, io cli.Streams) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, stop, err := o.log(io.Err)
	if err != nil {
		return err
	}
	defer stop()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	o.stdout = io.Out
	cluster, err := o.cluster.Config()
	if err != nil {
		return err
	}
	g, err := newGuard(cluster, o, log)
	if err != nil {
		return err
	}
	return g.run(ctx)
}

// gcPercent is half of Go's default. Reading a large cluster leaves garbage of fifty times the kept
// data, and large reviews of ten times: with the default, that alone would determine how much memory
// the process takes. It is ready no later.
const gcPercent = 50

// A guard is the whole server.
type guard struct {
	options    *serveOptions
	log        logr.Logger
	world      *environment.World
	cluster    *live.Inventory         // of world
	registries *environment.Registries // of world
	tls        tlsServing
	mux        *http.ServeMux
	observed   *port.Port // nil for none
	registry   *prometheus.Registry
	standing   *standing.Verifier
	kube       *kubernetes.Clientset // without a limit of requests: people wait for answers

	unreviewed *standing.Unreviewed // reports changes without a review
	follower   *rollouts.Follower
	updates    *nextrelease.Watcher
	settings   atomic.Pointer[settings.Settings]
	reloader   *config.Reloader   // nil: there is no configuration file
	election   *election.Election // nil: this process is the only one
	ending     atomic.Bool

	lastReview atomic.Pointer[time.Time] // when a review came last

	overrides *webhook.OverrideEvents
	audit     *auditlog.Log
	decisions decisions // the last ones
	replica   string
	recent    *recent.Edits
	keeper    webhook.Keeper
}

func newGuard(cluster *rest.Config, o *serveOptions, log logr.Logger) (*guard, error) {
	configured, err := o.config.Read()
	if err != nil {
		return nil, err
	}
	o.registries.Configured = &configured
	o.lines = cmp.Or(o.lines, newLogLines(io.Discard))
	g := &guard{options: o, log: log, registry: prometheus.NewRegistry(), keeper: webhook.NewKeeper(), replica: election.Instance()}
	g.settings.Store(new(configured.Settings()))
	g.prepareMetrics()
	unlimited := rest.CopyConfig(cluster)
	unlimited.QPS = -1
	if g.kube, err = kubernetes.NewForConfig(unlimited); err != nil {
		return nil, fmt.Errorf("making a client for the cluster: %w", err)
	}
	g.prepareUnreviewed()
	if err := g.openWorld(cluster); err != nil {
		return nil, err
	}
	g.registry.MustRegister(g.cluster.Metrics())
	if err := g.prepareObserved(cluster); err != nil {
		return nil, err
	}
	if err := g.prepareServing(cluster); err != nil {
		return nil, err
	}
	reviewer := g.world.Reviewer()
	reviewer.SettingsNow, reviewer.Limiter, reviewer.InForce = g.currentSettings, review.NewLimiter(memory.Processors()), new(review.InForce)
	if err := g.prepareStanding(cluster, reviewer); err != nil {
		return nil, err
	}
	if err := g.prepareUpdates(reviewer, nextrelease.Setting(configured.Updates)); err != nil {
		return nil, err
	}
	reviewer.Told = webhook.Told
	if err := g.prepareAudit(configured.AuditLog); err != nil {
		return nil, err
	}
	if err := g.prepareReloading(); err != nil {
		return nil, err
	}
	g.overrides = webhook.NewOverrideEvents(g.kube.EventsV1(), g.replica, theGuard, log.WithName("override"))
	if g.recent, err = g.newRecent(unlimited); err != nil {
		return nil, err
	}
	dryRuns := reviewer
	dryRuns.MissesFor = webhook.DryRunMisses
	g.mux, err = webhook.NewServeMux(webhook.Options{
		Reviewer: &reviewer, DryRuns: &dryRuns, Authenticate: g.tls.authenticator(), Ready: g.ready, Log: log, Metrics: g.registry, ExpectRetry: g.keeper.Add, Mode: func() policy.Mode { return g.currentSettings().Mode },
		Authorizer: webhook.SubjectAccessReviews(g.kube.AuthorizationV1()), Overridden: g.overrides.Tell, Audit: decided{g.audit, &g.decisions}, Recent: g.recent,
	})
	return g, err
}

// theGuard is the object of Events that are about no other: the webhook configuration stands for
// the guard in a cluster and, like the mirror sets, has no namespace, so Events about it need no further
// right.
var theGuard = corev1.ObjectReference{
	APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration", Name: webhook.ServiceName,
}

// prepareUnreviewed prepares the reports of changes that no webhook sees.
func (g *guard) prepareUnreviewed() {
	g.unreviewed = standing.NewUnreviewed(standing.UnreviewedOptions{
		Suspect:      func(what string) { g.standing.Suspect(what) },
		Registration: func() (serving.Registration, <-chan struct{}) { return g.tls.cluster.Registration() },
		Client:       g.kube.EventsV1(), Instance: g.replica, Guard: theGuard, Log: g.log,
	})
}

// openWorld opens the cluster that the guard is for.
func (g *guard) openWorld(cluster *rest.Config) error {
	options, err := g.options.registries.Options()
	if err != nil {
		return err
	}
	options.Cluster = live.Options{OnUnreviewed: func(object string) { g.unreviewed.Suspect([]string{object}) }, Logger: g.log}
	options.Trust = trust.Options{OnUnreviewed: g.unreviewed.Suspect, Logger: g.log}
	if g.world, err = environment.New(cluster, options); err != nil {
		return err
	}
	g.cluster, g.registries = g.world.Live, g.world.Registries
	return nil
}

// ready says why no verdict can be given.
func (g *guard) ready() error { return errors.Join(g.cluster.Ready(), g.world.Trust.Ready()) }

// notReady says why the API server should ask another replica.
func (g *guard) notReady() error {
	if g.ending.Load() {
		return errors.New("ending")
	}
	return errors.Join(g.ready(), g.tls.ready(), g.hangs())
}

// run serves until ctx ends, and a while longer, for the API server to learn
// of the end before the port is closed.
func (g *guard) run(ctx context.Context) error {
	defer g.close()
	defer start(ctx, g.audit.Run)() // stopped when no request is under way any more
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, serving := errgroup.WithContext(serving)
	for _, run := range []func(context.Context) error{g.cluster.Run, g.world.Trust.Run, g.registries.Run, g.tls.cluster.Run} {
		group.Go(func() error { return run(serving) })
	}
	for _, run := range g.background() {
		group.Go(func() error {
			run(serving)
			return nil
		})
	}
	listening, stopListening := context.WithCancel(serving)
	defer stopListening()
	listened := make(chan struct{})
	group.Go(func() error {
		defer close(listened)
		defer cancel() // only now: reviews under way need the rest
		return g.listen(listening)
	})
	group.Go(func() error {
		defer stopListening()
		g.waitForEnd(ctx, serving)
		return nil
	})
	g.log.Info("Started", "version", cli.Version, "listen", g.options.listen, "mode", g.currentSettings().Mode.String())
	return g.awaitEnd(group.Wait, listened)
}

// background returns what runs as long as the guard serves, and does not fail.
func (g *guard) background() []func(context.Context) {
	runs := []func(context.Context){
		g.verify, g.overrides.Run, g.recent.Run, memory.GiveBack,
		func(ctx context.Context) { g.keeper.Run(ctx, g.registries.Keep) },
		func(ctx context.Context) { g.tls.certs.Run(ctx, g.log) },
		func(ctx context.Context) { g.tls.verification.Run(ctx, g.log) },
	}
	if g.reloader != nil {
		runs = append(runs, g.reloader.Run)
	}
	if g.tls.observed != nil {
		runs = append(runs, func(ctx context.Context) { g.tls.observed.Run(ctx, g.log) })
	}
	if g.tls.clients != nil {
		runs = append(runs, func(ctx context.Context) { g.tls.clients.Run(ctx, g.log) })
	}
	return runs
}

// start runs something until stop is called, which returns once it has ended.
func start(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// ports returns what listens where.
func (g *guard) ports() []*port.Port {
	reviews := webhook.HTTPPort(g.noteReviews(g.mux), g.tls.reviewsConfig(), g.recent.Knows, g.log)
	reviews.Addr = g.options.listen
	health := port.New(g.options.health, g.healthMux(), nil, port.Limits{Header: 4 << 10, Connections: 64, PerAddress: 16, Answer: 10 * time.Second}, g.log)
	ports := []*port.Port{reviews, health}
	if g.observed != nil {
		if !g.options.observe.plain {
			g.observed.TLSConfig = g.tls.observedConfig()
		}
		ports = append(ports, g.observed)
	}
	return ports
}

func (g *guard) healthMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := g.notReady(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		for _, note := range slices.Concat(g.cluster.Notes(), g.world.Trust.Notes(), g.registries.Notes(), g.configNotes(), g.tls.notes(), g.recent.Notes()) {
			fmt.Fprintln(w, "note:", text.Line(note))
		}
	})
	return mux
}

// listen serves on all ports until ctx ends and the requests under way have finished.
func (g *guard) listen(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range g.ports() {
		group.Go(func() error { return serve(ctx, p) })
	}
	return group.Wait()
}

// serve listens until ctx ends, then lets the requests under way finish. A server
// with a TLS configuration speaks TLS.
func serve(ctx context.Context, p *port.Port) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.Addr)
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- p.Shutdown(end)
	}()
	if p.TLSConfig != nil {
		err = p.ServeTLS(p.Listener(listener), "", "")
	} else {
		err = p.Serve(p.Listener(listener))
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", p.Addr, err)
	}
	return <-stopped
}

// shutdownTimeout is longer than any review may take (webhook.TimeoutSeconds).
const shutdownTimeout = (webhook.TimeoutSeconds + 5) * time.Second
