package cluster

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is how long programs may take to start and to end, and CRDs to be served. On a
// busy machine that takes longer than envtest's 20 s and 10 s.
const startTimeout = 2 * time.Minute

// startAttempts is how often a control plane is started. Each of its programs is told a port that
// another may have taken when it is used, and envtest's own attempts are all with the same port.
// Nor does envtest wait more than 5 s for the namespace "default".
const startAttempts = 4

// StartEnvironment starts a control plane that describe describes. The caller stops it.
func StartEnvironment(describe func() *envtest.Environment) (*envtest.Environment, error) {
	var errs []error
	for range startAttempts {
		env := describe()
		env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = startTimeout, startTimeout
		env.CRDInstallOptions.MaxTime = startTimeout
		_, err := env.Start()
		if err == nil {
			return env, nil
		}
		errs = append(errs, err, env.Stop())
	}
	return nil, fmt.Errorf("starting the control plane: %w", errors.Join(errs...))
}

// InstallCRDs has an API server serve CRDs.
func InstallCRDs(config *rest.Config, crds envtest.CRDInstallOptions) error {
	crds.MaxTime = startTimeout
	_, err := envtest.InstallCRDs(config, crds)
	return err
}
