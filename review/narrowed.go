package review

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// Narrowed returns the mirror objects of the change with sources that cover what their mirrors hold and
// nothing else; entries that the change leaves as they are in force stay. ok is false if the
// change adds no entry that could be narrowed.
func (r Record) Narrowed() (objects []mirrors.Object, ok bool) {
	seen := map[string]bool{}
	for _, added := range r.Plan.Added {
		name := mirrors.NameOf(added.Object)
		if seen[name] {
			continue
		}
		seen[name] = true
		var entries []mirrors.Entry
		for _, e := range r.Change.After.Entries() {
			switch {
			case mirrors.NameOf(e.Object) != name:
			case r.isAdded(e):
				entries = append(entries, rules.Narrow(r.Plan.Plan, r.Facts, e)...)
			default:
				entries = append(entries, e)
			}
		}
		objects = append(objects, withEntries(added.Object, entries))
	}
	return objects, len(objects) > 0
}

func (r Record) isAdded(e mirrors.Entry) bool {
	return slices.ContainsFunc(r.Plan.Added, func(added mirrors.Entry) bool {
		return mirrors.NameOf(added.Object) == mirrors.NameOf(e.Object) && added.Source == e.Source && slices.Equal(added.Mirrors, e.Mirrors) && added.Policy == e.Policy
	})
}

// twins returns mirror objects of the other kind for those entries of the change whose images are all pulled in the
// way that their object does not serve, under its name. A twin in force keeps its entries.
func (r Record) twins() []mirrors.Object {
	entries := map[string][]mirrors.Entry{}
	var objects []mirrors.Object
	for _, e := range plan.Unserved(r.Plan) {
		twin := twinOf(e.Object)
		name := mirrors.NameOf(twin)
		if _, ok := entries[name]; !ok {
			objects = append(objects, twin)
			entries[name] = slices.DeleteFunc(r.Change.After.Entries(), func(e mirrors.Entry) bool { return mirrors.NameOf(e.Object) != name })
		}
		entries[name] = append(entries[name], e)
	}
	for i, o := range objects {
		objects[i] = withEntries(o, entries[mirrors.NameOf(o)])
	}
	return objects
}

// WithTwins reviews edit, which record is of, with its twins; it returns record if there are none.
func (r *Reviewer) WithTwins(ctx context.Context, edit mirrors.Edit, record Record, by settings.Requester) (Record, error) {
	twins := record.twins()
	if len(twins) == 0 {
		return record, nil
	}
	return r.Review(ctx, mirrors.Join(append([]mirrors.Edit{edit}, convert.Each(twins, mirrors.Put)...)...), by)
}

// ReviewNarrowed reviews the change of record with Narrowed objects instead of its own.
func (r *Reviewer) ReviewNarrowed(ctx context.Context, of Record, by settings.Requester) (Record, error) {
	objects, _ := of.Narrowed()
	var edits []mirrors.Edit
	for _, o := range objects {
		if hasEntries(o) {
			edits = append(edits, mirrors.Put(o))
		}
	}
	return r.Review(ctx, mirrors.Join(edits...), by)
}

// WriteNarrowed writes Narrowed objects, ready to apply, with the result of reviewing them; in comments, if they would be refused.
func WriteNarrowed(w io.Writer, of, reviewed Record) error {
	objects, ok := of.Narrowed()
	if !ok {
		_, err := io.WriteString(w, text.Comment("The change adds no entry that could be narrowed."))
		return err
	}
	if reviewed.Verdict.Allowed {
		for _, line := range reviewed.Warnings()[min(1, len(reviewed.Warnings())):] {
			fmt.Fprint(w, text.Comment("Warning: %s", line))
		}
	} else {
		fmt.Fprint(w, text.Comment("Even so it would be refused, and stands in comments:"))
		for line := range strings.Lines(reviewed.Refusal) {
			fmt.Fprint(w, text.Comment("%s", line))
		}
	}
	for _, line := range reviewed.Judged().assumedLines() {
		fmt.Fprint(w, text.Comment("Assumed, not found: %s", line))
	}
	for _, o := range objects {
		if err := writeNarrowedObject(w, o, reviewed.Verdict.Allowed); err != nil {
			return err
		}
	}
	return nil
}

func hasEntries(o mirrors.Object) bool {
	set := mirrors.Put(o).Apply(mirrors.Set{})
	return len(set.Entries()) > 0
}

func writeNarrowedObject(w io.Writer, o mirrors.Object, admitted bool) error {
	fmt.Fprintln(w, "---")
	if !hasEntries(o) {
		_, err := io.WriteString(w, text.Comment("%s: no source would do, as its mirrors hold no image that it serves.", mirrors.NameOf(o)))
		return err
	}
	data, err := yaml.Marshal(mirrors.BareOf(o))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if !admitted {
			line = "# " + line
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// twinOf returns an empty object of o's name that serves what o's kind does not: tags, or digests.
func twinOf(o mirrors.Object) mirrors.Object {
	meta := metav1.ObjectMeta{Name: o.GetName()}
	if mirrors.KindOf(o) == mirrors.TagMirrorSetGVK.Kind {
		return &configv1.ImageDigestMirrorSet{ObjectMeta: meta}
	}
	return &configv1.ImageTagMirrorSet{ObjectMeta: meta}
}

// withEntries returns an object of o's kind and name with other entries.
func withEntries(o mirrors.Object, entries []mirrors.Entry) mirrors.Object {
	meta := metav1.ObjectMeta{Name: o.GetName()}
	switch o.(type) {
	case *configv1.ImageTagMirrorSet:
		set := &configv1.ImageTagMirrorSet{ObjectMeta: meta}
		for _, e := range entries {
			set.Spec.ImageTagMirrors = append(set.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: e.Source, Mirrors: imageMirrors(e), MirrorSourcePolicy: e.Policy})
		}
		return set
	case *configv1.ImageDigestMirrorSet:
		set := &configv1.ImageDigestMirrorSet{ObjectMeta: meta}
		for _, e := range entries {
			set.Spec.ImageDigestMirrors = append(set.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: e.Source, Mirrors: imageMirrors(e), MirrorSourcePolicy: e.Policy})
		}
		return set
	default:
		set := &operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: meta}
		for _, e := range entries {
			set.Spec.RepositoryDigestMirrors = append(set.Spec.RepositoryDigestMirrors, operatorv1alpha1.RepositoryDigestMirrors{Source: e.Source, Mirrors: e.Mirrors})
		}
		return set
	}
}

func imageMirrors(e mirrors.Entry) []configv1.ImageMirror {
	out := make([]configv1.ImageMirror, len(e.Mirrors))
	for i, m := range e.Mirrors {
		out[i] = configv1.ImageMirror(m)
	}
	return out
}
