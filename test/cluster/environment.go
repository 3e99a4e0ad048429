package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
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
	setLogger()
	var errs []error
	for range startAttempts {
		env := describe()
		env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = startTimeout, startTimeout
		env.CRDInstallOptions.MaxTime = startTimeout
		_, err := env.Start()
		if err == nil {
			return env, noteStart()
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

// UninstallCRDs takes CRDs away, and returns when they are gone and not served any more. The API
// server deletes the objects first, in the background; the same CRD, installed meanwhile, would
// go with them.
func UninstallCRDs(config *rest.Config, crds envtest.CRDInstallOptions) error {
	if err := envtest.ReadCRDFiles(&crds); err != nil {
		return err
	}
	crds.Paths = nil
	if err := envtest.UninstallCRDs(config, crds); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, crd := range crds.CRDs {
		definitions := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
		err := awaitNotFound(func(ctx context.Context) error {
			_, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
			return err
		})
		for _, version := range crd.Spec.Versions {
			objects := client.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural})
			err = errors.Join(err, awaitNotFound(func(ctx context.Context) error {
				_, err := objects.List(ctx, metav1.ListOptions{})
				return err
			}))
		}
		if err != nil {
			return fmt.Errorf("waiting until the CRD %s is gone: %w", crd.Name, err)
		}
	}
	return nil
}

func awaitNotFound(get func(context.Context) error) error {
	return wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(get(ctx)), nil
	})
}
