package app

import (
	"crypto/fips140"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and those of the nodes' code it was built with",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "mirrorset-guard %s %s/%s %s\n", cli.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			for _, path := range []string{"github.com/openshift/runtime-utils", "github.com/containers/image/v5", "github.com/openshift/api"} {
				fmt.Fprintf(cmd.OutOrStdout(), "  %s %s\n", path, moduleVersion(path))
			}
			_, fipsErr := fmt.Fprintf(cmd.OutOrStdout(), "  FIPS 140-3 module %s, %s\n", fips140.Version(), fipsMode())
			return errors.Join(err, fipsErr)
		},
	}
}

// fipsMode says whether Go's FIPS 140-3 module is used as certified. Version latest is not certified: make
// build FIPS=1 builds with the version that is.
func fipsMode() string {
	switch {
	case fips140.Enforced():
		return "on; what it does not approve is refused"
	case fips140.Enabled():
		return "on"
	default:
		return "off"
	}
}

// moduleVersion returns the version of a module that this program is built with.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return "unknown"
}
