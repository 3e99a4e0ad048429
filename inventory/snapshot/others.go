package snapshot

import (
	"encoding/json"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// keep reads an object and keeps what trim leaves of it.
func keep[T any, P interface {
	*T
	metav1.Object
}](data []byte, trim func(P) P, in *byKey[P]) error {
	o := P(new(T))
	err := json.Unmarshal(data, o)
	if err == nil {
		in.put(trim(o))
	}
	return err
}

// keepKind keeps an object of one of objects.Kinds.
func (r *reader) keepKind(k objects.Kind, data []byte) error {
	o, err := k.Decode(data)
	if err == nil {
		r.kept.Put(k, o)
	}
	return err
}

var machineConfigKind = mcfgv1.GroupVersion.WithKind("MachineConfig")

const providerKind = "CRIOCredentialProviderConfig"

// provider reads a CRIOCredentialProviderConfig of any version: their fields are the same.
func (r *reader) provider(data []byte) error {
	asItIs := func(o *configv1.CRIOCredentialProviderConfig) *configv1.CRIOCredentialProviderConfig { return o }
	return keep(data, asItIs, &r.providers)
}

// featureGate notes the feature set, and whether MCO ignores image policies.
func (r *reader) featureGate(data []byte) error {
	var o configv1.FeatureGate
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	if o.Name != "cluster" {
		return nil
	}
	r.featureSet = objects.TrimFeatureGate(&o)
	r.noPolicies = r.noPolicies || objects.IgnoresImagePolicies(&o)
	return nil
}

var secretKind = schema.GroupKind{Kind: "Secret"}

func isPullSecret(o *metav1.PartialObjectMetadata) bool {
	return o.Namespace == "openshift-config" && o.Name == "pull-secret"
}

// secret keeps the global pull secret, and the service account for which OpenShift has made another
// one. A must-gather blanks the content out, which is not a Problem.
func (r *reader) secret(data []byte) error {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	var secret corev1.Secret
	err := json.Unmarshal(data, &secret)
	switch account := images.GeneratedFor(&secret); {
	case err == nil && isPullSecret(&o):
		r.pullSecret = secret.Data[corev1.DockerConfigJsonKey]
	case err == nil && account != "":
		owner := types.NamespacedName{Namespace: secret.Namespace, Name: account}
		r.generated[owner] = append(r.generated[owner], secret.Name)
	case !isPullSecret(&o):
		r.skipped["Secret"]++
	}
	return nil
}
