package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/evidence"
)

// askFlags say what a diagnosis may ask besides reading objects.
type askFlags struct {
	registries registryFlags
	pullSecret string
	offline    bool
	timeout    time.Duration
}

func (a *askFlags) addFlags(flags *pflag.FlagSet) {
	a.registries.addFlags(flags)
	flags.StringVar(&a.pullSecret, "pull-secret", "", "file with the nodes' credentials (.dockerconfigjson); default: Secret openshift-config/pull-secret of the cluster")
	flags.BoolVar(&a.offline, "offline", false, "go by the objects alone: ask no registry, and for no eviction as a dry run; with --from nobody is asked anyway")
	flags.DurationVar(&a.timeout, "timeout", 20*time.Second, "how long to ask before answering with what is known")
}

// diagnose asks what the diagnosis of a live cluster wants to know, and says why nodes and pools
// do not move.
func (a *askFlags) diagnose(ctx context.Context, view *rolloutView) (status.Diagnosis, error) {
	set, err := view.source.Mirrors(ctx)
	view.MirrorsUnknown = err
	if view.config == nil || a.offline {
		return status.Diagnose(view.Input, set), nil
	}
	o := evidence.Options{Config: view.config, World: a.registries.options, Timeout: a.timeout}
	if a.pullSecret != "" {
		o.PullSecret = a.readPullSecret
	}
	return evidence.Diagnose(ctx, &view.Input, set, o)
}

func (a *askFlags) readPullSecret() ([]byte, error) {
	data, err := os.ReadFile(a.pullSecret)
	if err != nil {
		return nil, fmt.Errorf("--pull-secret: %w", err)
	}
	return data, nil
}
