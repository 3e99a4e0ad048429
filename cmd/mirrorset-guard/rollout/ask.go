package rollout

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/review/diagnosis"
)

// askFlags configure the questions of a diagnosis beyond reading objects.
type askFlags struct {
	registries cli.RegistryFlags
	pullSecret string
	offline    bool
	timeout    time.Duration
}

func (a *askFlags) addFlags(flags *pflag.FlagSet) {
	a.registries.AddFlags(flags)
	flags.StringVar(&a.pullSecret, "pull-secret", "", "file with the nodes' credentials (.dockerconfigjson); default: Secret openshift-config/pull-secret of the cluster")
	flags.BoolVar(&a.offline, "offline", false, "use the objects alone: ask no registry, and send no dry-run evictions; implied by --from")
	flags.DurationVar(&a.timeout, "timeout", 20*time.Second, "how long to ask before answering with what is known")
}

// options say whom a diagnosis asks.
func (a *askFlags) options() diagnosis.Options {
	o := diagnosis.Options{Offline: a.offline, World: a.registries.Options, Timeout: a.timeout}
	if a.pullSecret != "" {
		o.PullSecret = func() ([]byte, error) { return cli.ReadPullSecret(a.pullSecret) }
	}
	return o
}
