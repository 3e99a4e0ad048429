package scenarios

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// A stage sets stories up and takes them away, as a user whose requests are not reviewed. It does what
// kubectl does for such a user, in this process: a story needs up to ten calls, and a kubectl takes half
// a second of a processor each.
type stage struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

const stageHand = "stage-hand"

func newStage(t *testing.T, config *rest.Config) *stage {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: stageHand, Groups: []string{"system:masters"}}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Discovery()))}
}

// each calls do with each object of documents, which are separated by lines of dashes.
func (s *stage) each(t *testing.T, documents []string, do func(dynamic.ResourceInterface, *unstructured.Unstructured) error) {
	t.Helper()
	for _, document := range strings.Split(strings.Join(documents, "\n---\n"), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) == 0 {
			continue
		}
		objects := []*unstructured.Unstructured{o}
		if o.IsList() {
			objects = nil
			if err := o.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range objects {
			if err := do(s.resource(t, o), o); err != nil {
				t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
}

func (s *stage) resource(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	gvk := o.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // its definition may be new
		s.mapper.Reset()
		mapping, err = s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return s.client.Resource(mapping.Resource)
	}
	if o.GetNamespace() == "" {
		return s.client.Resource(mapping.Resource).Namespace(metav1.NamespaceDefault)
	}
	return s.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// apply creates objects as kubectl apply does, which later asks what was applied. One that is there
// already is replaced.
func (s *stage) apply(t *testing.T, documents []string) {
	t.Helper()
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	s.each(t, documents, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		applied, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(applied)
		o.SetAnnotations(annotations)
		_, err = client.Create(t.Context(), o, strict)
		if !apierrors.IsAlreadyExists(err) || o.GetKind() == "Namespace" {
			return ignore(err, apierrors.IsAlreadyExists)
		}
		old, err := client.Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.SetResourceVersion(old.GetResourceVersion())
		_, err = client.Update(t.Context(), o, metav1.UpdateOptions{})
		return err
	})
}

// delete deletes objects as kubectl delete --wait=false does; now takes pods away at once.
func (s *stage) delete(ctx context.Context, t *testing.T, documents []string, now bool) {
	t.Helper()
	options := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if now {
		options.GracePeriodSeconds = new(int64(0))
	}
	s.each(t, documents, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		return ignore(client.Delete(ctx, o.GetName(), options), apierrors.IsNotFound)
	})
}

// patch merges a patch into objects, or into one of their subresources.
func (s *stage) patch(ctx context.Context, t *testing.T, documents []string, patch string, subresource ...string) {
	t.Helper()
	s.each(t, documents, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := client.Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
		return err
	})
}

// release takes the finalizers of objects away, if they are still there.
func (s *stage) release(ctx context.Context, t *testing.T, documents []string) {
	t.Helper()
	s.each(t, documents, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := client.Patch(ctx, o.GetName(), types.MergePatchType, []byte(releases), metav1.PatchOptions{})
		return ignore(err, apierrors.IsNotFound)
	})
}

func ignore(err error, kind func(error) bool) error {
	if kind(err) {
		return nil
	}
	return err
}
