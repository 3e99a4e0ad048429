package serve

import (
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
)

// currentSettings are those in force.
func (g *guard) currentSettings() policy.Settings { return *g.settings.Load() }

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
	configured := cli.ConfigurationOf(file)
	if err := g.configureAudit(configured.AuditLog); err != nil {
		return err
	}
	g.registries.Client.SetRates(configured.Rates)
	g.registries.SetLifetimes(configured.Lifetimes)
	g.settings.Store(&configured.Settings)
	g.updates.Configure(nextrelease.Setting(configured.Updates))
	return nil
}
