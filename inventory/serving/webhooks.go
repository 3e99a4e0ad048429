package serving

import (
	"net/url"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
)

// webhooksOf returns what the certificate is verified by, for each webhook of c.
func webhooksOf(c *admissionregistrationv1.ValidatingWebhookConfiguration) []certs.Webhook {
	var webhooks []certs.Webhook
	for _, hook := range c.Webhooks {
		w := certs.Webhook{Name: hook.Name, CABundle: hook.ClientConfig.CABundle}
		switch service, address := hook.ClientConfig.Service, hook.ClientConfig.URL; {
		case service != nil:
			// k8s.io/apiserver, pkg/util/webhook, ClientManager.hookClientConfigForWebhook
			w.Host = service.Name + "." + service.Namespace + ".svc"
		case address != nil:
			w.ByURL, w.Host = true, hostOf(*address)
		}
		webhooks = append(webhooks, w)
	}
	return webhooks
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "" // the API server validates it
	}
	return u.Hostname()
}
