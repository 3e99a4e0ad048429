package review

import (
	"fmt"
	"io"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// WriteNarrowed writes the mirror objects of the change, ready to apply, with sources that
// cover what their mirrors hold and nothing else.
func (r Record) WriteNarrowed(w io.Writer) error {
	var order []mirrors.Object
	entries := map[mirrors.Object][]mirrors.Entry{}
	for _, e := range r.Plan.Added {
		if _, seen := entries[e.Object]; !seen {
			order = append(order, e.Object)
		}
		entries[e.Object] = append(entries[e.Object], policy.Narrow(r.Plan, r.Facts, e)...)
	}
	if len(order) == 0 {
		_, err := fmt.Fprintln(w, "# The change adds no entry that could be narrowed.")
		return err
	}
	for _, o := range order {
		if err := writeNarrowedObject(w, o, entries[o]); err != nil {
			return err
		}
	}
	return nil
}

func writeNarrowedObject(w io.Writer, o mirrors.Object, entries []mirrors.Entry) error {
	fmt.Fprintln(w, "---")
	if len(entries) == 0 {
		_, err := fmt.Fprintf(w, "# %s: no source would do, as its mirrors hold no image that it covers.\n", text.Line(mirrors.NameOf(o)))
		return err
	}
	data, err := yaml.Marshal(withEntries(o, entries))
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// A manifest is the part of a mirror object that a person writes.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        map[string]string `json:"metadata"`
	Spec            any               `json:"spec"`
}

// withEntries returns an object of o's kind and name with other entries.
func withEntries(o mirrors.Object, entries []mirrors.Entry) manifest {
	m := manifest{Metadata: map[string]string{"name": o.GetName()}}
	switch o.(type) {
	case *configv1.ImageTagMirrorSet:
		m.APIVersion, m.Kind = mirrors.TagMirrorSetGVK.ToAPIVersionAndKind()
		var spec configv1.ImageTagMirrorSetSpec
		for _, e := range entries {
			spec.ImageTagMirrors = append(spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: e.Source, Mirrors: imageMirrors(e), MirrorSourcePolicy: e.Policy})
		}
		m.Spec = spec
	case *configv1.ImageDigestMirrorSet:
		m.APIVersion, m.Kind = mirrors.DigestMirrorSetGVK.ToAPIVersionAndKind()
		var spec configv1.ImageDigestMirrorSetSpec
		for _, e := range entries {
			spec.ImageDigestMirrors = append(spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: e.Source, Mirrors: imageMirrors(e), MirrorSourcePolicy: e.Policy})
		}
		m.Spec = spec
	default:
		m.APIVersion, m.Kind = mirrors.ContentPolicyGVK.ToAPIVersionAndKind()
		var spec operatorv1alpha1.ImageContentSourcePolicySpec
		for _, e := range entries {
			spec.RepositoryDigestMirrors = append(spec.RepositoryDigestMirrors, operatorv1alpha1.RepositoryDigestMirrors{Source: e.Source, Mirrors: e.Mirrors})
		}
		m.Spec = spec
	}
	return m
}

func imageMirrors(e mirrors.Entry) []configv1.ImageMirror {
	out := make([]configv1.ImageMirror, len(e.Mirrors))
	for i, m := range e.Mirrors {
		out[i] = configv1.ImageMirror(m)
	}
	return out
}
