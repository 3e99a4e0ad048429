package mirrors

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// An Object is a *configv1.ImageTagMirrorSet, a *configv1.ImageDigestMirrorSet,
// an *operatorv1alpha1.ImageContentSourcePolicy, the *configv1.Image that
// holds the registry sources of the cluster, a *configv1.ClusterImagePolicy, a
// *configv1.ImagePolicy, a *mcfgv1.PinnedImageSet or a *MachineConfig. Only an ImagePolicy has a namespace.
type Object = metav1.Object

// A Set is everything in a cluster that ends up in registries.conf, policy.json and
// registries.d. It must be judged together: a deeper scope in one object hides a wider scope
// in another.
type Set struct {
	// Objects are mirror objects of the first three kinds, in any order: the
	// generated file does not depend on it.
	Objects []Object
	// Registries are the registrySources of image.config.openshift.io "cluster".
	Registries configv1.RegistrySources
	// Payload is the release image of the cluster, whose repository MCO exempts from
	// blockedRegistries; "" if it is not known.
	Payload string
	// Policies are the *configv1.ClusterImagePolicy and *configv1.ImagePolicy objects.
	Policies []Object
	// Pinned are the *mcfgv1.PinnedImageSet objects. They alter no file of the above: they name images
	// that nodes of their pools pull by these files.
	Pinned []Object
	// ImportFrom is allowedRegistriesForImport of Image cluster: see RefusesImport.
	ImportFrom []configv1.RegistryLocation
	// TrustedCA is the ConfigMap of openshift-config that additionalTrustedCA of Image
	// cluster names, "" for none.
	TrustedCA string
	// CAs are the certificates, as PEM, that it makes nodes trust for a registry, by the host
	// as written in references ("example.com:5000"). A review reads them if the
	// change names a different ConfigMap; CAsUnknown says why they could not be read.
	CAs        map[string]string
	CAsUnknown string
	// Applied holds what nodes have now by MachineConfig 99-worker-generated-registries; nil
	// where it was not read. It counts where MCO rejects the objects in force, which then do
	// not say what nodes do.
	Applied *Applied
	// Files are the container runtime's files that MachineConfigs put beside the generated
	// one, or in its place.
	Files []File
	// Pool is the MachineConfigPool whose Files count where they differ; "" for worker. See
	// Variants.
	Pool string
}

// A File is one that a MachineConfig puts on the nodes of a role.
type File struct {
	// MachineConfig is the name of the object, Role the value of its label
	// machineconfiguration.openshift.io/role ("worker").
	MachineConfig, Role string
	// Path is one of those for which IsAppliedFile holds.
	Path     string
	Contents []byte
}

// Applied holds what MCO last wrote for the nodes.
type Applied struct {
	// Files are the files that say where nodes pull from and what they require of images, by
	// path. Where one is missing or empty, that which comes with the system counts.
	Files map[string][]byte
}

// A MachineConfig is one that a change brings or takes away. Only its Files matter, which are those
// of its name in a Set. New and Parse know none, since an API server has no rule for them.
type MachineConfig struct {
	metav1.ObjectMeta
	Files []File
}

// clusterName is the only name under which MCO reads the image configuration.
const clusterName = "cluster"

// An Entry is one (source, mirrors) pair of an Object.
type Entry struct {
	Object  Object
	Source  string
	Mirrors []string
	Policy  configv1.MirrorSourcePolicy // "" means AllowContactingSource
}

// HasMirror reports whether e has a real mirror: the generator drops an entry without mirrors,
// or whose only mirror is its source.
func (e Entry) HasMirror() bool {
	return slices.ContainsFunc(e.Mirrors, func(m string) bool { return m != e.Source })
}

// Entries returns the entries of the mirror objects of s, in their order.
func (s Set) Entries() []Entry {
	var entries []Entry
	for _, o := range s.Objects {
		entries = append(entries, entriesOf(o)...)
	}
	return entries
}

// mirroredSources returns the sources that have tag mirrors, or digest mirrors, sorted.
func (s Set) mirroredSources(ofTags bool) []string {
	var sources []string
	for _, e := range s.Entries() {
		if _, isTag := e.Object.(*configv1.ImageTagMirrorSet); isTag == ofTags && e.HasMirror() {
			sources = append(sources, e.Source)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// without returns s without the given sources in its mirror objects and lists.
func (s Set) without(sources map[string]bool) Set {
	kept := Set{Registries: s.Registries, Payload: s.Payload}
	for _, o := range s.Objects {
		switch o := o.(type) {
		case *configv1.ImageTagMirrorSet:
			o = o.DeepCopy()
			o.Spec.ImageTagMirrors = slices.DeleteFunc(o.Spec.ImageTagMirrors, func(m configv1.ImageTagMirrors) bool { return sources[m.Source] })
			kept.Objects = append(kept.Objects, o)
		case *configv1.ImageDigestMirrorSet:
			o = o.DeepCopy()
			o.Spec.ImageDigestMirrors = slices.DeleteFunc(o.Spec.ImageDigestMirrors, func(m configv1.ImageDigestMirrors) bool { return sources[m.Source] })
			kept.Objects = append(kept.Objects, o)
		case *operatorv1alpha1.ImageContentSourcePolicy:
			o = o.DeepCopy()
			o.Spec.RepositoryDigestMirrors = slices.DeleteFunc(o.Spec.RepositoryDigestMirrors, func(m operatorv1alpha1.RepositoryDigestMirrors) bool { return sources[m.Source] })
			kept.Objects = append(kept.Objects, o)
		}
	}
	return kept
}

func entriesOf(o Object) []Entry {
	var entries []Entry
	add := func(source string, policy configv1.MirrorSourcePolicy, mirrors []string) {
		entries = append(entries, Entry{Object: o, Source: source, Mirrors: mirrors, Policy: policy})
	}
	switch o := o.(type) {
	case *configv1.ImageTagMirrorSet:
		for _, m := range o.Spec.ImageTagMirrors {
			add(m.Source, m.MirrorSourcePolicy, texts(m.Mirrors))
		}
	case *configv1.ImageDigestMirrorSet:
		for _, m := range o.Spec.ImageDigestMirrors {
			add(m.Source, m.MirrorSourcePolicy, texts(m.Mirrors))
		}
	case *operatorv1alpha1.ImageContentSourcePolicy:
		for _, m := range o.Spec.RepositoryDigestMirrors {
			add(m.Source, "", m.Mirrors)
		}
	}
	return entries
}

func texts(mirrors []configv1.ImageMirror) []string {
	return convert.Each(mirrors, func(m configv1.ImageMirror) string { return string(m) })
}
