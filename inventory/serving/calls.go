package serving

import (
	"maps"
	"net/url"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// calls holds the webhook configurations by which the API server calls the guard. It is a
// follow.Sink, and safe for concurrent use.
type calls struct {
	changed func() // called after each change

	mu   sync.Mutex
	held map[string]*admissionregistrationv1.ValidatingWebhookConfiguration // by name
}

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

// all returns the configurations, ordered by name. The caller must not change them.
func (c *calls) all() []*admissionregistrationv1.ValidatingWebhookConfiguration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return convert.Each(slices.Sorted(maps.Keys(c.held)), func(name string) *admissionregistrationv1.ValidatingWebhookConfiguration { return c.held[name] })
}

func (c *calls) Put(o *follow.Object) { c.change(func() { c.put(o) }) }

func (c *calls) Remove(_, name string) { c.change(func() { delete(c.held, name) }) }

func (c *calls) Replace(all []*follow.Object, _ error) {
	c.change(func() {
		c.held = nil
		for _, o := range all {
			c.put(o)
		}
	})
}

func (c *calls) change(do func()) {
	c.mu.Lock()
	do()
	c.mu.Unlock()
	c.changed()
}

func (c *calls) put(o *follow.Object) {
	configuration := o.Value.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	if configuration == nil {
		delete(c.held, o.Name)
		return
	}
	if c.held == nil {
		c.held = map[string]*admissionregistrationv1.ValidatingWebhookConfiguration{}
	}
	c.held[o.Name] = configuration
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
