//go:build integration

package cluster

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestInventoryReadsImagePolicies: those of all namespaces, read anew each time, but where
// their feature gate is off.
func TestInventoryReadsImagePolicies(t *testing.T) {
	cfg := fromAPIServer(t)
	install(t, cfg, "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_clusterimagepolicies.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagepolicies.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_featuregates.crd.yaml")
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dyn := dynamic.NewForConfigOrDie(cfg)
	policy := func(scope string) map[string]any {
		return map[string]any{"scopes": []any{scope}, "policy": map[string]any{"rootOfTrust": map[string]any{
			"policyType": "PublicKey",
			"publicKey":  map[string]any{"keyData": "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KQUE9PQotLS0tLUVORCBQVUJMSUMgS0VZLS0tLS0K"},
		}}}
	}
	names := func() string {
		t.Helper()
		set, err := c.Mirrors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, o := range set.Policies {
			all = append(all, mirrors.NameOf(o))
		}
		return strings.Join(all, ", ")
	}
	create(t, dyn, "config.openshift.io/v1", "ClusterImagePolicy", "clusterimagepolicies", "signed", policy("quay.io/a"))
	if got, want := names(), "ClusterImagePolicy signed"; got != want {
		t.Errorf("policies %q, want %q", got, want)
	}
	imagePolicy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "ImagePolicy", "metadata": map[string]any{"name": "signed"}, "spec": policy("quay.io/b"),
	}}
	if _, err := dyn.Resource(resourceOf(configv1.GroupName, "v1", "imagepolicies")).Namespace("default").Create(t.Context(), imagePolicy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := names(), "ClusterImagePolicy signed, ImagePolicy default/signed"; got != want {
		t.Errorf("policies %q, want %q", got, want)
	}
	set, err := c.Mirrors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := c.Stored(t.Context(), []mirrors.Edit{mirrors.Put(set.Policies[0]), mirrors.Put(set.Policies[1])})
	if err != nil || !stored.Equal(mirrors.Set{Policies: set.Policies}) {
		t.Errorf("read one by one: %v, %v", err, stored)
	}
	create(t, dyn, "config.openshift.io/v1", "FeatureGate", "featuregates", "cluster", map[string]any{"featureSet": "TechPreviewNoUpgrade"})
	if u, err := c.UpdateConfig(t.Context()); err != nil || u.FeatureGate == nil || u.FeatureGate.Spec.FeatureSet != configv1.TechPreviewNoUpgrade {
		t.Errorf("the feature set: %+v, %v", u, err)
	}
	off := []byte(`{"status": {"featureGates": [{"version": "4.20.0", "disabled": [{"name": "SigstoreImageVerification"}], "enabled": []}]}}`)
	if _, err := dyn.Resource(resourceOf(configv1.GroupName, "v1", "featuregates")).Patch(t.Context(), "cluster", types.MergePatchType, off, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "" {
		t.Errorf("policies %q, though MCO ignores them", got)
	}
}
