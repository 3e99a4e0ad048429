package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
)

// TrustSettings returns the objects in the dump that determine which CAs nodes trust.
// They must not be changed. ConfigMaps that it does not hold are Unread: they may well exist.
func (s *Snapshot) TrustSettings() trust.Settings {
	settings := trust.Settings{
		ClusterProxy: s.Proxy(), CredentialProviders: s.CredentialProviders(), ConfigMaps: s.bundles.sorted(),
	}
	if name := s.set.TrustedCA; name != "" {
		settings.Image = &configv1.Image{Spec: configv1.ImageSpec{AdditionalTrustedCA: configv1.ConfigMapNameReference{Name: name}}}
	}
	for _, name := range trust.BundleNames(settings) {
		if s.bundles[name.String()] == nil {
			settings.Unread = append(settings.Unread, name.String())
		}
	}
	return settings
}

// lackingBundles lists the ConfigMaps that objects in the dump name and that it lacks.
func (s *Snapshot) lackingBundles() []string {
	var notes []string
	settings := s.TrustSettings()
	for _, name := range trust.NamedBundles(settings) {
		if slices.Contains(settings.Unread, name.String()) {
			notes = append(notes, fmt.Sprintf("the dump lacks ConfigMap %s: nodes may trust CAs for registries that are not trusted here", name))
		}
	}
	return notes
}

var configMapKind = schema.GroupKind{Kind: "ConfigMap"}

// isConfigMapOfUse reports whether text may be a ConfigMap of CAs, one of images, or one that
// keeps MCO from draining. Those that an update depends on are in namespaces of the same beginning. A cluster has thousands of others, which need not be parsed.
func isConfigMapOfUse(text []byte) bool {
	return slices.ContainsFunc([]string{trust.BundlesNamespace, "images", workloads.DrainOverride.Name},
		func(word string) bool { return bytes.Contains(text, []byte(word)) })
}

// bundle keeps a ConfigMap that may hold CAs, and searches others for images.
func (r *reader) bundle(data []byte) error {
	var cm corev1.ConfigMap
	if err := json.Unmarshal(data, &cm); err != nil {
		return err
	}
	if cm.Namespace == workloads.DrainOverride.Namespace && cm.Name == workloads.DrainOverride.Name {
		r.override = true
		return nil
	}
	if objects.IsOfUpdates(&cm) {
		r.updating.put(objects.TrimUpdateConfig(&cm))
		return nil
	}
	if !trust.MayBeBundle(&cm) {
		return r.guess(configMapKind, data)
	}
	r.bundles.put(&cm)
	return nil
}

// updates writes the FeatureGate and the ConfigMaps that an update depends on, except for those that trusted has.
func (w *writer) updates(u *objects.UpdateConfig, trusted trust.Settings) {
	written := trust.BundleNames(trusted)
	for _, cm := range append(slices.Clone(u.Signatures), u.Verification) {
		if cm != nil && !slices.Contains(written, types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}) {
			w.object(corev1.SchemeGroupVersion.WithKind(configMapKind.Kind), cm)
		}
	}
	if u.FeatureGate != nil && u.FeatureGate.Name != "" {
		w.object(configv1.GroupVersion.WithKind("FeatureGate"), u.FeatureGate)
	}
}

// trusted writes the ConfigMaps that nodes read CAs from. It leaves out all others of openshift-config.
func (w *writer) trusted(settings trust.Settings) {
	for _, name := range trust.BundleNames(settings) {
		for _, cm := range settings.ConfigMaps {
			if cm.Namespace == name.Namespace && cm.Name == name.Name {
				w.object(corev1.SchemeGroupVersion.WithKind(configMapKind.Kind), trust.TrimBundle(cm))
			}
		}
	}
}
