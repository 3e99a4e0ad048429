package packaging

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	ours "github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// TestBundle: by OLM's own validation, and by what the base says.
func TestBundle(t *testing.T) {
	m := makePackages(t)
	b, err := manifests.GetBundleFromDir(filepath.Join(m.dir, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	// All but the one that pulls the image with docker.
	validators := interfaces.Validators{
		validation.ClusterServiceVersionValidator, validation.BundleValidator, validation.OperatorHubV2Validator, validation.StandardCategoriesValidator,
		validation.StandardCapabilitiesValidator, validation.ObjectValidator, validation.GoodPracticesValidator, validation.AlphaDeprecatedAPIsValidator,
	}
	validated := []any{b, b.CSV}
	for _, o := range b.Objects {
		validated = append(validated, o)
	}
	for _, result := range validators.Validate(validated...) {
		for _, problem := range slices.Concat(result.Errors, result.Warnings) {
			t.Errorf("%s: %v", result.Name, problem)
		}
	}
	checkObjects(t, filepath.Join(m.dir, "bundle", "manifests"))
	checkCSV(t, b.CSV, m)
	checkWebhooks(t, b.CSV)
	checkRights(t, b.CSV)
}

// TestOLMObjects: an API server with OLM's own kinds takes the ClusterServiceVersion, and what the manual says to
// create.
func TestOLMObjects(t *testing.T) {
	s := newStage(t)
	s.crds("github.com/operator-framework/api", "crds/operators.coreos.com_catalogsources.yaml", "crds/operators.coreos.com_clusterserviceversions.yaml",
		"crds/operators.coreos.com_operatorgroups.yaml", "crds/operators.coreos.com_subscriptions.yaml")
	s.namespaces("openshift-marketplace")
	s.kubectl(documented(t, "docs/install.md", "apiVersion: operators.coreos.com/v1alpha1"), "apply", "--server-side", "--validate=strict", "-f", "-")
	csv := filepath.Join(makePackages(t).dir, "bundle", "manifests", "mirrorset-guard.clusterserviceversion.yaml")
	text, err := os.ReadFile(csv)
	if err != nil {
		t.Fatal(err)
	}
	s.kubectl(strings.Replace(string(text), "namespace: placeholder", "namespace: mirrorset-guard", 1), "apply", "--server-side", "--validate=strict", "-f", "-")
	if got := s.kubectl("", "get", "csv", "mirrorset-guard."+version, "-n", "mirrorset-guard", "-o", "jsonpath={.spec.webhookdefinitions[*].generateName}"); got != "mirrorsets.mirrorset-guard.io mirrorset-deletions.mirrorset-guard.io" {
		t.Errorf("stored are the webhooks %s", got)
	}
}

// checkObjects: each is of a kind that OLM creates, and strictly of its type where the type is known here.
func checkObjects(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		if supported, _ := bundle.IsSupported(o.Kind); !supported {
			t.Errorf("%s: OLM does not create a %s", entry.Name(), o.Kind)
		}
		if o.Kind != bundle.CSVKind && o.Metadata.Namespace != "" {
			t.Errorf("%s names a namespace, which OLM chooses", entry.Name())
		}
		found = append(found, o.Kind+" "+o.Metadata.Name)
	}
	slices.Sort(found)
	if diff := cmp.Diff([]string{
		"ClusterRole mirrorset-guard-override",
		"ClusterRole mirrorset-guard-reader",
		"ClusterServiceVersion mirrorset-guard.v0.1.0",
		"ConfigMap mirrorset-guard-defaults",
		"PodDisruptionBudget mirrorset-guard",
		"PrometheusRule mirrorset-guard",
		"Role mirrorset-guard-lease",
		"Role mirrorset-guard-prometheus",
		"RoleBinding mirrorset-guard-lease",
		"RoleBinding mirrorset-guard-prometheus",
		"Service mirrorset-guard",
		"ServiceMonitor mirrorset-guard",
	}, found); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func checkCSV(t *testing.T, csv *v1alpha1.ClusterServiceVersion, m made) {
	t.Helper()
	if csv.Name != "mirrorset-guard."+version || csv.Spec.Version.String() != "0.1.0" || csv.Spec.MinKubeVersion != "1.27.0" {
		t.Errorf("%s is of version %s, for Kubernetes %s", csv.Name, csv.Spec.Version, csv.Spec.MinKubeVersion)
	}
	if diff := cmp.Diff([]v1alpha1.RelatedImage{{Name: "mirrorset-guard", Image: m.image}}, csv.Spec.RelatedImages); diff != "" {
		t.Errorf("relatedImages (-want +got):\n%s", diff)
	}
	for _, architecture := range []string{"amd64", "arm64", "ppc64le", "s390x"} {
		if csv.Labels["operatorframework.io/arch."+architecture] != "supported" {
			t.Errorf("it is not offered on %s", architecture)
		}
	}
	got := map[string]string{}
	for key, value := range csv.Annotations {
		if feature, is := strings.CutPrefix(key, "features.operators.openshift.io/"); is {
			got[feature] = value
		}
	}
	want := map[string]string{
		"disconnected": "true", "proxy-aware": "true", "tls-profiles": "true", "fips-compliant": "false",
		"token-auth-aws": "false", "token-auth-azure": "false", "token-auth-gcp": "false", "cnf": "false", "cni": "false", "csi": "false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
	deployments := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	if len(deployments) != 1 || deployments[0].Name != webhook.ServiceName {
		t.Fatalf("%d deployments", len(deployments))
	}
	var base appsv1.Deployment
	data, err := ours.Base.ReadFile("base/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &base); err != nil {
		t.Fatal(err)
	}
	container := &base.Spec.Template.Spec.Containers[0]
	container.Image = m.image
	container.Args[1] = "--tls-dir=/tmp/k8s-webhook-server/serving-certs"
	container.Args = append(container.Args, "--metrics-tls-dir=/etc/mirrorset-guard/tls")
	projected := deployments[0].Spec.Template.Spec.Volumes[1].Projected
	if projected == nil || len(projected.Sources) != 2 || projected.Sources[0].ConfigMap.Name != "mirrorset-guard-defaults" || projected.Sources[0].ConfigMap.Optional != nil ||
		projected.Sources[1].ConfigMap.Name != "mirrorset-guard-config" || !*projected.Sources[1].ConfigMap.Optional {
		t.Errorf("the configuration is %+v", projected)
	}
	base.Spec.Template.Spec.Volumes[1] = deployments[0].Spec.Template.Spec.Volumes[1]
	if diff := cmp.Diff(base.Spec, deployments[0].Spec); diff != "" {
		t.Errorf("the Deployment (-base +bundle):\n%s", diff)
	}
}

// checkWebhooks: what OLM makes of the definitions (GetValidatingWebhook is what its version 0 calls) is what
// the base registers, at the Service that OLM makes. That the guard takes it for its own is tested in
// inventory/serving.
func checkWebhooks(t *testing.T, csv *v1alpha1.ClusterServiceVersion) {
	t.Helper()
	base, err := ours.WebhookConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	if len(base.Webhooks) != len(csv.Spec.WebhookDefinitions) {
		t.Fatalf("%d webhooks", len(csv.Spec.WebhookDefinitions))
	}
	for i, want := range base.Webhooks {
		if want.NamespaceSelector != nil || want.ObjectSelector != nil {
			t.Errorf("%s rests on a selector, of which OLM sets its own", want.Name)
		}
		want.ClientConfig.Service.Name += "-service"
		if diff := cmp.Diff(want, csv.Spec.WebhookDefinitions[i].GetValidatingWebhook(webhook.Namespace, nil, nil)); diff != "" {
			t.Errorf("%s (-base +bundle):\n%s", want.Name, diff)
		}
		definition := csv.Spec.WebhookDefinitions[i]
		if definition.Type != v1alpha1.ValidatingAdmissionWebhook || definition.DeploymentName != webhook.ServiceName || definition.TargetPort.StrVal != "webhook" {
			t.Errorf("%s leads to port %s of %s", want.Name, definition.TargetPort, definition.DeploymentName)
		}
	}
}

// checkRights: none is granted that the base does not, but for the namespaces.
func checkRights(t *testing.T, csv *v1alpha1.ClusterServiceVersion) {
	t.Helper()
	spec := csv.Spec.InstallStrategy.StrategySpec
	if len(spec.Permissions) > 0 || len(spec.ClusterPermissions) != 1 || spec.ClusterPermissions[0].ServiceAccountName != webhook.ServiceName {
		t.Fatalf("rights of %+v and %+v", spec.Permissions, spec.ClusterPermissions)
	}
	got := map[string]bool{}
	for _, rule := range spec.ClusterPermissions[0].Rules {
		got[asText(t, rule)] = true
	}
	want := map[string]bool{}
	for key, o := range objects(t, kubectlKustomize(t, filepath.Join(root, "manifests", "base"))) {
		if key != "ClusterRole /mirrorset-guard" && (!strings.HasPrefix(key, "Role ") || strings.HasPrefix(key, "Role "+webhook.Namespace+"/")) {
			continue
		}
		for _, rule := range o["rules"].([]any) {
			want[asText(t, rule)] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-base +bundle):\n%s", diff)
	}
}

func asText(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var normal any
	if err := json.Unmarshal(data, &normal); err != nil {
		t.Fatal(err)
	}
	data, err = json.Marshal(normal)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestCatalog: by OLM's own model, it offers the bundle by digest, and says of it what its CSV does. The images
// hold what the folders do.
func TestCatalog(t *testing.T) {
	m := makePackages(t)
	catalog, err := declcfg.LoadFS(t.Context(), os.DirFS(filepath.Join(m.dir, "catalog", "configs")))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := declcfg.ConvertToModel(*catalog)
	if err != nil {
		t.Fatal(err)
	}
	if err := packages.Validate(); err != nil {
		t.Error(err)
	}
	p := packages["mirrorset-guard"]
	if p == nil || p.DefaultChannel == nil || p.DefaultChannel.Name != "stable" {
		t.Fatalf("packages: %v", slices.Collect(maps.Keys(packages)))
	}
	b := p.DefaultChannel.Bundles["mirrorset-guard."+version]
	if b == nil || b.Image != m.bundle || b.SkipRange != "<0.1.0" {
		t.Fatalf("it offers %+v", b)
	}
	var images []string
	for _, image := range b.RelatedImages {
		images = append(images, image.Image)
	}
	if diff := cmp.Diff([]string{m.bundle, m.image}, images); diff != "" {
		t.Errorf("what is to be mirrored (-want +got):\n%s", diff)
	}
	read, err := manifests.GetBundleFromDir(filepath.Join(m.dir, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	want := property.MustBuildCSVMetadata(*read.CSV)
	for _, is := range b.Properties {
		if is.Type == want.Type {
			if diff := cmp.Diff(value(t, want.Value), value(t, is.Value)); diff != "" {
				t.Errorf("olm.csv.metadata (-want +got):\n%s", diff)
			}
		}
	}

	if diff := cmp.Diff(filesBelow(t, filepath.Join(m.dir, "bundle")), imageFiles(t, m.bundle, "operators.operatorframework.io.bundle.mediatype.v1", "registry+v1")); diff != "" {
		t.Errorf("the bundle's image (-folder +image):\n%s", diff)
	}
	if diff := cmp.Diff(filesBelow(t, filepath.Join(m.dir, "catalog")), imageFiles(t, m.catalog, "operators.operatorframework.io.index.configs.v1", "/configs")); diff != "" {
		t.Errorf("the catalog's image (-folder +image):\n%s", diff)
	}
}

func value(t *testing.T, data json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// imageFiles returns the files of an image in a registry, which must have a label.
func imageFiles(t *testing.T, reference, label, want string) map[string]string {
	t.Helper()
	image, err := remote.Image(parse(t, reference), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.Labels[label] != want {
		t.Errorf("%s has the labels %v", reference, config.Config.Labels)
	}
	reader := mutate.Extract(image)
	defer reader.Close()
	files := map[string]string{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = string(content)
		}
	}
}
