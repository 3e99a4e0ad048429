package environment

import (
	"crypto/x509"
	"fmt"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
)

// Registries are registries as the nodes of a cluster see them. They have to be closed.
type Registries struct {
	*presence.Store
	Client *registry.Client

	roots *x509.CertPool
	facts presence.Options
	mu    sync.Mutex // held while credentials are set
	note  string     // on the credentials
}

// NewRegistries returns registries without credentials; SetCredentials gives them some. Images are
// looked up for platforms, which is called from time to time.
func NewRegistries(o Options, platforms func() []string) *Registries {
	client := registry.NewClient(o.Registry, platforms)
	o.Facts.Propose = func(hostRoots map[string]*x509.CertPool) presence.ProposedProber { return client.Propose(hostRoots) }
	return &Registries{Store: presence.NewStore(client, o.Facts), Client: client, roots: o.Registry.RootCAs, facts: o.Facts}
}

// Follow returns what follows the CAs and proxies of the nodes, and asks registries as these say
// while it runs.
func (r *Registries) Follow(config *rest.Config, o trust.Options) (*trust.Follower, error) {
	o.Roots, o.OnChange = r.roots, func(t trust.Trust) { r.Client.SetTrust(t.RootCAs, t.HostRootCAs, t.Proxy) }
	return trust.Follow(config, o)
}

// SetCredentials takes the content of the nodes' pull secret, or why there is none.
func (r *Registries) SetCredentials(dockerConfigJSON []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var credentials pullsecret.Credentials
	if err == nil {
		credentials, err = pullsecret.Parse(dockerConfigJSON)
	}
	note := strings.Join(credentials.Problems(), "; ")
	if err != nil {
		note = fmt.Sprintf("registries were asked without credentials: %v", err)
	}
	r.Client.SetCredentials(credentials)
	r.note = note
	r.SetNote("credentials", note)
}

// Afresh returns r with nothing remembered of the registries; its Store is to be closed.
func (r *Registries) Afresh() *Registries {
	r.mu.Lock()
	defer r.mu.Unlock()
	other := &Registries{Store: presence.NewStore(r.Client, r.facts), Client: r.Client, roots: r.roots, facts: r.facts, note: r.note}
	other.SetNote("credentials", r.note)
	return other
}

// Close ends the requests under way.
func (r *Registries) Close() {
	r.Store.Close()
	r.Client.Close()
}
