package release

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// Where operators are at home: their catalog, and their images.
const (
	CatalogSource   = "registry.redhat.io/redhat/redhat-operator-index"
	OperatorsSource = "registry.redhat.io/operators"
	// Catalog is the catalog for the release, by tag.
	Catalog = CatalogSource + ":v4.21"
)

// OperatorCRDs are those of OLM's kinds, as far as an API server has to know them.
const OperatorCRDs = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: subscriptions.operators.coreos.com}
spec:
  group: operators.coreos.com
  scope: Namespaced
  names: {kind: Subscription, plural: subscriptions, singular: subscription}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}, subresources: {status: {}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: catalogsources.operators.coreos.com}
spec:
  group: operators.coreos.com
  scope: Namespaced
  names: {kind: CatalogSource, plural: catalogsources, singular: catalogsource}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterextensions.olm.operatorframework.io}
spec:
  group: olm.operatorframework.io
  scope: Cluster
  names: {kind: ClusterExtension, plural: clusterextensions, singular: clusterextension}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}, subresources: {status: {}}}]
`

// WholeOperators says, in a dump, that it has all operators that are installed, as a snapshot does.
const WholeOperators = `---
apiVersion: mirrorset-guard.io/v1alpha1
kind: Lacking
resources: []
operators: true
`

// PushCatalog puts a catalog of n packages on the registry (op-0 to op-N): in channel stable of each, version 1.0.0 is updated by 1.1.0
// and that by 1.2.0, and each of them has a bundle and related images. Those of Parts that belong to the catalog are named
// "catalog", and the others as their bundles are. It returns the digest of the catalog's image.
func (s *Stage) PushCatalog(t testing.TB, n, related int) string {
	t.Helper()
	files := map[string]string{}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		name := fmt.Sprintf("op-%d", i)
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		put := func(o map[string]any) {
			if err := encoder.Encode(o); err != nil {
				t.Fatal(err)
			}
		}
		put(map[string]any{"schema": "olm.package", "name": name, "defaultChannel": "stable"})
		var entries []any
		for minor := range 3 {
			version := fmt.Sprintf("1.%d.0", minor)
			bundle := name + ".v" + version
			entry := map[string]any{"name": bundle}
			if minor > 0 {
				entry["replaces"] = fmt.Sprintf("%s.v1.%d.0", name, minor-1)
			}
			entries = append(entries, entry)
			images := []any{map[string]string{"name": "", "image": s.pushOperator(t, &group, bundle, "bundle", minor)}}
			for k := range related {
				part := fmt.Sprintf("part-%d", k)
				images = append(images, map[string]string{"name": part, "image": s.pushOperator(t, &group, bundle, part, minor)})
			}
			put(map[string]any{
				"schema": "olm.bundle", "package": name, "name": bundle, "image": images[0].(map[string]string)["image"], "relatedImages": images,
				"properties": append([]any{map[string]any{"type": "olm.package", "value": map[string]string{"packageName": name, "version": version}}}, s.Properties[bundle]...),
			})
		}
		put(map[string]any{"schema": "olm.channel", "package": name, "name": "stable", "entries": entries})
		files["configs/"+name+"/catalog.json"] = b.String()
	}
	image := Image(t, map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}, Archive(t, files), Archive(t, map[string]string{"tmp/cache/digest": "x"}))
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	s.Write(t, "redhat/redhat-operator-index", image)
	if err := remote.Write(s.reference("redhat/redhat-operator-index:v4.21"), image); err != nil {
		t.Fatal(err)
	}
	s.note(t, "catalog", "redhat/redhat-operator-index", image)
	s.Parts = s.Parts[:len(s.Parts)-1]                                            // nothing of operators is signed
	s.Parts[len(s.Parts)-2].Path = "redhat/redhat-operator-index/manifests/v4.21" // by which it is pulled
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// pushOperator pushes an image of a bundle, and returns its reference where it is at home. What is installed already, version 1.0.0,
// is not there.
func (s *Stage) pushOperator(t testing.TB, group *errgroup.Group, bundle, part string, minor int) string {
	t.Helper()
	image, err := testregistries.Image(bundle + " " + part)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	repository := "operators/" + strings.SplitN(bundle, ".", 2)[0]
	if minor > 0 && !s.Absent {
		s.note(t, bundle, repository, image)
		s.Parts = s.Parts[:len(s.Parts)-1]
		group.Go(func() error { return remote.Write(s.reference(repository+"@"+hash.String()), image) })
	}
	return s.operators() + strings.TrimPrefix(repository, "operators") + "@" + hash.String()
}

// operators is the repository below which operators are at home.
func (s *Stage) operators() string {
	if strings.HasPrefix(s.Images, s.Mirror+"/") {
		return s.Mirror + "/operators"
	}
	return OperatorsSource
}

// Catalog is the reference of the catalog where it is at home.
func (s *Stage) Catalog() string {
	if strings.HasPrefix(s.Images, s.Mirror+"/") {
		return s.Mirror + "/redhat/redhat-operator-index:v4.21"
	}
	return Catalog
}

// Operators are the objects of a cluster that has version 1.0.0 of packages op-0 to op-(n-1) by Subscriptions, that of op-n by a ClusterExtension,
// and mirrors for all of them.
func (s *Stage) Operators(n int) string {
	var b strings.Builder
	catalog, _, _ := strings.Cut(s.Catalog(), ":v")
	fmt.Fprintf(&b, `---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: itms-operator-0}
spec: {imageTagMirrors: [{source: %[1]q, mirrors: [%[2]q], mirrorSourcePolicy: NeverContactSource}]}
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-operator-0}
spec: {imageDigestMirrors: [{source: %[3]q, mirrors: [%[4]q], mirrorSourcePolicy: NeverContactSource}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-marketplace}
---
apiVersion: v1
kind: Namespace
metadata: {name: ops}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: redhat-operators, namespace: openshift-marketplace}
spec: {sourceType: grpc, image: %[5]q}
`, catalog, s.Mirror+"/redhat/redhat-operator-index", s.operators(), s.Mirror+"/operators", catalog+":v4.20")
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: op-%[1]d, namespace: ops}
spec: {name: op-%[1]d, channel: stable, source: redhat-operators, sourceNamespace: openshift-marketplace}
status: {installedCSV: op-%[1]d.v1.0.0}
`, i)
	}
	fmt.Fprintf(&b, `---
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: op-%[1]d}
spec: {namespace: ops, serviceAccount: {name: x}, source: {sourceType: Catalog, catalog: {packageName: op-%[1]d, channels: [stable]}}}
status: {install: {bundle: {name: op-%[1]d.v1.0.0, version: 1.0.0}}}
`, n)
	return b.String()
}
