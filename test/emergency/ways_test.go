package emergency

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// A way is one of installing the guard, and of switching it off.
type way struct {
	// name is that of a test, heading that of the section of the page.
	name, heading string
	// off and on are blocks of that section.
	off, on int
	// needsHelm is set if the blocks run helm.
	needsHelm bool
	// prepare writes the files by which the guard is installed, and install installs it. Both
	// leave the caBundle to the service CA, unless controller is set.
	prepare, install func(*stage, *testing.T)
	// controller makes the webhook configurations, and deletes them, for as long as a test runs; nil
	// if nothing does. It is called again and again.
	controller func(context.Context, *stage)
	// brief is set if one failure will do: the commands are those of another way, but for a tool that is stopped.
	brief bool
	// listed is what the page's table says of the webhook configurations.
	listed string
}

var ways = []way{
	// Helm comes first: it takes nothing over that others have applied.
	{name: "Helm, without helm", heading: "Helm", off: 0, on: 1, needsHelm: true, prepare: (*stage).chart, install: (*stage).helmInstall, listed: "Helm"},
	{name: "Helm, with helm", heading: "Helm", off: 2, on: 3, needsHelm: true, prepare: (*stage).chart, install: (*stage).helmInstall, listed: "Helm"},
	{name: "kustomize", heading: "kustomize", off: 0, on: 1, prepare: (*stage).kustomization, install: (*stage).applyKustomization, listed: "mirrorset-guard"},
	{name: "OLM v0", heading: "OLM v0", off: 0, on: 1, prepare: (*stage).subscription, install: (*stage).applySubscription, controller: olm0, listed: "mirrorset-guard.v0.1.0"},
	{name: "OLM v1", heading: "OLM v1", off: 0, on: 1, prepare: (*stage).extension, install: (*stage).applyExtension, controller: olm1, listed: "mirrorset-guard"},
	{name: "Argo CD", heading: "GitOps", off: 0, on: 2, prepare: (*stage).kustomization, install: (*stage).application, controller: argo, brief: true, listed: "mirrorset-guard"},
	{name: "Flux", heading: "GitOps", off: 1, on: 3, prepare: (*stage).kustomization, install: (*stage).fluxKustomization, controller: flux, brief: true, listed: "mirrorset-guard"},
}

// kustomization writes one on top of the base. There is no service network here, so that the Service names
// a host, and the webhooks the port of the guard.
func (s *stage) kustomization(t *testing.T) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(s.dir)
	must(t, err)
	base, err := filepath.Rel(dir, filepath.Join(repo.Root(), "manifests", "base"))
	must(t, err)
	s.write(t, s.dir, "kustomization.yaml", []byte(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [`+base+`]
patches:
- patch: |
    apiVersion: v1
    kind: Service
    metadata: {name: mirrorset-guard, namespace: mirrorset-guard}
    spec: {$patch: replace, type: ExternalName, externalName: localhost}
- target: {kind: ValidatingWebhookConfiguration}
  patch: |
    - {op: replace, path: /webhooks/0/clientConfig/service/port, value: `+s.port()+`}
    - {op: replace, path: /webhooks/1/clientConfig/service/port, value: `+s.port()+`}
`))
}

func (s *stage) applyKustomization(t *testing.T) {
	t.Helper()
	s.kubectl(t, "", "apply", "-k", ".")
	s.rolledOut(t)
}

// chart writes the guard's own, for the host and the port that stand for the service network here, and for no
// metrics, whose alerts the page says nothing about.
func (s *stage) chart(t *testing.T) {
	t.Helper()
	manifests, chart := os.DirFS(filepath.Join(repo.Root(), "manifests")), filepath.Join(s.dir, "chart")
	must(t, os.RemoveAll(chart))
	for _, part := range []string{"base", "monitoring", "overlays"} {
		folder, err := fs.Sub(manifests, part)
		must(t, err)
		must(t, os.CopyFS(filepath.Join(chart, "files", part), folder))
	}
	for _, part := range []string{"Chart.yaml", "values.yaml", "values.schema.json"} {
		content, err := fs.ReadFile(manifests, "chart/"+part)
		must(t, err)
		s.write(t, chart, part, content)
	}
	templates, err := fs.Sub(manifests, "chart/templates")
	must(t, err)
	must(t, os.CopyFS(filepath.Join(chart, "templates"), templates))
	base := filepath.Join(chart, "files", "base")
	s.replace(t, filepath.Join(base, "service.yaml"), "spec:\n", "spec:\n  type: ExternalName\n  externalName: localhost\n")
	s.replace(t, filepath.Join(base, "validatingwebhookconfiguration.yaml"), "port: 443\n", "port: "+s.port()+"\n")
	s.write(t, s.dir, "values.yaml", []byte(`
image: {repository: registry.example.com/ops/mirrorset-guard, digest: "sha256:`+strings.Repeat("0", 64)+`"}
monitoring: {enabled: false}
`))
}

// replace replaces text in a file, which must have it.
func (s *stage) replace(t *testing.T, file, is, want string) {
	t.Helper()
	content, err := os.ReadFile(file)
	must(t, err)
	if !strings.Contains(string(content), is) {
		t.Fatalf("%s is without %q", file, is)
	}
	s.write(t, filepath.Dir(file), filepath.Base(file), []byte(strings.ReplaceAll(string(content), is, want)))
}

func (s *stage) helmInstall(t *testing.T) {
	t.Helper()
	s.chart(t) // clean removes it
	if out, err := s.shell(t.Context(), "oc create namespace mirrorset-guard --dry-run=client -o yaml | oc apply -f -; helm -n mirrorset-guard install mirrorset-guard ./chart --values values.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// subscription writes one as a user of OLM v0 does.
func (s *stage) subscription(t *testing.T) {
	t.Helper()
	s.write(t, s.dir, "subscription.yaml", []byte(`
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: mirrorset-guard, namespace: mirrorset-guard}
spec: {name: mirrorset-guard, channel: stable, source: mirrorset-guard, sourceNamespace: openshift-marketplace}
`))
}

// bundle has what the guard needs besides webhook configurations on the cluster, as its bundle has.
func (s *stage) bundle(t *testing.T) {
	t.Helper()
	s.kustomization(t)
	s.kubectl(t, "", "apply", "-k", ".")
	s.kubectl(t, "", "delete", "validatingwebhookconfiguration", webhook.ServiceName)
}

func (s *stage) applySubscription(t *testing.T) {
	t.Helper()
	s.bundle(t)
	s.kubectl(t, "", "apply", "-f", "subscription.yaml")
}

// extension writes one as a user of OLM v1 does.
func (s *stage) extension(t *testing.T) {
	t.Helper()
	s.write(t, s.dir, "clusterextension.yaml", []byte(`
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: mirrorset-guard}
spec: {namespace: mirrorset-guard, source: {sourceType: Catalog, catalog: {packageName: mirrorset-guard}}}
`))
}

func (s *stage) applyExtension(t *testing.T) {
	t.Helper()
	s.bundle(t)
	s.kubectl(t, "", "apply", "-f", "clusterextension.yaml")
}

func (s *stage) application(t *testing.T) {
	t.Helper()
	s.bundle(t)
	s.kubectl(t, `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: mirrorset-guard, namespace: openshift-gitops}
