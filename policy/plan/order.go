package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A mirrored is a source, and the references to it, by digest or by tag, that have mirrors of their own.
type mirrored struct{ source, pull string }

func mirroredBy(e mirrors.Entry) mirrored {
	if mirrors.KindOf(e.Object) == mirrors.TagMirrorSetGVK.Kind {
		return mirrored{e.Source, sysregistriesv2.MirrorByTagOnly}
	}
	return mirrored{e.Source, sysregistriesv2.MirrorByDigestOnly}
}

// OrderNotes says of sources that have mirrors from several objects in which order nodes ask these after the change,
// where that adds to the mirrors or puts them in another order. No object shows it: the mirrors of a source are put in an
// order in which those of each object stay in theirs, by their names where that leaves a choice (mergedMirrorSets and
// topoGraph of openshift/runtime-utils, pkg/registries).
func (p ChangePlan) OrderNotes() []string {
	before, after := p.Routes[0].before, p.Routes[0].After
	if len(p.Added) == 0 || before == nil || after == nil {
		return nil
	}
	objects := map[mirrored][]mirrors.Object{}
	for _, e := range p.Change.After.Entries() {
		by := mirroredBy(e)
		if of := objects[by]; e.HasMirror() && (len(of) == 0 || of[len(of)-1] != e.Object) {
			objects[by] = append(of, e.Object)
		}
	}
	var notes []string
	for _, e := range p.Added {
		by := mirroredBy(e)
		n := len(objects[by])
		if delete(objects, by); n < 2 || len(notes) == maxOrdered {
			continue
		}
		was, is := by.mirrors(before), by.mirrors(after)
		if len(was) == 0 || slices.Equal(was, is) {
			continue
		}
		note := text.Line(fmt.Sprintf("%s has mirrors from %d objects, which nodes will ask in this order: %s", e.Source, n, text.Names(is, maxOrdered)))
		added := slices.DeleteFunc(slices.Clone(is), func(m string) bool { return slices.Contains(was, m) })
		switch {
		case !slices.Contains(was, is[0]):
			note += "; the first of them is new"
		case len(added) > 0:
			note += text.Line(fmt.Sprintf("; %s is behind others, and was not looked into", text.Names(added, MaxNamed)))
		}
		notes = append(notes, note)
	}
	return notes
}

// maxOrdered is how many mirrors a note names, and how many notes there are at most.
const maxOrdered = 5

// mirrors returns the mirrors that a table has, in the order in which nodes ask them.
func (m mirrored) mirrors(t *mirrors.Table) []string {
	var names []string
	for _, r := range t.Config().Registries {
		if strings.TrimSuffix(cmp.Or(r.Prefix, r.Location), "/") != m.source {
			continue
		}
		for _, mirror := range r.Mirrors {
			if pull := mirror.PullFromMirror; pull == m.pull || pull != sysregistriesv2.MirrorByTagOnly && pull != sysregistriesv2.MirrorByDigestOnly {
				names = append(names, mirror.Location)
			}
		}
	}
	return names
}
