package serve

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/election"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// prepareMetrics registers the metrics of the process as a whole.
func (g *guard) prepareMetrics() {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mirrorset_guard_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": cli.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	ready := prom.Gauge("mirrorset_guard_ready", "1 if this replica can review changes, 0 while it cannot: see /readyz for the reason.",
		func(give prom.Give) { give(prom.Bool(g.notReady() == nil)) })
	g.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build, prom.Sources{ready}, g.options.lines.lost,
	)
}

// prepareAudit makes what records decisions in a place.
func (g *guard) prepareAudit(to string) (err error) {
	g.audit, err = auditlog.New(auditlog.Options{
		Stdout: g.options.stdout, Guard: auditv1alpha1.Guard{Version: cli.Version, Replica: g.replica}, Metrics: g.registry, Log: g.log.WithName("audit"),
	})
	if err != nil {
		return err
	}
	return g.configureAudit(to)
}

// configureAudit directs records to a place. The name of a file may have that of the pod in it, which
// survives a restart of the container.
func (g *guard) configureAudit(to string) error {
	pod, _, _ := strings.Cut(g.replica, "_")
	return g.audit.Configure(strings.ReplaceAll(to, "{replica}", pod))
}

// recentTimeout lets a request that hangs be tried again within one review.
const recentTimeout = 3 * time.Second

// newRecent returns the changes that were admitted and may not be stored yet, which replicas
// share where there is an election among them. Config has no limit of requests.
func (g *guard) newRecent(config *rest.Config) (*recent.Edits, error) {
	config = rest.CopyConfig(config)
	config.Timeout = recentTimeout
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for recent changes: %w", err)
	}
	options := recent.Options{
		Stored:        g.cluster.Stored,
		OtherWebhooks: recent.OtherWebhooks(kube.AdmissionregistrationV1(), []string{webhook.MirrorSetsWebhook, webhook.DeletionsWebhook}, mirrors.Resources()),
		Log:           g.log.WithName("recent"),
	}
	if g.options.standing.elect {
		options.Lease = recent.NewLease(kube.CoordinationV1(), g.kube.CoordinationV1(), webhook.Namespace, g.replica, recent.NewSeals(g.tls.certs.Shared))
	}
	edits := recent.New(options)
	g.registry.MustRegister(edits.Metrics())
	return edits, nil
}

// prepareUpdates makes what judges the release that the cluster is to be updated to, once the configuration asks for
// it.
func (g *guard) prepareUpdates(reviewer review.Reviewer, s nextrelease.Setting) error {
	elsewhere := "another replica judges it: the one that holds Lease " + webhook.Namespace + "/" + election.LeaseName
	if g.options.standing.every == 0 {
		elsewhere = "it is not judged, as nothing is verified (--verify-every 0)"
	}
	log := g.log.WithName("updates")
	var err error
	g.updates, err = nextrelease.New(nextrelease.Options{
		Cluster:   g.cluster,
		Reviewer:  reviewer,
		Store:     g.registries,
		Client:    g.registries.Client,
		Outlet:    watchloop.Outlet{Reporter: g.tellOfUpdate, Log: log},
		Every:     g.options.standing.every,
		Elsewhere: elsewhere,
		Log:       log,
		Metrics:   g.registry,
	})
	if err == nil {
		g.updates.Configure(s)
	}
	return err
}

// nextRelease returns the document about the release that the cluster is to be updated to.
func (g *guard) nextRelease() *v1alpha1.NextRelease { return g.updates.Document() }

// tellOfUpdate writes an Event about the ClusterVersion.
func (g *guard) tellOfUpdate(ctx context.Context, r watchloop.Report) error {
	about := corev1.ObjectReference{APIVersion: configv1.GroupVersion.String(), Kind: "ClusterVersion", Name: "version"}
	if v := g.cluster.ProgressObjects().Version; v != nil {
		about.UID = v.UID // by which kubectl describe finds it
	}
	return events.Write(ctx, g.kube.EventsV1(), nextrelease.Author(g.replica).Event(about, r.Reason, r.Note, r.Warning))
}

// currentSettings are those in force.
func (g *guard) currentSettings() settings.Settings { return *g.settings.Load() }

// prepareReloading makes what puts the configuration file in force again whenever it changes,
// if there is one.
func (g *guard) prepareReloading() error {
	if g.options.config.Path == "" {
		return nil
	}
	metrics, err := config.NewMetrics(g.registry)
	if err != nil {
		return err
	}
	g.reloader, err = config.NewReloader(config.Options{
		Path:    g.options.config.Path,
		Accept:  g.configure,
		Report:  config.Events(g.kube.EventsV1(), g.replica, theGuard),
		Metrics: metrics,
		Log:     g.log.WithName("config"),
	})
	if err != nil {
		return cli.ConfigError(err)
	}
	return nil
}

// configNotes say why the configuration file as it is now is not in force.
func (g *guard) configNotes() []string {
	if g.reloader == nil || g.reloader.Err() == nil {
		return nil
	}
	return []string{"an earlier configuration is in force: " + g.reloader.Err().Error()}
}

// configure puts file in force.
func (g *guard) configure(file config.Configuration) error {
	if err := g.configureAudit(file.AuditLog); err != nil {
		return err
	}
	g.registries.Client.SetRates(file.Rates())
	g.registries.SetLifetimes(file.FactLifetimes())
	g.settings.Store(new(file.Settings()))
	g.updates.Configure(nextrelease.Setting(file.Updates))
	return nil
}
