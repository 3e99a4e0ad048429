package rules

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// besideNodes is BuildFails, ImportFails and PullThroughFails: a puller that reads mirror objects without being
// a node would not get an image on the new route, only from the source, or that is unknown. None of it stops a
// pod that runs, or a drain: a build that fails says so to the person who waits for it, a tag whose import
// fails keeps what it stands for, and the integrated registry keeps what it has fetched once
// (openshift/image-registry, pullthroughmanifestservice.go, mirrorManifest). So they warn. A tag that is
// imported on demand only is a catalogue entry, and not worth a warning.
func besideNodes(a *evidence.Case) (policy.Finding, bool) {
	reason := lackBesideNodes(a)
	if reason == "" {
		return policy.Finding{}, false
	}
	f := policy.Finding{Severity: policy.Warn, Reason: reason, Detail: a.Places()}
	if policy.OnlyHistory(a.Image) {
		f.Severity = policy.Info
	}
	if a.AbsentSomewhere() && a.OutcomeAtMirrors == evidence.Fails && a.NewRoute.HasOpenMirror() {
		f.Copy = copyToMirror(a)
		return f, true
	}
	f.Remedy = a.VerifyRemedy()
	return f, true
}

// lackBesideNodes states the fault of the new route, "" if it has none.
func lackBesideNodes(a *evidence.Case) string {
	who, get := a.Puller.String(), "get"
	if a.Puller == mirrors.PullThrough {
		who, get = "the integrated registry", "gets"
	}
	switch {
	case a.After.Err != nil:
		return fmt.Sprintf("%s cannot compute where to pull it: %v", who, a.After.Err)
	case a.After.Refused != "":
		return fmt.Sprintf("%s would be refused: %s", who, a.After.Refused)
	case a.OutcomeAfter == evidence.Fails:
		return fmt.Sprintf("%s %s it from no place on the new route", who, get)
	case a.OutcomeAfter == evidence.Unsure:
		return fmt.Sprintf("it could not be verified that %s %s it on the new route", who, get)
	case a.OnlySourceHolds() && a.OutcomeAtMirrors == evidence.Fails:
		return fmt.Sprintf("%s %s it from the source only: no mirror has it", who, get)
	case a.OnlySourceHolds():
		return fmt.Sprintf("it could not be verified that %s %s it from a mirror on the new route; the source has it", who, get)
	default:
		return ""
	}
}

// followedAtOnce: MCO rejects the configuration, and says so nowhere; nodes keep what they have. Readers
// of the objects at the API take them as they are: see mirrors.ResolveFor.
func followedAtOnce(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	if p.Rejected == nil || plan.IsTooMuch(p.Rejected) || !p.Known.Images.HasOtherPullers() || len(p.Change.Before.Objects)+len(p.Change.After.Objects) == 0 {
		return nil
	}
	f := policy.Finding{
		Severity: policy.Warn,
		Reason:   "nodes keep what they have, and builds, imports and the integrated registry follow the objects at once",
		Remedy:   []string{repairIt},
	}
	if _, err := mirrors.ResolveFor(mirrors.Builds, p.Change.After); err != nil {
		f.Detail = append(f.Detail, "builds keep what they had: their registries.conf cannot be generated", "imports use only what could be generated, and no source with a wildcard")
	}
	var policies []string
	for _, e := range p.Change.After.Entries() {
		if e.HasMirror() && strings.HasPrefix(string(e.Policy), "Never") {
			policies = append(policies, e.Source)
		}
	}
	if len(policies) > 0 {
		f.Detail = append(f.Detail, "imports and the integrated registry ask the source all the same: NeverContactSource does not count for them")
	}
	return []policy.Finding{f}
}

// importRefused is ImportFails for allowedRegistriesForImport: ImageStreams take no new reference to a registry that the list no
// longer allows, whichever mirror there is for it. The version operator writes those of the payload in each update, and waits.
func importRefused(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	before, after := p.Change.Before, p.Change.After
	var refused []string
	note := func(ref, by string) {
		if after.RefusesImport(ref) && !before.RefusesImport(ref) {
			refused = append(refused, ref+" ("+by+")")
		}
	}
	if note(p.Change.After.Payload, "the release: updates wait for its ImageStreams"); len(after.ImportFrom) == 0 {
		return nil
	}
	for img := range p.Known.Images.All() {
		for _, c := range img.Consumers {
			if c.Kind == "ImageStream" {
				note(img.Ref, "ImageStream "+c.Namespace+"/"+c.Name)
				break
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return []policy.Finding{{
		Severity: policy.Warn, Statement: &policy.Statement{Objects: []string{"Image cluster"}},
		Reason: fmt.Sprintf("allowedRegistriesForImport of Image cluster leaves out the registries of %s, and imports go by the name of the source, whatever its mirrors", text.Count(len(refused), "image")),
		Detail: text.First(refused, plan.MaxNamed, "image"),
		Remedy: []string{"name these registries in spec.allowedRegistriesForImport beside the mirrors"},
	}}
}
