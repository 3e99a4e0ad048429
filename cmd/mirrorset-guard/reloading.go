package main

import (
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// currentSettings are those in force.
func (g *guard) currentSettings() policy.Settings { return *g.settings.Load() }

// prepareReloading makes what puts the configuration file in force again whenever it changes,
// if there is one.
func (g *guard) prepareReloading() error {
	if g.options.config.path == "" {
		return nil
	}
	metrics, err := config.NewMetrics(g.registry)
	if err != nil {
		return err
	}
	g.reloader, err = config.NewReloader(config.Options{
		Path:    g.options.config.path,
		Accept:  g.configure,
		Report:  config.Events(g.events, g.replica, theGuard),
		Metrics: metrics,
		Log:     g.log.WithName("config"),
	})
	if err != nil {
		return configError(err)
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

// configure puts file in force, with the flags.
func (g *guard) configure(file config.Configuration) error {
	configured, err := g.options.config.merge(file, &g.options.policy, &g.options.registries)
	if err != nil {
		return err
	}
	if err := g.configureAudit(configured.audit); err != nil {
		return err
	}
	g.registries.Client.SetPaces(configured.paces)
	g.registries.SetLifetimes(configured.lifetimes)
	g.settings.Store(&configured.settings)
	return nil
}
