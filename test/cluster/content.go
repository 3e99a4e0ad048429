package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// content is all that a cluster holds: objects by their UID.
type content map[types.UID]object

type object struct {
	resource        schema.GroupVersionResource
	namespace, name string
	generation      int64
	held            bool // by finalizers
}

// own are resources whose objects the API server makes and deletes by itself. mayGo's end by
// themselves.
var (
	own   = []string{"componentstatuses", "ipaddresses", "apiservices"}
	mayGo = []string{"events", "leases", "endpoints", "endpointslices"}
)

// contentOf lists all objects of a cluster but its own ones.
func contentOf(ctx context.Context, config *rest.Config) (content, error) {
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // of a CRD that has just gone
		return nil, err
	}
	all := content{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(own, r.Name) || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			resource := group.WithResource(r.Name)
			objects, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // its CRD has gone
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", resource, err)
			}
			for _, o := range objects.Items {
				all[o.UID] = object{resource, o.Namespace, o.Name, o.Generation, len(o.Finalizers) > 0}
			}
		}
	}
	return all, nil
}

// restore deletes what has come to a cluster since it had the content c, and installs OpenShift's CRDs again if
// one was replaced. It is an error if something else has gone.
func (c content) restore(ctx context.Context, config *rest.Config) error {
	var left []string
	var refused error
	replaced := false
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		now, err := contentOf(ctx, config)
		if err != nil {
			return false, err
		}
		left = left[:0]
		var came []object
		for uid, o := range now {
			if _, was := c[uid]; !was {
				came = append(came, o)
				left = append(left, fmt.Sprintf("%s %s/%s", o.resource.Resource, o.namespace, o.name))
			}
		}
		// Reviewers of deletions go first, and namespaces, which take nothing else, and CRDs last.
		slices.SortFunc(came, func(a, b object) int { return rank(a) - rank(b) })
		for uid, o := range c {
			is, there := now[uid]
			switch definition := o.resource.Resource == "customresourcedefinitions"; {
			case definition && (!there || is.generation != o.generation):
				replaced = true
			case !there && !slices.Contains(mayGo, o.resource.Resource):
				return false, fmt.Errorf("the test has deleted %s %s/%s", o.resource.Resource, o.namespace, o.name)
			}
		}
		refused = remove(ctx, config, came) // as long as a review of deletions that has gone is still in effect
		return len(came) == 0, nil
	})
	if err != nil && len(left) > 0 {
		return fmt.Errorf("%w: %w; left: %s", err, refused, strings.Join(left, ", "))
	}
	if err != nil || !replaced {
		return err
	}
	crds, err := openshiftCRDs()
	if err != nil {
		return err
	}
	return InstallCRDs(config, envtest.CRDInstallOptions{Paths: crds})
}

func rank(o object) int {
	switch o.resource.Resource {
	case "validatingwebhookconfigurations", "validatingadmissionpolicybindings", "mutatingwebhookconfigurations":
		return 0
	case "namespaces":
		return 2
	case "customresourcedefinitions":
		return 3
	default:
		return 1
	}
}

func remove(ctx context.Context, config *rest.Config, objects []object) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var all []error
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for _, o := range objects {
		of := client.Resource(o.resource).Namespace(o.namespace)
		var errs []error
		if o.held && o.resource.Resource != "customresourcedefinitions" { // whose finalizer the API server sees to
			_, err := of.Patch(ctx, o.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			errs = append(errs, err)
		}
		errs = append(errs, of.Delete(ctx, o.name, now))
		if o.resource.Resource == "namespaces" { // there is no controller that would end it
			_, err := kube.CoreV1().Namespaces().Finalize(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.name}}, metav1.UpdateOptions{})
			errs = append(errs, err)
		}
		for _, err := range errs {
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				all = append(all, fmt.Errorf("%s %s: %w", o.resource.Resource, o.name, err))
			}
		}
	}
	return errors.Join(all...)
}
