// Package manifests holds what a cluster is given to run the guard: a kustomize
// base for `kubectl apply -k manifests/base`.
//
// The files are embedded so that whoever starts the guard outside of a cluster
// (a test, a demonstration) registers the very webhooks that a cluster gets.
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

// webhookFile is where the webhooks are registered.
const webhookFile = "base/validatingwebhookconfiguration.yaml"

// WebhookConfiguration returns the webhook configuration of the base, which
// reaches the guard by its service. The caller owns it.
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

// WebhookConfigurationAt returns the webhook configuration of the base, changed
// in one point: it reaches a guard that is no service in the cluster, at base
// ("https://127.0.0.1:9443") and the service's path, with a certificate that
// caBundle (PEM) vouches for.
func WebhookConfigurationAt(base string, caBundle []byte) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	c, err := WebhookConfiguration()
	if err != nil {
		return nil, err
	}
	for i := range c.Webhooks {
		client := &c.Webhooks[i].ClientConfig
		url := base + *client.Service.Path
		*client = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	}
	return c, nil
}
