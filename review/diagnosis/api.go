package diagnosis

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// dryRunEviction asks the API server whether it would evict a pod. It says so twice that this
// is a dry run: to the eviction itself, and to webhooks.
func dryRunEviction(ctx context.Context, kube kubernetes.Interface, pod status.PodName) (status.Eviction, error) {
	dryRun := []string{metav1.DryRunAll}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun},
	}
	err := kube.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		VersionedParams(&metav1.CreateOptions{DryRun: dryRun}, scheme.ParameterCodec).
		MaxRetries(0). // a refusal is an answer
		Body(eviction).Do(ctx).Error()
	return evictionOf(err)
}

// evictionOf tells an answer from the lack of one. A budget refuses with 429, two budgets of one
// pod with 500 (pkg/registry/core/pod/storage/eviction.go in k8s.io/kubernetes).
func evictionOf(err error) (status.Eviction, error) {
	if err == nil || apierrors.IsNotFound(err) {
		return status.Eviction{Allowed: true}, nil
	}
	words := text.Line(err.Error())
	if _, ofBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ofBudget {
		return status.Eviction{Budgets: true, Words: withCauses(err)}, nil
	}
	switch {
	case apierrors.IsInternalError(err) && strings.Contains(words, "more than one PodDisruptionBudget"):
		return status.Eviction{Budgets: true, Words: words}, nil
	case isAdmission(err):
		return status.Eviction{Words: words}, nil
	default:
		return status.Eviction{}, err
	}
}

// isAdmission reports whether a webhook or a policy for admission has refused. They choose the
// code: mostly 403 or 422.
func isAdmission(err error) bool {
	return strings.Contains(err.Error(), "admission webhook") || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) && !isMissingRight(err)
}

// withCauses returns the words of an error with those of its causes, which name the budget.
func withCauses(err error) string {
	words := []string{err.Error()}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Details != nil {
		for _, c := range answer.Status().Details.Causes {
			words = append(words, c.Message)
		}
	}
	return text.Line(strings.Join(words, " "))
}

// maxRequests is how many CertificateSigningRequests are read: kubelets make one every few
// minutes, and the API server keeps them for a day.
const maxRequests = 5000

// askRequests reads which certificates kubelets wait for.
func (a *asker) askRequests(ctx context.Context) {
	list, err := a.kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{Limit: maxRequests})
	if err != nil {
		a.note("whether a kubelet waits for a certificate could not be read (this requires the right to list certificatesigningrequests.certificates.k8s.io): %v", err)
		a.evidence.Requests = []status.CertificateRequest{}
		return
	}
	a.evidence.Requests = pendingRequests(list.Items)
}

// pendingRequests returns those of kubelets that were neither approved nor denied, the latest of each
// node: only that one has a key which the kubelet still has.
func pendingRequests(all []certificatesv1.CertificateSigningRequest) []status.CertificateRequest {
	pending := []status.CertificateRequest{}
	slices.SortStableFunc(all, func(a, b certificatesv1.CertificateSigningRequest) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for i := range all {
		node := nodeOfRequest(&all[i])
		isKnown := func(r status.CertificateRequest) bool { return r.Node == node }
		if len(all[i].Status.Conditions) == 0 && len(all[i].Status.Certificate) == 0 && node != "" && !slices.ContainsFunc(pending, isKnown) {
			pending = append(pending, status.CertificateRequest{Name: all[i].Name, Node: node})
		}
	}
	return pending
}

// nodeOfRequest returns the node whose kubelet makes a request, "" for another. By whom it was
// made does not matter: a node that has no certificate any more asks as the bootstrapper.
func nodeOfRequest(r *certificatesv1.CertificateSigningRequest) string {
	switch r.Spec.SignerName {
	case certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName:
	default:
		return ""
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return ""
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	node, ok := strings.CutPrefix(request.Subject.CommonName, "system:node:")
	if !ok {
		return ""
	}
	return node
}

// askConfigs reads which MachineConfigs there are, without their content.
func (a *asker) askConfigs(ctx context.Context) {
	a.evidence.Configs = []status.MachineConfig{}
	client, err := metadata.NewForConfig(a.config)
	if err == nil {
		var list *metav1.PartialObjectMetadataList
		list, err = client.Resource(mcfgv1.GroupVersion.WithResource("machineconfigs")).List(ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(list.Items); i++ {
			if m := &list.Items[i]; !isRendered(m) {
				a.evidence.Configs = append(a.evidence.Configs, status.MachineConfig{Name: m.Name, Labels: m.Labels, Owned: rollout.OwnerOf(m) != nil})
			}
		}
	}
	if err != nil {
		a.note("which MachineConfigs are new could not be read (this requires the right to list machineconfigs.machineconfiguration.openshift.io): %v", err)
	}
}

// isRendered reports whether MCO has made a MachineConfig for a pool of all that it selects.
func isRendered(m metav1.Object) bool {
	isPool := func(o metav1.OwnerReference) bool { return o.Kind == "MachineConfigPool" }
	return strings.HasPrefix(m.GetName(), "rendered-") && slices.ContainsFunc(m.GetOwnerReferences(), isPool)
}
