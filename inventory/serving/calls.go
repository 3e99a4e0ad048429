package serving

import (
	"maps"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	var all []*admissionregistrationv1.ValidatingWebhookConfiguration
	for _, name := range slices.Sorted(maps.Keys(c.held)) {
		all = append(all, c.held[name])
	}
	return all
}

// Put implements follow.Sink.
func (c *calls) Put(o *follow.Object) {
	c.mu.Lock()
	c.put(o)
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

// Remove implements follow.Sink.
func (c *calls) Remove(_, name string) {
	c.mu.Lock()
	delete(c.held, name)
	c.mu.Unlock()
	c.changed()
}

// Replace implements follow.Sink.
func (c *calls) Replace(all []*follow.Object, _ error) {
	c.mu.Lock()
	c.held = nil
	for _, o := range all {
		c.put(o)
	}
	c.mu.Unlock()
	c.changed()
}
