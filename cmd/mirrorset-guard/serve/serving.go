package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/certs/tlsprofile"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/serving"
	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// A tlsServing has the certificate and the TLS profile with which the guard serves.
type tlsServing struct {
	certs        *certs.Reloader
	observed     *certs.Reloader // of /metrics and /inventory; nil for the same
	verification *certs.Verification
	cluster      *serving.Follower
	clients      *certs.Clients // nil for anybody
}

// prepareServing reads the certificate, and makes what follows how to serve.
func (g *guard) prepareServing(cluster *rest.Config) (err error) {
	if g.tls.certs, err = certs.Load(g.options.tlsDir); err != nil {
		return err
	}
	if dir := g.options.observe.tlsDir; dir != "" {
		if g.tls.observed, err = certs.Load(dir); err != nil {
			return fmt.Errorf("--metrics-tls-dir: %w", err)
		}
	}
	if g.options.clientCA == "" {
		g.log.Info("Any pod that reaches the port may ask for reviews, as there is no --client-ca (docs/tls.md)")
	} else {
		if g.tls.clients, err = certs.LoadClients(g.options.clientCA); err != nil {
			return fmt.Errorf("--client-ca: %w", err)
		}
	}
	installed, err := manifests.WebhookConfiguration()
	if err != nil {
		return err
	}
	g.tls.cluster, err = serving.Follow(cluster, serving.Options{
		WebhookConfiguration: webhook.ServiceName, Installed: installed, OnProfile: g.logProfile, Logger: g.log,
	})
	if err != nil {
		return err
	}
	g.tls.verification = certs.NewVerification(g.tls.certs, g.tls.cluster.Webhooks)
	g.registry.MustRegister(g.tls.cluster.Metrics(), certs.Metrics(g.tls.certs, g.tls.verification))
	return nil
}

func (g *guard) logProfile(p tlsprofile.Profile) {
	g.log.Info("TLS profile in force", "profile", p.Name, "minVersion", tls.VersionName(p.MinVersion), "problems", p.Problems)
}

// config is that of a server over TLS.
func (s *tlsServing) config() *tls.Config { return s.certs.TLSConfig(s.cluster.Profile) }

// observedConfig is that of the server for /metrics and /inventory.
func (s *tlsServing) observedConfig() *tls.Config {
	if s.observed == nil {
		return s.config()
	}
	return s.observed.TLSConfig(s.cluster.Profile)
}

// reviewsConfig is that of the server for reviews.
func (s *tlsServing) reviewsConfig() *tls.Config {
	if s.clients == nil {
		return s.config()
	}
	return s.clients.TLSConfig(s.config())
}

// authenticator returns what says why a request is not from an API server; nil if that is not known.
func (s *tlsServing) authenticator() func(*http.Request) error {
	if s.clients == nil {
		return nil
	}
	return func(r *http.Request) error { return s.clients.Verify(r.TLS) }
}

// ready returns the TLS problem that should keep the API server from calling this replica. A review
// that comes all the same is answered.
func (s *tlsServing) ready() error { return errors.Join(s.cluster.Ready(), s.verification.Ready()) }

// notes lists the faults in how the guard serves.
func (s *tlsServing) notes() []string {
	notes := append(s.verification.Notes(), s.cluster.Notes()...)
	if s.observed != nil && s.observed.Err() != nil {
		notes = append(notes, "an earlier certificate is in use for metrics: "+s.observed.Err().Error())
	}
	if s.clients != nil && s.clients.Err() != nil {
		notes = append(notes, "earlier CAs of clients are in use: "+s.clients.Err().Error())
	}
	return notes
}
