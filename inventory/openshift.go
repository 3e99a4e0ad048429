package inventory

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A customKind is a kind of OpenShift or its add-ons, and where in it images are
// named. Not every cluster has all of them.
type customKind struct {
	resource schema.GroupVersionResource
	// before is the version to ask for where that of resource is not served.
	before string
	kind   string
	fields []imageField
	// secrets are the paths of the names of pull secrets for what fields name, or of what
	// has such a secret.
	secrets []string
	// account is the path of the service account whose pull secrets are for it as well,
	// or else that of the name defaultAccount; "" where none are.
	account, defaultAccount string
	// templates are the paths of pod templates.
	templates []string
	// lookup is set if the admission plugin for ImageStreams looks at the templates.
	lookup bool
	// operator is set if the templates' environment and arguments are settings of
	// an operator.
	operator bool
	// without is a label that marks objects to leave out.
	without string
	// history is a prefix of the names of objects that are kept for a way back.
	history string
	// over says that an object has done its work, and pulls nothing any more.
	over condition
	// tags is set if ImageStreamTags are named besides images.
	tags bool
	// large is set for objects that may come near 1 MiB.
	large bool
}

// An imageField is a path in an object, as in the comment of lookUp, that ends
// at an image.
type imageField struct {
	path string
	use  policy.Use
}

// A condition holds where the text at a path is one of some values.
type condition struct {
	path   string
	values []string
}

