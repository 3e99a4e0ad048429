// Package manifests holds what a cluster needs to run the guard: a kustomize base for
// `kubectl apply -k manifests/base`.
//
// The files are embedded so that a test or demo that runs the guard outside of a
// cluster registers the same webhooks as a cluster gets.
package manifests

import (
	"embed"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// Base holds the kustomize base in the folder "base".
//
//go:embed base
var Base embed.FS

// webhookFile is the file that registers the webhooks.
const webhookFile = "base/validatingwebhookconfiguration.yaml"

// WebhookConfiguration returns the webhook configuration of the base, which
// reaches the guard through its service. The caller owns it.
func WebhookConfiguration() (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	data, err := Base.ReadFile(webhookFile)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", webhookFile, err)
	}
	var c admissionregistrationv1.ValidatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("reading %s: %w", webhookFile, err)
	}
	return &c, nil
}