spec: {syncPolicy: {automated: {selfHeal: true, prune: true}}}
`, "apply", "-f", "-")
}

func (s *stage) fluxKustomization(t *testing.T) {
	t.Helper()
	s.bundle(t)
	s.kubectl(t, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: mirrorset-guard, namespace: flux-system}
spec: {prune: true}
`, "apply", "-f", "-")
}

var (
	subscriptions = schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "subscriptions"}
	csvs          = schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "clusterserviceversions"}
	extensions    = schema.GroupVersionResource{Group: "olm.operatorframework.io", Version: "v1", Resource: "clusterextensions"}
	applications  = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	kustomization = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
)

const csvName = "mirrorset-guard.v0.1.0"

// olm0 plays OLM v0: a Subscription gets a ClusterServiceVersion, and that a configuration for each of its
// webhooks, with a name that the API server generates (operator-lifecycle-manager,
// pkg/controller/install/webhook.go, createOrUpdateValidatingWebhook, and pkg/lib/ownerutil, OwnerLabel).
func olm0(ctx context.Context, s *stage) {
	csv := s.get(ctx, csvs, webhook.Namespace, csvName)
	if csv == nil && s.get(ctx, subscriptions, webhook.Namespace, "mirrorset-guard") != nil {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": csvs.GroupVersion().String(), "kind": "ClusterServiceVersion"}}
		o.SetName(csvName)
		o.SetLabels(map[string]string{"operators.coreos.com/mirrorset-guard.mirrorset-guard": ""})
		o.SetFinalizers([]string{"operators.coreos.com/csv-cleanup"})
		csv, _ = s.api.Resource(csvs).Namespace(webhook.Namespace).Create(ctx, o, metav1.CreateOptions{})
	}
	labels := map[string]string{"olm.owner": csvName, "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": webhook.Namespace}
	s.own(ctx, csvs, csv, func(name string) (metav1.ObjectMeta, string) {
		mine := map[string]string{"olm.webhook-description-generate-name": name}
		for k, v := range labels {
			mine[k] = v
		}
		return metav1.ObjectMeta{GenerateName: name + "-", Labels: mine}, "olm.webhook-description-generate-name=" + name
	})
}

// olm1 plays OLM v1 (operator-controller, internal/operator-controller/rukpak/render/registryv1/generators,
// BundleValidatingWebhookResourceGenerator, and labels).
func olm1(ctx context.Context, s *stage) {
	s.own(ctx, extensions, s.get(ctx, extensions, "", "mirrorset-guard"), func(name string) (metav1.ObjectMeta, string) {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "mirrorset-guard",
		}}, "olm.operatorframework.io/owner-name=mirrorset-guard"
	})
}

