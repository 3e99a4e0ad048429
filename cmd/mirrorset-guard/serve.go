package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// serveOptions are the choices of the command serve.
type serveOptions struct {
	listen, health string
	observe        observeFlags
	tlsDir         string
	drain          time.Duration
	logLevel       string
	surveyEvery    time.Duration
	cluster        clusterFlags
	registries     registryFlags
	policy         policyFlags
	config         configFlags
	standing       standingFlags
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the API server as a validating admission webhook",
		Long: `serve follows the images of the cluster and answers admission reviews of mirror
sets over TLS at ` + webhook.Path + `. It is ready once it has read the whole cluster.

It also keeps verifying the mirror configuration in force, and reports images that
their mirrors have lost as Events on the mirror sets.`,
		Args: cobra.NoArgs,
		// Instead of the root's: run sets a logger.
		PersistentPreRun: func(*cobra.Command, []string) {},
		RunE:             runs(o.run),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *serveOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", fmt.Sprintf(":%d", webhook.Port), "where to answer admission reviews, over TLS")
	flags.StringVar(&o.health, "health", ":8081", "where to answer /healthz and /readyz")
	flags.StringVar(&o.tlsDir, "tls-dir", "/etc/mirrorset-guard/tls", "folder of the serving certificate, tls.crt and tls.key; changes are picked up")
	flags.DurationVar(&o.drain, "drain", 5*time.Second, "how long to go on answering, while reporting not ready, after SIGTERM")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&o.surveyEvery, "survey-every", live.DefaultSurveyEvery, "how often to search objects of unknown kinds for images; new kinds are discovered every minute")
	o.observe.addFlags(flags)
	o.cluster.addFlags(flags)
	o.registries.addFlags(flags)
	flags.StringVar(&o.registries.factFile, "fact-file", "", "file in which facts about images survive a restart; empty for none")
	o.policy.addFlags(flags)
	o.config.addFlags(flags)
	o.standing.addFlags(flags)
}

func (o *serveOptions) validate() error {
	var err error
	if o.surveyEvery != 0 && o.surveyEvery < minSurveyEvery { // zero is the default
		err = fmt.Errorf("--survey-every %s: want %s or more", o.surveyEvery, minSurveyEvery)
	}
	return errors.Join(err, validateFactFile(o.registries.factFile), o.standing.validate())
}

// minSurveyEvery keeps the lists of a large cluster from being all that its API server has
// to do.
const minSurveyEvery = time.Second

func (o *serveOptions) run(ctx context.Context, io streams) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, err := newLogger(o.logLevel, io)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(log)
	cluster, err := o.cluster.config()
	if err != nil {
		return err
	}
	g, err := newGuard(cluster, o, log)
	if err != nil {
		return err
	}
	return g.run(ctx)
}

// newLogger returns a logger that writes JSON lines to standard error.
func newLogger(level string, io streams) (logr.Logger, error) {
	var l zapcore.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: choose one of debug, info, warn, error", level)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(zapcore.AddSync(io.err)), l)
	return zapr.NewLogger(zap.New(core)), nil
}

// A guard is the whole server.
type guard struct {
	options  *serveOptions
	log      logr.Logger
	cluster  *live.Inventory
	client   *registry.Client
	store    *presence.Store
	trust    *trust.Follower
	certs    *certs.Reloader
	mux      *http.ServeMux
	observed *http.Server // nil for none
	registry *prometheus.Registry
	standing *standing.Verifier
	settings atomic.Pointer[policy.Settings]
	reloader *config.Reloader // nil: there is no configuration file
	election *election        // nil: this process is the only one
	ending   atomic.Bool
}

