package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// ClusterFlags select the cluster to connect to.
type ClusterFlags struct {
	Kubeconfig, context string
}

// AddFlags adds the flags.
func (c *ClusterFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file; default: KUBECONFIG, ~/.kube/config, or the pod's own service account")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig")
}

// Config returns how to reach the cluster.
func (c *ClusterFlags) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no cluster: set KUBECONFIG or --kubeconfig, or read a dump of one with --from")
	}
	if err != nil {
		return nil, fmt.Errorf("no cluster: %w (or read a dump of one with --from)", err)
	}
	return config, nil
}

// RegistryFlags configure the requests to registries.
type RegistryFlags struct {
	cas           []string
	resolve       []string
	allowLoopback bool
	// Configured is what the configuration file says; nil for the defaults.
	Configured *config.Configuration
}

// AddFlags adds the flags.
func (r *RegistryFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.cas, "registry-ca", nil, "PEM file of certificate authorities to trust for registries, in addition to the system's; may be repeated")
	flags.StringArrayVar(&r.resolve, "resolve", nil, "HOST[:PORT]=ADDRESS:PORT: where to find a registry instead of asking DNS; may be repeated")
	flags.BoolVar(&r.allowLoopback, "allow-loopback", false, "ask registries at loopback and link-local addresses too (for tests)")
}

// Options return how a world is opened.
func (r *RegistryFlags) Options() (environment.Options, error) {
	roots, err := r.roots()
	if err != nil {
		return environment.Options{}, err
	}
	resolve, err := r.resolved()
	if err != nil {
		return environment.Options{}, err
	}
	configured := config.Default()
	if r.Configured != nil {
		configured = *r.Configured
	}
	return environment.Options{
		Registry: wire.Options{
			UserAgent: "mirrorset-guard/" + Version, RootCAs: roots, Resolve: resolve, AllowLoopback: r.allowLoopback,
			Rates: configured.Rates(),
		},
		Facts:   presence.Options{Lifetimes: configured.FactLifetimes()},
		Cluster: live.Options{ForbiddenAfter: environment.ForbiddenAfter, ForgoesForbidden: true},
		Trust:   trust.Options{ForbiddenAfter: environment.ForbiddenAfter},
	}, nil
}

func (r *RegistryFlags) roots() (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without any; --registry-ca may do
	}
	for _, file := range r.cas {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--registry-ca: %w", err)
		}
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--registry-ca %s: no certificate in it", file)
		}
	}
	return pool, nil
}

func (r *RegistryFlags) resolved() (map[string]string, error) {
	resolve := map[string]string{}
	for _, entry := range r.resolve {
		host, addr, ok := strings.Cut(entry, "=")
		if !ok || host == "" || !strings.Contains(addr, ":") {
			return nil, fmt.Errorf("--resolve %q: want HOST=ADDRESS:PORT or HOST:PORT=ADDRESS:PORT", entry)
		}
		resolve[host] = addr
	}
	return resolve, nil
}

// WorldFlags select the input of check and explain: a cluster or a dump of one, and the
// registries.
type WorldFlags struct {
	cluster    ClusterFlags
	Registries RegistryFlags
	From       string
	pullSecret string
}

// AddFlags adds the flags.
func (w *WorldFlags) AddFlags(flags *pflag.FlagSet) {
	w.cluster.AddFlags(flags)
	w.Registries.AddFlags(flags)
	flags.StringVar(&w.From, "from", "", "read the cluster from a dump: a YAML or JSON file, a folder of manifests, or - (standard input)")
	flags.StringVar(&w.pullSecret, "pull-secret", "", "file with the nodes' credentials (.dockerconfigjson); default: Secret openshift-config/pull-secret of the cluster or dump")
}

// Open reads the whole world. It is to be closed.
func (w *WorldFlags) Open(ctx context.Context, io Streams) (*environment.World, error) {
	return w.openWith(ctx, io, true)
}

// OpenMirrors is open for commands that need no images.
func (w *WorldFlags) OpenMirrors(ctx context.Context, io Streams) (*environment.World, error) {
	return w.openWith(ctx, io, false)
}

// headroom is taken by Go for memory in use, so that as many bytes of garbage are left lying: a command that runs for seconds spends
// a tenth of them on looking for it otherwise. A check of a release has some 20 MB in use. They take memory only as they are used.
var headroom = sync.OnceValue(func() []byte { return make([]byte, 64<<20) })

func (w *WorldFlags) openWith(ctx context.Context, io Streams, images bool) (*environment.World, error) {
	options, err := w.Registries.Options()
	if err != nil {
		return nil, err
	}
	_ = headroom()
	options.OwnCredentials = w.pullSecret != ""
	open, err := w.openCluster(options, io, snapshot.Options{NoWorkloads: !images})
	if err != nil {
		return nil, err
	}
	if images && open.Live != nil {
		err = open.Read(ctx, io.Err)
	}
	if err == nil && w.pullSecret != "" {
		var data []byte
		if data, err = ReadPullSecret(w.pullSecret); err == nil {
			open.Registries.SetCredentials(data, nil)
		}
	}
	if err != nil {
		open.Close()
		return nil, err
	}
	return open, nil
}

func (w *WorldFlags) openCluster(o environment.Options, io Streams, of snapshot.Options) (*environment.World, error) {
	if w.From == "" {
		config, err := w.cluster.Config()
		if err != nil {
			return nil, err
		}
		return environment.New(config, o)
	}
	dump, err := ReadDump(w.From, io, of)
	if err != nil {
		return nil, err
	}
	return environment.FromDump(dump, o), nil
}

// ReadDump reads a dump, and says on standard error what of it could not be read.
func ReadDump(from string, io Streams, o snapshot.Options) (*snapshot.Snapshot, error) {
	dump, err := readSnapshot(from, io, o)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	for _, problem := range dump.Problems() {
		io.Note("--from: %v", problem)
	}
	return dump, nil
}

func readSnapshot(from string, io Streams, o snapshot.Options) (*snapshot.Snapshot, error) {
	if from == "-" {
		return o.Stream(io.In, "standard input")
	}
	return o.File(from)
}

// ReadPullSecret reads the file of --pull-secret.
func ReadPullSecret(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--pull-secret: %w", err)
	}
	return data, nil
}
