package images

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	osappsv1 "github.com/openshift/api/apps/v1"
	buildv1 "github.com/openshift/api/build/v1"
	configv1 "github.com/openshift/api/config/v1"
	imagev1 "github.com/openshift/api/image/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Objects are of OpenShift's own types where its API module has them, so that a
// misspelt field cannot hide; those of add-ons are written as they are found.
func TestDecodeCustomKinds(t *testing.T) {
	external := corev1.ObjectReference{Kind: "DockerImage", Name: "quay.io/base:1"}
	internal := corev1.ObjectReference{Kind: "ImageStreamTag", Name: "base:latest"}
	tests := []struct {
		reason string
		group  string
		object any // a typed object, or YAML
		want   Holder
	}{
		{
			"a DeploymentConfig at no replicas may be scaled up",
			"apps.openshift.io",
			osappsv1.DeploymentConfig{ObjectMeta: named("shop", "old"), Spec: osappsv1.DeploymentConfigSpec{Template: new(templateOf("quay.io/old:1"))}},
			Holder{"DeploymentConfig", "shop", "old", []Reference{{Image: "quay.io/old:1", Container: "a", Account: "default"}}},
		},
		{
			"OpenShift looks for a short name among ImageStreams",
			"apps.openshift.io",
			osappsv1.DeploymentConfig{ObjectMeta: named("shop", "old"), Spec: osappsv1.DeploymentConfigSpec{Template: new(templateOf("old:1"))}},
			Holder{"DeploymentConfig", "shop", "old", []Reference{{Image: "old:1", Container: "a", Account: "default", Lookup: LookupLocal}}},
		},
		{
			"a custom strategy is a pod as well",
			"apps.openshift.io",
			osappsv1.DeploymentConfig{ObjectMeta: named("shop", "custom"), Spec: osappsv1.DeploymentConfigSpec{
				Strategy: osappsv1.DeploymentStrategy{CustomParams: &osappsv1.CustomDeploymentStrategyParams{Image: "quay.io/deployer:1"}},
			}},
			Holder{"DeploymentConfig", "shop", "custom", []Reference{{Image: "quay.io/deployer:1", Container: "spec.strategy.customParams.image"}}},
		},
		{
			"every pod on a new node needs the pause image, which no pod names",
			"machineconfiguration.openshift.io",
			mcfgv1.ControllerConfig{
				ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"},
				Spec: mcfgv1.ControllerConfigSpec{
					Images:                         map[string]string{"infraImageKey": "quay.io/pause@x", "apiserverWatcherKey": "quay.io/watch@x"},
					OSImageURL:                     "quay.io/os@x",
					BaseOSContainerImage:           "quay.io/base@x",
					BaseOSExtensionsContainerImage: "quay.io/extensions@x",
					ReleaseImage:                   "quay.io/release@x",
				},
			},
			Holder{"ControllerConfig", "", "machine-config-controller", []Reference{
				{Image: "quay.io/watch@x", Container: "spec.images[apiserverWatcherKey]"},
				{Image: "quay.io/pause@x", Container: "spec.images[infraImageKey]"},
				{Image: "quay.io/os@x", Container: "spec.osImageURL"},
				{Image: "quay.io/base@x", Container: "spec.baseOSContainerImage"},
				{Image: "quay.io/extensions@x", Container: "spec.baseOSExtensionsContainerImage"},
				{Image: "quay.io/release@x", Container: "spec.releaseImage"},
			}},
		},
		{
			"a MachineConfig without an image, like most, names none",
			"machineconfiguration.openshift.io",
			mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "99-ssh"}},
			Holder{"MachineConfig", "", "99-ssh", nil},
		},
		{
			"an administrator's own OS image",
			"machineconfiguration.openshift.io",
			mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "99-os"}, Spec: mcfgv1.MachineConfigSpec{OSImageURL: "quay.io/os@x"}},
			Holder{"MachineConfig", "", "99-os", []Reference{{Image: "quay.io/os@x", Container: "spec.osImageURL"}}},
		},
		{
			"what MCO rendered is kept for a way back",
			"machineconfiguration.openshift.io",
			mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "rendered-worker-1"}, Spec: mcfgv1.MachineConfigSpec{OSImageURL: "quay.io/os@x"}},
			Holder{"MachineConfig", "", "rendered-worker-1", []Reference{{Image: "quay.io/os@x", Container: "spec.osImageURL", Use: policy.History}}},
		},
		{
			"the name of a pinned image is the image, and no way to tell where it stands",
			"machineconfiguration.openshift.io",
			mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: mcfgv1.PinnedImageSetSpec{
				PinnedImages: []mcfgv1.PinnedImageRef{{Name: "quay.io/a@x"}, {Name: "quay.io/b@x"}},
			}},
			Holder{"PinnedImageSet", "", "worker", []Reference{
				{Image: "quay.io/a@x", Container: "spec.pinnedImages[0].name"}, {Image: "quay.io/b@x", Container: "spec.pinnedImages[1].name"},
			}},
		},
		{
			"on-cluster layering: the image that nodes boot",
			"machineconfiguration.openshift.io",
			mcfgv1.MachineOSConfig{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: mcfgv1.MachineOSConfigStatus{CurrentImagePullSpec: "reg/os@x"}},
			Holder{"MachineOSConfig", "", "worker", []Reference{{Image: "reg/os@x", Container: "status.currentImagePullSpec"}}},
		},
		{
			"on-cluster layering: what was built",
			"machineconfiguration.openshift.io",
			mcfgv1.MachineOSBuild{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Status: mcfgv1.MachineOSBuildStatus{DigestedImagePushSpec: "reg/os@x"}},
			Holder{"MachineOSBuild", "", "worker-1", []Reference{{Image: "reg/os@x", Container: "status.digestedImagePushSpec", Use: policy.History}}},
		},
		{
			"releases: the one wanted, those gone by, and those on offer, which nothing depends on",
			"config.openshift.io",
			configv1.ClusterVersion{
				ObjectMeta: metav1.ObjectMeta{Name: "version"},
				Spec:       configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Image: "quay.io/release@4.19.2"}},
				Status: configv1.ClusterVersionStatus{
					Desired:            configv1.Release{Version: "4.19.1", Image: "quay.io/release@4.19.1"},
					History:            []configv1.UpdateHistory{{Version: "4.19.0", Image: "quay.io/release@4.19.0"}},
					AvailableUpdates:   []configv1.Release{{Version: "4.19.3", Image: "quay.io/release@4.19.3"}},
					ConditionalUpdates: []configv1.ConditionalUpdate{{Release: configv1.Release{Version: "4.19.4", Image: "quay.io/release@4.19.4"}}},
				},
			},
			Holder{"ClusterVersion", "", "version", []Reference{
				{Image: "quay.io/release@4.19.1", Container: "status.desired.image"},
				{Image: "quay.io/release@4.19.2", Container: "spec.desiredUpdate.image"},
				{Image: "quay.io/release@4.19.0", Container: "status.history[4.19.0].image", Use: policy.History},
				{Image: "quay.io/release@4.19.3", Container: "status.availableUpdates[4.19.3].image", Use: policy.History},
				{Image: "quay.io/release@4.19.4", Container: "status.conditionalUpdates[0].release.image", Use: policy.History},
			}},
		},
		{
			"an operator's related images, its own, and those it is told to deploy",
			"operators.coreos.com",
			`
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: db.v1, namespace: operators}
spec:
  relatedImages: [{name: db, image: quay.io/db@x}, {image: quay.io/proxy@x}]
  install:
    spec:
      deployments:
      - name: db-operator
        spec:
          template:
            spec:
              containers: [{name: manager, image: quay.io/operator@x, env: [{name: RELATED_IMAGE_UI, value: quay.io/ui@x}, {name: DB_IMAGE, value: "quay.io/db:1"}]}]
`,
			Holder{"ClusterServiceVersion", "operators", "db.v1", []Reference{
				{Image: "quay.io/db@x", Container: "spec.relatedImages[db].image"},
				{Image: "quay.io/proxy@x", Container: "spec.relatedImages[1].image"},
				{Image: "quay.io/operator@x", Container: "manager", Account: "default"},
				{Image: "quay.io/db:1", Container: "env DB_IMAGE"}, // quay.io/ui@x is no digest, and so no image
			}},
		},
		{
			"an operator's own must-gather image, and nothing of its status",
			"config.openshift.io",
			`
apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: storage, annotations: {operators.openshift.io/must-gather-image: "quay.io/storage/gather:v4", other/image: "quay.io/other:v4"}}
status: {extension: {image: "quay.io/reported:v4"}}
`,
			Holder{"ClusterOperator", "", "storage", []Reference{
				{Image: "quay.io/storage/gather:v4", Container: "annotation operators.openshift.io/must-gather-image", Use: policy.History},
			}},
		},
		{
			"a copy says nothing that the original does not",
			"operators.coreos.com",
			`
kind: ClusterServiceVersion
metadata: {name: db.v1, namespace: shop, labels: {olm.copiedFrom: operators}}
spec: {relatedImages: [{name: db, image: quay.io/db@x}]}
`,
			Holder{"ClusterServiceVersion", "shop", "db.v1", nil},
		},
		{
			"catalogs are pulled by tag, again and again",
			"operators.coreos.com",
			"kind: CatalogSource\nmetadata: {name: redhat, namespace: openshift-marketplace}\nspec: {image: 'registry.redhat.io/index:v4.19'}",
			Holder{"CatalogSource", "openshift-marketplace", "redhat", []Reference{{Image: "registry.redhat.io/index:v4.19", Container: "spec.image"}}},
		},
		{
			"OLM v1",
			"olm.operatorframework.io",
			"kind: ClusterCatalog\nmetadata: {name: redhat}\nspec: {source: {type: Image, image: {ref: 'registry.redhat.io/index:v4.19'}}}\n" +
				"status: {resolvedSource: {image: {ref: 'registry.redhat.io/index@x'}}}",
			Holder{"ClusterCatalog", "", "redhat", []Reference{
				{Image: "registry.redhat.io/index:v4.19", Container: "spec.source.image.ref"},
				{Image: "registry.redhat.io/index@x", Container: "status.resolvedSource.image.ref"},
			}},
		},
		{
			"what a tag of an ImageStream follows, means today, and meant before; other ImageStreams are no images",
			"image.openshift.io",
			imagev1.ImageStream{
				ObjectMeta: named("openshift", "cli"),
				Spec:       imagev1.ImageStreamSpec{Tags: []imagev1.TagReference{{Name: "latest", From: &external}, {Name: "alias", From: &internal}}},
				Status: imagev1.ImageStreamStatus{Tags: []imagev1.NamedTagEventList{{Tag: "latest", Items: []imagev1.TagEvent{
					{DockerImageReference: "quay.io/cli@2"}, {DockerImageReference: "quay.io/cli@1"},
				}}}},
			},
			Holder{"ImageStream", "openshift", "cli", []Reference{
				{Image: "quay.io/base:1", Container: "spec.tags[latest].from", Use: policy.History},
				{Image: "quay.io/cli@2", Container: "status.tags[latest].items[0].dockerImageReference", Use: policy.History, Tag: "openshift/cli:latest"},
				{Image: "quay.io/cli@1", Container: "status.tags[latest].items[1].dockerImageReference", Use: policy.History, Tag: "openshift/cli@1"},
			}},
		},
		{
			"what builds start from, and copy from",
			"build.openshift.io",
			buildv1.BuildConfig{ObjectMeta: named("shop", "app"), Spec: buildv1.BuildConfigSpec{CommonSpec: buildv1.CommonSpec{
				Strategy: buildv1.BuildStrategy{
					DockerStrategy: &buildv1.DockerBuildStrategy{From: &external},
					SourceStrategy: &buildv1.SourceBuildStrategy{From: internal},
					CustomStrategy: &buildv1.CustomBuildStrategy{From: external},
				},
				Source: buildv1.BuildSource{Images: []buildv1.ImageSource{{From: external}}},
			}}},
			Holder{"BuildConfig", "shop", "app", []Reference{
				{Image: "quay.io/base:1", Container: "spec.strategy.dockerStrategy.from", Account: "builder"},
				{Tag: "shop/base:latest", Container: "spec.strategy.sourceStrategy.from", Account: "builder"},
				{Image: "quay.io/base:1", Container: "spec.strategy.customStrategy.from", Account: "builder"},
				{Image: "quay.io/base:1", Container: "spec.source.images[0].from", Account: "builder"},
			}},
		},
		{
			"a build that runs pulls what the tag stood for, and what it copies from",
			"build.openshift.io",
			"kind: Build\nmetadata: {name: app-1, namespace: shop}\nspec:\n  strategy: {sourceStrategy: {from: {kind: DockerImage, name: 'quay.io/python@x'}}}\n" +
				"  source: {images: [{from: {kind: ImageStreamImage, namespace: openshift, name: 'cli@x'}}]}\nstatus: {phase: Running}",
			Holder{"Build", "shop", "app-1", []Reference{
				{Image: "quay.io/python@x", Container: "spec.strategy.sourceStrategy.from", Account: "builder"},
				{Tag: "openshift/cli@x", Container: "spec.source.images[0].from", Account: "builder"},
			}},
		},
		{
			"a build that has ended pulls nothing more",
			"build.openshift.io",
			"kind: Build\nmetadata: {name: app-1, namespace: shop}\nspec: {strategy: {dockerStrategy: {from: {kind: DockerImage, name: 'quay.io/ubi:9'}}}}\nstatus: {phase: Failed}",
			Holder{"Build", "shop", "app-1", []Reference{
				{Image: "quay.io/ubi:9", Container: "spec.strategy.dockerStrategy.from", Account: "builder", Use: policy.History},
			}},
		},
		{
			"the bundle that OLM unpacks for an operator",
			"operators.coreos.com",
			"kind: InstallPlan\nmetadata: {name: install-a, namespace: operators}\nspec: {approved: false}\n" +
				"status: {phase: RequiresApproval, bundleLookups: [{identifier: db.v2, path: 'quay.io/db-bundle@x'}]}",
			Holder{"InstallPlan", "operators", "install-a", []Reference{{Image: "quay.io/db-bundle@x", Container: "status.bundleLookups[0].path"}}},
		},
		{
			"a plan that is done unpacks nothing more",
			"operators.coreos.com",
			"kind: InstallPlan\nmetadata: {name: install-a, namespace: operators}\nstatus: {phase: Complete, bundleLookups: [{path: 'quay.io/db-bundle@x'}]}",
			Holder{"InstallPlan", "operators", "install-a", []Reference{
				{Image: "quay.io/db-bundle@x", Container: "status.bundleLookups[0].path", Use: policy.History},
			}},
		},
		{
			"a template that stands alone",
			"",
			"kind: PodTemplate\nmetadata: {name: a, namespace: shop}\ntemplate: {spec: {containers: [{name: app, image: 'cart:1'}]}}",
			Holder{"PodTemplate", "shop", "a", []Reference{{Image: "cart:1", Container: "app", Account: "default"}}},
		},
		{
			"Argo Rollouts",
			"argoproj.io",
			"kind: Rollout\nmetadata: {name: a, namespace: shop}\nspec: {template: {spec: {containers: [{name: app, image: 'quay.io/shop/cart:1'}]}}}",
			Holder{"Rollout", "shop", "a", []Reference{{Image: "quay.io/shop/cart:1", Container: "app", Account: "default"}}},
		},
		{
			"OpenShift Virtualization: a disk in an image, also of a machine that is off",
			"kubevirt.io",
			"kind: VirtualMachine\nmetadata: {name: a, namespace: shop}\nspec: {runStrategy: Halted, template: {spec: {volumes: " +
				"[{name: root, containerDisk: {image: quay.io/containerdisks/fedora}}, {name: cloud, cloudInitNoCloud: {}}]}}}",
			Holder{"VirtualMachine", "shop", "a", []Reference{
				{Image: "quay.io/containerdisks/fedora", Container: "spec.template.spec.volumes[root].containerDisk.image"},
			}},
		},
		{
			"a build has pull secrets of its own, and its account's",
			"build.openshift.io",
			buildv1.BuildConfig{ObjectMeta: named("shop", "app"), Spec: buildv1.BuildConfigSpec{CommonSpec: buildv1.CommonSpec{
				ServiceAccount: "bot",
				Strategy:       buildv1.BuildStrategy{DockerStrategy: &buildv1.DockerBuildStrategy{From: &external, PullSecret: &corev1.LocalObjectReference{Name: "quay"}}},
			}}},
			Holder{"BuildConfig", "shop", "app", []Reference{
				{Image: "quay.io/base:1", Container: "spec.strategy.dockerStrategy.from", Account: "bot", OwnPullSecret: true},
			}},
		},
		{
			"a catalog that takes credentials",
			"operators.coreos.com",
			"kind: CatalogSource\nmetadata: {name: own, namespace: olm}\nspec: {image: 'quay.io/index:1', secrets: [quay]}",
			Holder{"CatalogSource", "olm", "own", []Reference{{Image: "quay.io/index:1", Container: "spec.image", OwnPullSecret: true}}},
		},
		{
			"hosted nodes have another pull secret than those of the management cluster",
			"hypershift.openshift.io",
			"kind: NodePool\nmetadata: {name: b, namespace: clusters}\nspec: {clusterName: a, release: {image: quay.io/release@2}}",
			Holder{"NodePool", "clusters", "b", []Reference{{Image: "quay.io/release@2", Container: "spec.release.image", OwnPullSecret: true}}},
		},
		{
			"the release of a hosted control plane",
			"hypershift.openshift.io",
			"kind: HostedCluster\nmetadata: {name: a, namespace: clusters}\nspec: {release: {image: quay.io/release@2}}\n" +
				"status: {version: {desired: {image: quay.io/release@2}, history: [{version: 4.19.0, image: quay.io/release@1}]}}",
			Holder{"HostedCluster", "clusters", "a", []Reference{
				{Image: "quay.io/release@2", Container: "spec.release.image"},
				{Image: "quay.io/release@2", Container: "status.version.desired.image"},
				{Image: "quay.io/release@1", Container: "status.version.history[4.19.0].image", Use: policy.History},
			}},
		},
		{
			"and of its nodes",
			"hypershift.openshift.io",
			"kind: NodePool\nmetadata: {name: a, namespace: clusters}\nspec: {release: {image: quay.io/release@2}}",
			Holder{"NodePool", "clusters", "a", []Reference{{Image: "quay.io/release@2", Container: "spec.release.image"}}},
		},
		{
			"fields that are something else than they should be are passed over",
			"image.openshift.io",
			"kind: ImageStream\nmetadata: {name: a}\nspec: {tags: [1, {from: [2]}, {from: {kind: DockerImage, name: 3}}]}\nstatus: {tags: {items: x}}",
			Holder{"ImageStream", "", "a", nil},
		},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		seen[tt.want.Kind] = true
		t.Run(tt.reason, func(t *testing.T) {
			got, err := Decode(schema.GroupKind{Group: tt.group, Kind: tt.want.Kind}, jsonOf(t, tt.object))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, exceptPlacement); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, k := range customKinds {
		if !seen[k.Kind] {
			t.Errorf("no case for %s", k.Kind)
		}
	}
}

