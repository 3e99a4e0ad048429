package serve

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/review/healing"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
)

// prepareHealing makes what copies back what mirrors have lost, once the configuration asks for it. Its
// state and its Secret are in the namespace of the other Leases.
func (g *guard) prepareHealing(cluster *rest.Config, s healing.Settings) error {
	kube, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("making a client to copy back images: %w", err)
	}
	log, namespace := g.log.WithName("heal"), g.options.standing.namespace
	g.healer, err = healing.New(healing.Options{
		Registries:  g.registries.Client,
		Credentials: pushSecrets(kube.CoreV1().Secrets(namespace), namespace),
		Lease:       healing.NewLease(kube.CoordinationV1(), namespace, g.replica),
		Outlet:      report.Outlet{Reporter: report.Events(g.events, healing.Author(g.replica), &theGuard), Budget: report.NewBudget(), Log: log},
		Record:      func(h auditv1alpha1.Healing) { g.audit.Heal(h) },
		Log:         log,
		Metrics:     g.registry,
	})
	if err == nil {
		g.healer.Configure(s)
	}
	return err
}

// pushSecrets reads credentials from a Secret, each time anew: it is asked for when something is to be copied, and
// may have been rotated.
func pushSecrets(secrets clientcorev1.SecretInterface, namespace string) func(context.Context, string) (registry.Credentials, error) {
	return func(ctx context.Context, name string) (registry.Credentials, error) {
		secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return registry.Credentials{}, fmt.Errorf("secret %s/%s with the credentials to push with cannot be read: %w", namespace, name, err)
		}
		data := secret.Data[corev1.DockerConfigJsonKey]
		if len(data) == 0 {
			return registry.Credentials{}, fmt.Errorf("secret %s/%s has no %s", namespace, name, corev1.DockerConfigJsonKey)
		}
		credentials, err := registry.ParseCredentials(data)
		if err != nil {
			return credentials, fmt.Errorf("secret %s/%s: %w", namespace, name, err)
		}
		return credentials, nil
	}
}
