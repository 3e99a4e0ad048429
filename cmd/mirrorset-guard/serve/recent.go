package serve

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// recentTimeout lets a request that hangs be tried again within one review.
const recentTimeout = 3 * time.Second

// newRecent returns the changes that were admitted and may not be stored yet, which replicas
// share where there is an election among them. Config has no limit of requests.
func (g *guard) newRecent(config *rest.Config) (*recent.Edits, error) {
	config = rest.CopyConfig(config)
	config.Timeout = recentTimeout
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for recent changes: %w", err)
	}
	options := recent.Options{
		Stored:        g.cluster.Stored,
		OtherWebhooks: recent.OtherWebhooks(kube.AdmissionregistrationV1(), []string{webhook.MirrorSetsWebhook, webhook.DeletionsWebhook}, mirrors.Resources()),
		Log:           g.log.WithName("recent"),
	}
	if g.options.standing.elect {
		options.Lease = recent.NewLease(kube.CoordinationV1(), g.kube.CoordinationV1(), webhook.Namespace, g.replica, recent.NewSeals(g.tls.certs.Shared))
	}
	edits := recent.New(options)
	g.registry.MustRegister(edits.Metrics())
	return edits, nil
}
