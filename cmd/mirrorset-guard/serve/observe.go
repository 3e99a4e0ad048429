package serve

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/access"
	"github.com/mirrorset-guard/mirrorset-guard/internal/port"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// observeFlags are the addresses of metrics and inventory.
type observeFlags struct {
	address string
	plain   bool
	tlsDir  string
}

func (f *observeFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "metrics-bind-address", "", "where to serve /metrics, /inventory and /report, over TLS, to bearers of a token with the right to read them; empty for nowhere")
	flags.BoolVar(&f.plain, "metrics-plain", false, "serve only /metrics, without TLS and to anyone; for an address that nothing else can reach")
	flags.StringVar(&f.tlsDir, "metrics-tls-dir", "", "folder of another certificate for /metrics and /inventory, where monitoring trusts another CA than the API server does, as with OLM; if empty, the one in --tls-dir")
}

func (f *observeFlags) validate() error {
	if f.tlsDir != "" && (f.address == "" || f.plain) {
		return fmt.Errorf("--metrics-tls-dir %q: nothing is served with it: set --metrics-bind-address, and not --metrics-plain", f.tlsDir)
	}
	return nil
}

// reports is what the manifests let those get who may see the page in a browser.
var reports = access.Resource{Namespace: webhook.Namespace, Group: "mirrorset-guard.io", Resource: "reports"}

// prepareObserved makes the port for metrics, the inventory and the report, without its TLS configuration, if there is
// an address for it.
func (g *guard) prepareObserved(cluster *rest.Config) error {
	f := g.options.observe
	if f.address == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{}))
	var handler http.Handler = mux
	if !f.plain {
		mux.HandleFunc("GET /inventory", g.listInventory)
		mux.Handle("GET /report", g.newReporter(cluster.Host))
		var err error
		if handler, err = access.New(cluster, mux, map[string]access.Resource{"/report": reports}, g.log); err != nil {
			return fmt.Errorf("--metrics-bind-address: %w", err)
		}
	}
	// Pages take as long as that to be made (reportTime), lists of 100,000 images to be written.
	g.observed = port.New(f.address, handler, nil, port.Limits{Header: 8 << 10, Connections: 128, PerAddress: 64, Answer: reportTime + 5*time.Second}, g.log)
	return nil
}

// listInventory answers with the list of the command inventory, as JSON.
func (g *guard) listInventory(w http.ResponseWriter, r *http.Request) {
	selected, err := review.SelectionFrom(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	images, err := g.cluster.Images(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = review.StreamInventory(w, g.nextRelease(), selected.Of(images.ByReference())) // the client may have gone
}