// own makes the webhook configurations that owner asks for, each with one webhook, and deletes them with it.
// meta returns the metadata for a webhook, and by which label it is found.
func (s *stage) own(ctx context.Context, resource schema.GroupVersionResource, owner *unstructured.Unstructured, meta func(webhook string) (metav1.ObjectMeta, string)) {
	all, err := s.registration()
	if owner == nil || err != nil {
		return
	}
	configurations := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for _, w := range all.Webhooks {
		m, selector := meta(w.Name)
		list, err := configurations.List(ctx, metav1.ListOptions{LabelSelector: selector})
		switch {
		case err != nil:
		case owner.GetDeletionTimestamp() != nil:
			_ = configurations.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector})
		case !holds(list.Items, w.Name):
			c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: m, Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}
			_, _ = configurations.Create(ctx, c, metav1.CreateOptions{}) // or the next time
		}
	}
	if owner.GetDeletionTimestamp() != nil {
		s.patch(ctx, resource, owner, `{"metadata":{"finalizers":null}}`)
	} else if resource == extensions && len(owner.GetFinalizers()) == 0 {
		s.patch(ctx, resource, owner, `{"metadata":{"finalizers":["olm.operatorframework.io/cleanup-contentmanager-cache"]}}`)
	}
}

func holds(list []admissionregistrationv1.ValidatingWebhookConfiguration, name string) bool {
	for _, c := range list {
		if c.Webhooks[0].Name == name {
			return true
		}
	}
	return false
}

func (s *stage) patch(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured, patch string) {
	_, _ = s.api.Resource(resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}) // or the next time
}

// registration is the manifests' webhook configuration, as this cluster reaches the guard.
func (s *stage) registration() (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	c, err := manifests.WebhookConfiguration()
	if err != nil {
		return nil, err
	}
	var port int32
	if err := json.Unmarshal([]byte(s.port()), &port); err != nil {
		return nil, err
	}
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.CABundle = s.ca
		c.Webhooks[i].ClientConfig.Service.Port = &port
	}
	return c, nil
}

// argo plays Argo CD: it applies what an Application holds, if that is to heal itself.
func argo(ctx context.Context, s *stage) {
	if o := s.get(ctx, applications, "openshift-gitops", "mirrorset-guard"); o != nil {
		if heals, _, _ := unstructured.NestedBool(o.Object, "spec", "syncPolicy", "automated", "selfHeal"); heals {
			s.register(ctx)
		}
	}
}

// flux plays Flux: it applies what a Kustomization holds, unless that is suspended.
func flux(ctx context.Context, s *stage) {
	if o := s.get(ctx, kustomization, "flux-system", "mirrorset-guard"); o != nil {
		if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); !suspended {
			s.register(ctx)
		}
	}
}

func (s *stage) register(ctx context.Context) {
	if c, err := s.registration(); err == nil {
		_, _ = s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, c, metav1.CreateOptions{}) // it may be there
	}
}

// get returns an object, nil if it is not there.
func (s *stage) get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	o, err := s.api.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

// A player calls a controller again and again.
type player struct{ rounds atomic.Int64 }

// play has the controller of w work until the test ends. It returns nil if there is none.
func (s *stage) play(t *testing.T, w way) *player {
	t.Helper()
	if w.controller == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, done := &player{}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.controller(ctx, s)
			p.rounds.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return p
}

// awaitRounds waits until the controller has seen what is there now.
func (p *player) awaitRounds(t *testing.T) {
	t.Helper()
	if p == nil {
		return
	}
	begun := p.rounds.Load()
	load.Await(t, "the controller looks again", func(context.Context) error {
		if p.rounds.Load() < begun+3 {
			return errNotYet
		}
		return nil
	})
}

// clean removes what one way of installing leaves behind, and every change.
func (s *stage) clean(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it is called at the end of a test
	none := metav1.DeleteOptions{}
	for resource, namespace := range map[schema.GroupVersionResource]string{
		subscriptions: webhook.Namespace, csvs: webhook.Namespace, extensions: "", applications: "openshift-gitops", kustomization: "flux-system",
	} {
		for _, name := range []string{"mirrorset-guard", csvName} {
			if o := s.get(ctx, resource, namespace, name); o != nil {
				must(t, ignoreMissing(s.api.Resource(resource).Namespace(namespace).Delete(ctx, name, none)))
				s.patch(ctx, resource, o, `{"metadata":{"finalizers":null}}`)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "chart")); err == nil {
		out, err := s.shell(ctx, "helm -n mirrorset-guard uninstall --ignore-not-found --wait mirrorset-guard")
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		must(t, os.RemoveAll(filepath.Join(s.dir, "chart")))
	}
	must(t, s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, none, metav1.ListOptions{}))
	must(t, s.api.Resource(load.Resource).DeleteCollection(ctx, none, metav1.ListOptions{}))
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
