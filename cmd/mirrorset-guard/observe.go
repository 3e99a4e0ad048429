package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/access"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// observeFlags say where the guard can be looked at.
type observeFlags struct {
	address string
	plain   bool
}

func (f *observeFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "metrics-bind-address", "", "where to serve /metrics and /inventory, over TLS, to bearers of a token with the right to read them; empty for nowhere")
	flags.BoolVar(&f.plain, "metrics-plain", false, "serve only /metrics, without TLS and to anyone; for an address that nothing else can reach")
}

// An observer answers there.
type observer struct {
	metrics   prometheus.Gatherer
	inventory *live.Inventory
	log       logr.Logger
}

// server returns the server for f, without its TLS configuration; nil for nowhere.
func (f *observeFlags) server(config *rest.Config, o observer) (*http.Server, error) {
	if f.address == "" {
		return nil, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.metrics, promhttp.HandlerOpts{}))
	if f.plain {
		return &http.Server{Addr: f.address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}, nil
	}
	mux.HandleFunc("GET /inventory", o.list)
	handler, err := access.New(config, mux, o.log)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-address: %w", err)
	}
	s := webhook.HTTPServer(handler, nil, o.log)
	s.Addr = f.address
	return s, nil
}

// list answers with the list of the command inventory, as JSON.
func (o observer) list(w http.ResponseWriter, r *http.Request) {
	selected, err := selectionFrom(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	images, err := o.inventory.Images(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = streamInventory(w, selected.of(images.ByReference())) // the client may have gone
}

// streamInventory writes what the command inventory does with -o json, image by image: all of it, for
// 100,000 references, is hundreds of megabytes.
func streamInventory(to io.Writer, images []policy.Image) error {
	w := bufio.NewWriterSize(to, 64<<10)
	empty, err := json.MarshalIndent(review.InventoryDocument(nil), "", "  ")
	if err != nil {
		return err
	}
	head, tail, _ := bytes.Cut(empty, []byte("[]")) // the list of images, which comes last
	fmt.Fprintf(w, "%s[", head)
	separator := "\n    "
	for i := range images {
		data, err := json.MarshalIndent(review.InventoryDocument(images[i : i+1]).Images[0], "    ", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s%s", separator, text.JSON(data))
		separator = ",\n    "
	}
	if len(images) > 0 {
		fmt.Fprint(w, "\n  ")
	}
	fmt.Fprintf(w, "]%s\n", tail)
	return w.Flush() // which has the error of any Write before
}