func jsonOf(t *testing.T, object any) []byte {
	t.Helper()
	if text, ok := object.(string); ok {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeSaysWhatItDoesNotKnow(t *testing.T) {
	for _, kind := range []schema.GroupKind{{Kind: "ConfigMap"}, {Group: "example.com", Kind: "Deployment"}, {Group: "example.com", Kind: "NodePool"}} {
		if _, err := Decode(kind, []byte(`{"data": {"a": 1}}`)); !errors.Is(err, ErrKind) {
			t.Errorf("Decode(%s) = %v, want ErrKind", kind, err)
		}
	}
	const want = "reading Pod: json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"
	if _, err := Decode(schema.GroupKind{Kind: "Pod"}, []byte(`{"spec": 1}`)); err == nil || err.Error() != want {
		t.Errorf("Decode of a broken Pod = %v, want %s", err, want)
	}
}

// FuzzDecode holds extraction to its promise: whatever the object, no panic and
// no reference without an image.
func FuzzDecode(f *testing.F) {
	f.Add("", "Pod", []byte(`{"spec":{"containers":[{"image":"a"}],"volumes":[{"image":{}}]}}`))
	f.Add("apps", "Deployment", []byte(`{"spec":{"template":{"spec":{"containers":[{"args":["--image"],"env":[{"name":"IMAGE","value":"a.b/c"}]}]}}}}`))
	f.Add("image.openshift.io", "ImageStream", []byte(`{"status":{"tags":[{"tag":"a","items":[{"dockerImageReference":" "}]}]}}`))
	f.Add("operators.coreos.com", "ClusterServiceVersion", []byte(`{"spec":{"install":{"spec":{"deployments":[{"spec":{"template":{"spec":{}}}}]}}}}`))
	f.Add("build.openshift.io", "Build", []byte(`{"spec":{"source":{"dockerfile":"ARG A=$A$B\nFROM x:${A:-1} AS b\nRUN <<E\nE\nCOPY --from=b a a","images":[{"as":["x"]}]}}}`))
	f.Fuzz(func(t *testing.T, group, kind string, data []byte) {
		h, err := Decode(schema.GroupKind{Group: group, Kind: kind}, data)
		if err != nil {
			return
		}
		for _, r := range h.References {
			if r.Image == "" && r.Tag == "" {
				t.Errorf("%+v has no image", r)
			}
		}
	})
}
