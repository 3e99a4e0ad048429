package serving

import (
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
)

// trimWebhooks keeps the webhooks that call the guard: all of the configuration with its name, and those
// of other configurations that were installed under their names.
func (f *Follower) trimWebhooks(o runtime.Object) any {
	c := o.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	hooks := c.Webhooks
	if c.Name != f.options.WebhookConfiguration {
		hooks = slices.DeleteFunc(slices.Clone(hooks), func(w admissionregistrationv1.ValidatingWebhook) bool { return !f.isInstalled(w) })
		if len(hooks) == 0 {
			return (*admissionregistrationv1.ValidatingWebhookConfiguration)(nil)
		}
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Webhooks: hooks}
}

func (f *Follower) isInstalled(w admissionregistrationv1.ValidatingWebhook) bool {
	return slices.ContainsFunc(f.options.Installed.Webhooks, func(was admissionregistrationv1.ValidatingWebhook) bool { return w.Name == was.Name })
}

// registered returns the webhook configurations by which the API server calls the guard, ordered by name.
func (f *Follower) registered() []*admissionregistrationv1.ValidatingWebhookConfiguration {
	all := slices.DeleteFunc(f.calls.All(), func(c *admissionregistrationv1.ValidatingWebhookConfiguration) bool { return c == nil })
	slices.SortFunc(all, func(a, b *admissionregistrationv1.ValidatingWebhookConfiguration) int {
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

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
