package cluster

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// The paths of what MCO holds to the registry lists.
const (
	clusterPolicies   = "/apis/config.openshift.io/v1/clusterimagepolicies"
	namespacePolicies = "/apis/config.openshift.io/v1/imagepolicies"
	featureGates      = "/apis/config.openshift.io/v1/featuregates/cluster"
)

// imagePolicies returns the image policies that MCO heeds. A cluster that does not serve
// the kinds has none. A missing right to read them is an error, as it is for mirror objects:
// without them it is not known whether MCO would apply anything at all.
func (r mirrorReader) imagePolicies(ctx context.Context) ([]mirrors.Object, error) {
	var (
		cluster    []*configv1.ClusterImagePolicy
		namespaced []*configv1.ImagePolicy
		gates      configv1.FeatureGate
	)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		cluster, err = readAll[configv1.ClusterImagePolicy](ctx, r, clusterPolicies)
		return err
	})
	g.Go(func() (err error) {
		namespaced, err = readAll[configv1.ImagePolicy](ctx, r, namespacePolicies)
		return err
	})
	g.Go(func() error { return r.get(ctx, featureGates, nil, &gates) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if objects.IgnoresImagePolicies(&gates) || len(cluster)+len(namespaced) == 0 {
		return nil, nil
	}
	return append(asObjects(cluster), asObjects(namespaced)...), nil
}