func newGuard(cluster *rest.Config, o *serveOptions, log logr.Logger) (*guard, error) {
	configured, err := o.config.read(&o.policy, &o.registries)
	if err != nil {
		return nil, err
	}
	o.registries.configured = &configured
	g := &guard{options: o, log: log, registry: prometheus.NewRegistry()}
	g.settings.Store(&configured.settings)
	g.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if g.client, g.store, err = o.registries.open(func() []string { return g.cluster.NodePlatforms() }); err != nil {
		return nil, err
	}
	credentials := &pullSecret{client: g.client, store: g.store}
	if g.cluster, err = live.New(cluster, live.Options{OnPullSecret: credentials.set, Logger: log, SurveyEvery: o.surveyEvery}); err != nil {
		return nil, err
	}
	g.registry.MustRegister(live.Collector{Inventory: g.cluster})
	if g.observed, err = o.observe.server(cluster, observer{g.registry, g.cluster, log}); err != nil {
		return nil, err
	}
	if g.trust, err = o.registries.followTrust(cluster, g.client, log, 0); err != nil {
		return nil, err
	}
	if g.certs, err = certs.Load(o.tlsDir); err != nil {
		return nil, err
	}
	reviewer := &review.Reviewer{
		Inventory: g.cluster, Registries: g.store, SettingsNow: g.currentSettings,
		OtherCredentials: g.trust.Matches, NoteSources: []review.NoteSource{g.trust}, Trust: proposer{g.trust, g.store}, Limiter: review.NewLimiter(runtime.GOMAXPROCS(0)), InForce: new(review.InForce),
	}
	if err := g.prepareStanding(cluster, *reviewer); err != nil {
		return nil, err
	}
	if err := g.prepareReloading(cluster); err != nil {
		return nil, err
	}
	g.mux, err = webhook.NewServeMux(webhook.Options{
		Reviewer: reviewer, Ready: g.ready, Log: log, Metrics: g.registry, ComesAgain: g.keepForNextTry, Mode: func() policy.Mode { return g.currentSettings().Mode },
	})
	return g, err
}

// ready says why no verdict can be given.
func (g *guard) ready() error { return errors.Join(g.cluster.Ready(), g.trust.Ready()) }

// run serves until ctx ends, and a while longer, so that the API server learns
// of the end before the port is closed.
func (g *guard) run(ctx context.Context) error {
	defer g.client.Close()
	defer g.store.Close()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return g.cluster.Run(serving) })
	group.Go(func() error {
		g.cluster.CollectGarbageSooner(serving)
		return nil
	})
	group.Go(func() error { return g.trust.Run(serving) })
	group.Go(func() error { return g.store.Run(serving) })
	group.Go(func() error {
		g.verify(serving)
		return nil
	})
	group.Go(func() error {
		g.certs.Run(serving, g.log)
		return nil
	})
	if g.reloader != nil {
		group.Go(func() error {
			g.reloader.Run(serving)
			return nil
		})
	}
	for _, s := range g.servers() {
		group.Go(func() error { return serve(serving, s) })
	}
	group.Go(func() error {
		defer cancel()
		return g.waitForEnd(ctx, serving)
	})
	g.log.Info("Started", "version", version, "listen", g.options.listen, "mode", g.currentSettings().Mode.String())
	return group.Wait()
}

func (g *guard) waitForEnd(ctx, serving context.Context) error {
	select {
	case <-serving.Done(): // a server has failed
		return nil
	case <-ctx.Done():
	}
	g.ending.Store(true)
	g.log.Info("Ending", "drain", g.options.drain.String())
	select {
	case <-time.After(g.options.drain):
	case <-serving.Done():
	}
	return nil
}

// servers returns what listens where.
func (g *guard) servers() []*http.Server {
	reviews := webhook.HTTPServer(g.mux, g.certs.TLSConfig(), g.log)
	reviews.Addr = g.options.listen
	servers := []*http.Server{reviews, {Addr: g.options.health, Handler: g.healthMux(), ReadHeaderTimeout: 5 * time.Second}}
	if g.observed != nil {
		if !g.options.observe.plain {
			g.observed.TLSConfig = g.certs.TLSConfig()
		}
		servers = append(servers, g.observed)
	}
	return servers
}

func (g *guard) healthMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := g.ready()
		if g.ending.Load() {
			err = errors.New("ending")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		for _, note := range slices.Concat(g.cluster.Notes(), g.trust.Notes(), g.store.Notes(), g.configNotes()) {
			fmt.Fprintln(w, "note:", text.Line(note))
		}
	})
	return mux
}

// serve listens until ctx ends, then lets the requests under way finish. A server
// with a TLS configuration speaks TLS.
func serve(ctx context.Context, s *http.Server) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- s.Shutdown(end)
	}()
	if s.TLSConfig != nil {
		err = s.ServeTLS(listener, "", "")
	} else {
		err = s.Serve(listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", s.Addr, err)
	}
	return <-stopped
}

// shutdownTimeout is longer than any review may take (webhook.TimeoutSeconds).
const shutdownTimeout = (webhook.TimeoutSeconds + 5) * time.Second