func (c condition) holds(o map[string]any) bool {
	holds := false
	if c.path != "" {
		lookUp(o, c.path, func(_ string, value any) {
			text, _ := value.(string)
			holds = slices.Contains(c.values, text)
		})
	}
	return holds
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

func referenced(paths ...string) []imageField { return fieldsOf(policy.Referenced, paths) }

func history(paths ...string) []imageField { return fieldsOf(policy.History, paths) }

func fieldsOf(use policy.Use, paths []string) []imageField {
	fields := make([]imageField, len(paths))
	for i, p := range paths {
		fields[i] = imageField{p, use}
	}
	return fields
}

// customKinds, in the order of semantics.md §5.
var customKinds = []customKind{
	{
		resource:  resourceOf("apps.openshift.io", "v1", "deploymentconfigs"),
		kind:      "DeploymentConfig",
		fields:    referenced("spec.strategy.customParams.image"),
		templates: []string{"spec.template"},
		lookup:    true,
	},
	{
		// The pause image, infraImageKey, is what every pod on a new node starts
		// with, and no pod names it.
		resource: resourceOf("machineconfiguration.openshift.io", "v1", "controllerconfigs"),
		kind:     "ControllerConfig",
		fields: referenced("spec.images{}", "spec.osImageURL", "spec.baseOSContainerImage",
			"spec.baseOSExtensionsContainerImage", "spec.releaseImage"),
		large: true,
	},
	{
		// What MCO renders is merged from the other MachineConfigs and the
		// ControllerConfig, so that the images of today are named there as well.
		resource: resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigs"),
		kind:     "MachineConfig",
		fields:   referenced("spec.osImageURL", "spec.baseOSExtensionsContainerImage"),
		history:  "rendered-",
		large:    true,
	},
	{
		resource: resourceOf("machineconfiguration.openshift.io", "v1", "pinnedimagesets"),
		before:   "v1alpha1", // the fields are the same
		kind:     "PinnedImageSet",
		fields:   referenced("spec.pinnedImages[].name"),
	},
	{
		resource: resourceOf("machineconfiguration.openshift.io", "v1", "machineosconfigs"),
		kind:     "MachineOSConfig",
		fields:   referenced("status.currentImagePullSpec"),
	},
	{
		resource: resourceOf("machineconfiguration.openshift.io", "v1", "machineosbuilds"),
		kind:     "MachineOSBuild",
		fields:   history("status.digestedImagePushSpec"),
	},
	{
		// Updates that are on offer are not depended on: a mirror seldom holds them
		// before somebody has chosen one.
		resource: resourceOf("config.openshift.io", "v1", "clusterversions"),
		kind:     "ClusterVersion",
		fields: append(referenced("status.desired.image", "spec.desiredUpdate.image"),
			history("status.history[].image", "status.availableUpdates[].image", "status.conditionalUpdates[].release.image")...),
	},
	{
		// OLM copies the ClusterServiceVersion of a global operator into every
		// namespace (operator-framework/operator-lifecycle-manager,
		// pkg/controller/operators/olm/operatorgroup.go).
		resource:  resourceOf("operators.coreos.com", "v1alpha1", "clusterserviceversions"),
		kind:      "ClusterServiceVersion",
		fields:    referenced("spec.relatedImages[].image"),
		templates: []string{"spec.install.spec.deployments[].spec.template"},
		operator:  true,
		without:   "olm.copiedFrom",
		large:     true,
	},
	{
		// The bundle is unpacked by a Job. A plan that has come to an end is never taken up
		// again (operator-lifecycle-manager, pkg/controller/operators/catalog/operator.go,
		// syncInstallPlans).
		resource: resourceOf("operators.coreos.com", "v1alpha1", "installplans"),
		kind:     "InstallPlan",
		fields:   referenced("status.bundleLookups[].path"),
		over:     condition{"status.phase", []string{"Complete", "Failed"}},
		large:    true,
	},
	{
		resource: resourceOf("operators.coreos.com", "v1alpha1", "catalogsources"),
		kind:     "CatalogSource",
		fields:   referenced("spec.image"),
		secrets:  []string{"spec.secrets[]"}, // OLM gives them to the registry pod's service account
	},
	{
		resource: resourceOf("olm.operatorframework.io", "v1", "clustercatalogs"),
		kind:     "ClusterCatalog",
		fields:   referenced("spec.source.image.ref", "status.resolvedSource.image.ref"),
	},
	{
		// The first item of a tag is what it means today.
		resource: resourceOf("image.openshift.io", "v1", "imagestreams"),
		kind:     "ImageStream",
		// A tag is a catalogue entry: no node pulls for it. What uses it has the image
		// in its own template or build. The samples alone name hundreds of images that
		// a disconnected cluster never mirrors.
		fields: history("spec.tags[].from", "status.tags[].items[].dockerImageReference"),
	},
	{
		resource: resourceOf("build.openshift.io", "v1", "buildconfigs"),
		kind:     "BuildConfig",
		fields: referenced("spec.strategy.dockerStrategy.from", "spec.strategy.sourceStrategy.from",
			"spec.strategy.customStrategy.from", "spec.source.images[].from"),
		secrets: buildSecrets, account: "spec.serviceAccount", defaultAccount: "builder",
		tags: true, // a build pulls what the tag stands for when it begins
	},
	{
		// What a tag stood for when the build began is in the Build.
		resource: resourceOf("build.openshift.io", "v1", "builds"),
		kind:     "Build",
		fields: referenced("spec.strategy.dockerStrategy.from", "spec.strategy.sourceStrategy.from",
			"spec.strategy.customStrategy.from", "spec.source.images[].from"),
		secrets: buildSecrets, account: "spec.serviceAccount", defaultAccount: "builder",
		tags: true,
		over: condition{"status.phase", []string{"Complete", "Failed", "Error", "Cancelled"}},
	},
	{
		resource: resourceOf("hypershift.openshift.io", "v1beta1", "hostedclusters"),
		kind:     "HostedCluster",
		fields: append(referenced("spec.release.image", "spec.controlPlaneRelease.image", "status.version.desired.image"),
			history("status.version.history[].image")...),
		secrets: []string{"spec.pullSecret.name"}, // the hosted nodes' own
	},
	{
		resource: resourceOf("hypershift.openshift.io", "v1beta1", "nodepools"),
		kind:     "NodePool",
		fields:   referenced("spec.release.image"),
		secrets:  []string{"spec.clusterName"}, // each HostedCluster has one
	},
	{
		resource:  resourceOf("", "v1", "podtemplates"),
		kind:      "PodTemplate",
		templates: []string{"template"},
	},
	{
		resource:  resourceOf("argoproj.io", "v1alpha1", "rollouts"),
		kind:      "Rollout",
		templates: []string{"spec.template"},
	},
	{
		resource: resourceOf("kubevirt.io", "v1", "virtualmachines"),
		kind:     "VirtualMachine",
		fields: referenced("spec.template.spec.volumes[].containerDisk.image",
			"spec.template.spec.domain.firmware.kernelBoot.container.image"),
	},
}

// buildSecrets are what a build may take credentials from for the images it starts from.
var buildSecrets = []string{
	"spec.strategy.dockerStrategy.pullSecret.name", "spec.strategy.sourceStrategy.pullSecret.name",
	"spec.strategy.customStrategy.pullSecret.name", "spec.source.images[].pullSecret.name",
}

// customKindOf finds a kind in customKinds.
func customKindOf(kind schema.GroupKind) (customKind, bool) {
	for _, k := range customKinds {
		if k.kind == kind.Kind && k.resource.Group == kind.Group {
			return k, true
		}
	}
	return customKind{}, false
}

// isHistory reports whether nothing pulls what the kind names.
func (k customKind) isHistory() bool {
	return len(k.templates) == 0 && !slices.ContainsFunc(k.fields, func(f imageField) bool { return f.use != policy.History })
}

// extract returns the images that an object of the kind names.
func (k customKind) extract(o *unstructured.Unstructured) Holder {
	h := Holder{Kind: k.kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, marked := o.GetLabels()[k.without]; marked {
		return h
	}
	past := k.history != "" && strings.HasPrefix(h.Name, k.history) || k.over.holds(o.Object)
	for _, f := range k.fields {
		use := f.use
		if past {
			use = policy.History
		}
		lookUp(o.Object, f.path, func(field string, value any) {
			r := Reference{Image: imageIn(value), Container: field, Use: use}
			switch {
			case k.tags:
				r.Tag = tagIn(value, h.Namespace)
			case k.kind == "ImageStream":
				r.Tag = h.tagAt(field, r.Image)
			}
			h.add(r)
		})
	}
	k.addSecrets(&h, o.Object)
	for _, path := range k.templates {
		lookUp(o.Object, path, func(_ string, value any) { h.addTemplate(o, value, k) })
	}
	return h
}

// addSecrets tells the references of h, which are fields', what they are pulled with.
func (k customKind) addSecrets(h *Holder, object map[string]any) {
	own := false
	for _, path := range k.secrets {
		own = own || textAt(object, path) != ""
	}
	account := k.defaultAccount
	if name := textAt(object, k.account); name != "" {
		account = name
	}
	for i := range h.References {
		h.References[i].OwnPullSecret, h.References[i].Account = own, account
	}
}

// textAt returns the first text at a path that is not empty.
func textAt(object map[string]any, path string) (text string) {
	lookUp(object, path, func(_ string, value any) {
		if found, ok := value.(string); ok && text == "" {
			text = found
		}
	})
	return text
}

// imageIn returns the image that a field holds: a text, or the object reference
// of ImageStreams and BuildConfigs, which names an image of the world outside
// only if its kind is DockerImage.
func imageIn(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		if v["kind"] != "DockerImage" {
			return ""
		}
		name, _ := v["name"].(string)
		return name
	default:
		return ""
	}
}

// tagIn returns the ImageStreamTag or ImageStreamImage that an object reference names, as
// Reference.Tag has it; "" for anything else.
func tagIn(value any, namespace string) string {
	object, _ := value.(map[string]any)
	kind, _ := object["kind"].(string)
	name, _ := object["name"].(string)
	if kind != "ImageStreamTag" && kind != "ImageStreamImage" || name == "" {
		return ""
	}
	if other, _ := object["namespace"].(string); other != "" {
		namespace = other
	}
	return namespace + "/" + name
}

// streamItem is where an ImageStream has an image that a tag stands for, or stood for.
var streamItem = regexp.MustCompile(`^status\.tags\[(.+)\]\.items\[(\d+)\]\.dockerImageReference$`)

// tagAt returns the tag that stands for the image in a field of an ImageStream. Only the
// first item of a tag is what it means today; the others go by their digests.
func (h *Holder) tagAt(field, image string) string {
	m := streamItem.FindStringSubmatch(field)
	if m == nil || strings.TrimSpace(image) == "" {
		return ""
	}
	if m[2] == "0" {
		return h.Namespace + "/" + h.Name + ":" + m[1]
	}
	_, digest, found := strings.Cut(image, "@")
	if !found {
		return ""
	}
	return h.Namespace + "/" + h.Name + "@" + digest
}
