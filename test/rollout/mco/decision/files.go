package decision

import (
	"errors"
	"strings"
	_ "unsafe" // for go:linkname

	"github.com/containers/image/v5/signature"
	ign3types "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	"github.com/openshift/api/features"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	ctrlcommon "github.com/openshift/machine-config-operator/pkg/controller/common"
	crc "github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:linkname getValidBlockedAndAllowedRegistries github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config.getValidBlockedAndAllowedRegistries
func getValidBlockedAndAllowedRegistries(release string, image *configv1.ImageSpec, legacy []*operatorv1alpha1.ImageContentSourcePolicy,
	digests []*configv1.ImageDigestMirrorSet) (blocked, policyBlocked, allowed []string, err error)

//go:linkname registriesConfigIgnition github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config.registriesConfigIgnition
func registriesConfigIgnition(templates string, controller *mcfgv1.ControllerConfig, role, release string,
	insecure, blocked, policyBlocked, allowed, search []string,
	legacy []*operatorv1alpha1.ImageContentSourcePolicy, digests []*configv1.ImageDigestMirrorSet, tags []*configv1.ImageTagMirrorSet,
	clusterPolicies map[string]signature.PolicyRequirements, namespacePolicies map[string]map[string]signature.PolicyRequirements) (*ign3types.Config, error)

//go:linkname getValidScopePolicies github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config.getValidScopePolicies
func getValidScopePolicies(cluster []*configv1alpha1.ClusterImagePolicy, namespaced []*configv1alpha1.ImagePolicy, status *crc.Controller) (
	map[string]signature.PolicyRequirements, map[string]map[string]signature.PolicyRequirements, error)

//go:linkname errParsingReference github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config.errParsingReference
var errParsingReference error

// Objects are those that come to the generated files.
type Objects struct {
	Tags    []*configv1.ImageTagMirrorSet                `json:"tags,omitempty"`
	Digests []*configv1.ImageDigestMirrorSet             `json:"digests,omitempty"`
	Legacy  []*operatorv1alpha1.ImageContentSourcePolicy `json:"legacy,omitempty"`
	// ClusterPolicies and NamespacePolicies are of v1 where they come from, which has the
	// same fields.
	ClusterPolicies   []*configv1alpha1.ClusterImagePolicy `json:"clusterPolicies,omitempty"`
	NamespacePolicies []*configv1alpha1.ImagePolicy        `json:"namespacePolicies,omitempty"`
	Image             configv1.Image                       `json:"image"`
	// Release is the release image of the cluster.
	Release string `json:"release"`
}

// A Rendering is what MachineConfig 99-worker-generated-registries holds.
type Rendering struct {
	// Files are its files by their paths.
	Files map[string][]byte
	// DroppedLists says why blockedRegistries and allowedRegistries are not in them: MCO
	// could not find out whether a mirror serves the release image that a list blocks. It
	// logs that and goes on without either list. "" if they are, but for what would block
	// the release image.
	DroppedLists string
}

// Render renders o as the running controller does (syncImageConfig, between the reading of
// the objects and the writing of the MachineConfig). Templates is MCO's folder of
// that name.
func Render(templates string, o Objects) (Rendering, error) {
	blocked, policyBlocked, allowed, err := getValidBlockedAndAllowedRegistries(o.Release, &o.Image.Spec, o.Legacy, o.Digests)
	if errors.Is(err, errParsingReference) { // any other error is logged, and no more
		return Rendering{}, err
	}
	sources := o.Image.Spec.RegistrySources
	var r Rendering
	// With that other error, the lists are returned without what the error is about.
	if err != nil && !strings.HasPrefix(err.Error(), "error adding ") {
		r.DroppedLists = err.Error()
	}
	cluster, namespaced, err := getValidScopePolicies(o.ClusterPolicies, o.NamespacePolicies, nil)
	if err != nil {
		return r, err
	}
	config, err := registriesConfigIgnition(templates, controllerConfig(o.Release), workers, o.Release,
		sources.InsecureRegistries, blocked, policyBlocked, allowed, sources.ContainerRuntimeSearchRegistries,
		o.Legacy, o.Digests, o.Tags, cluster, namespaced)
	if err != nil {
		return r, err
	}
	r.Files, err = contents(config)
	return r, err
}

// Bootstrap is the files of Render by RunImageBootstrap, which renders the first configuration of a
// new cluster.
func Bootstrap(templates string, o Objects) (map[string][]byte, error) {
	gates := ctrlcommon.NewFeatureGatesHardcodedHandler([]configv1.FeatureGateName{features.FeatureGateSigstoreImageVerification}, nil)
	pools := []*mcfgv1.MachineConfigPool{{ObjectMeta: metav1.ObjectMeta{Name: workers}}}
	made, err := crc.RunImageBootstrap(templates, controllerConfig(o.Release), pools, o.Legacy, o.Digests, o.Tags, &o.Image, o.ClusterPolicies, o.NamespacePolicies, gates)
	if err != nil {
		return nil, err
	}
	return Read(made[0].Spec.Config.Raw)
}

// Read returns the files of the Ignition configuration of a MachineConfig, by their paths.
func Read(raw []byte) (map[string][]byte, error) {
	config, err := ctrlcommon.ParseAndConvertConfig(raw)
	if err != nil {
		return nil, err
	}
	return contents(&config)
}

const workers = "worker"

// controllerConfig has what the templates cannot be rendered without.
func controllerConfig(release string) *mcfgv1.ControllerConfig {
	return &mcfgv1.ControllerConfig{Spec: mcfgv1.ControllerConfigSpec{
		ClusterDNSIP: "10.3.0.10",
		ReleaseImage: release,
		DNS:          &configv1.DNS{Spec: configv1.DNSSpec{BaseDomain: "example.test"}},
		Infra: &configv1.Infrastructure{Status: configv1.InfrastructureStatus{
			InfrastructureName:   "test",
			APIServerURL:         "https://api.example.test:6443",
			APIServerInternalURL: "https://api-int.example.test:6443",
			PlatformStatus:       &configv1.PlatformStatus{Type: configv1.NonePlatformType},
		}},
	}}
}

func contents(config *ign3types.Config) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, f := range config.Storage.Files {
		data, err := ctrlcommon.DecodeIgnitionFileContents(f.Contents.Source, f.Contents.Compression)
		if err != nil {
			return nil, err
		}
		files[f.Path] = data
	}
	return files, nil
}

// Config returns a configuration that has these files alone.
func Config(files map[string][]byte) ign3types.Config {
	config := ctrlcommon.NewIgnConfig()
	for path, data := range files {
		config.Storage.Files = append(config.Storage.Files, ctrlcommon.NewIgnFileBytesOverwriting(path, data))
	}
	return config
}
