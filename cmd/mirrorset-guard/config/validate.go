package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// maxLifetime is that of facts; the comment on the field names it.
const maxLifetime = 24 * time.Hour

// validate returns the mistakes of c that its schema cannot say.
func (c Configuration) validate() field.ErrorList {
	mistakes := severityMistakes(c.Severities)
	for i, e := range c.Exemptions {
		mistakes = append(mistakes, exemptionMistakes(field.NewPath("exemptions").Index(i), e)...)
	}
	mistakes = append(mistakes, twice(field.NewPath("exemptions"), "name", c.Exemptions, func(e v1alpha1.Exemption) string { return e.Name })...)
	mistakes = append(mistakes, twice(field.NewPath("registries"), "host", c.Registries, func(r v1alpha1.Registry) string { return mirrors.OneSpelling(r.Host) })...)
	if d := c.FactLifetime; time.Duration(d) > maxLifetime {
		mistakes = append(mistakes, field.Invalid(field.NewPath("factLifetime"), d.String(), "want from 0s to 24h"))
	}
	return mistakes
}

// twice returns the entries of a list whose key another one has.
func twice[T any](path *field.Path, name string, list []T, key func(T) string) field.ErrorList {
	var mistakes field.ErrorList
	seen := map[string]bool{"": true} // the schema says that it is missing
	for i, entry := range list {
		if k := key(entry); k != "" && seen[k] {
			mistakes = append(mistakes, field.Duplicate(path.Index(i).Child(name), k))
		}
		seen[key(entry)] = true
	}
	return mistakes
}

func severityMistakes(severities map[string]v1alpha1.Severity) field.ErrorList {
	var mistakes field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(severities)) {
		if !rules.IsRule(strings.TrimSuffix(key, "@protected")) {
			mistakes = append(mistakes, field.Invalid(field.NewPath("severities").Key(key), field.OmitValueType{}, "no such rule: want RULE or RULE@protected"))
		}
	}
	return mistakes
}

func exemptionMistakes(path *field.Path, e v1alpha1.Exemption) field.ErrorList {
	var mistakes field.ErrorList
	for i, p := range e.Images {
		if !settings.ImagePattern(p).Valid() {
			mistakes = append(mistakes, field.Invalid(path.Child("images").Index(i), p, "want a host, a repository with its host, an image with its host, *.DOMAIN or *"))
		}
	}
	if coversEverything(e) {
		mistakes = append(mistakes, field.Invalid(path, e.Name, "the exemption restricts nothing: it exempts everything; if that is meant, say mode: warn"))
	}
	return mistakes
}

// coversEverything reports whether e restricts nothing. An empty list does not, and neither
// does one with an entry that always matches.
func coversEverything(e v1alpha1.Exemption) bool {
	unrestricted := func(names []string) bool { return len(names) == 0 || slices.Contains(names, "*") }
	anyone := len(e.Users)+len(e.Groups) == 0 || slices.Contains(e.Users, "*") ||
		slices.ContainsFunc(e.Groups, func(g string) bool { return g == "*" || isEverybody(g) })
	return unrestricted(e.Images) && unrestricted(e.Namespaces) && unrestricted(e.MirrorSets) && anyone
}

// isEverybody reports whether everybody who may change a mirror set is in a group.
func isEverybody(group string) bool {
	prefix, open := strings.CutSuffix(group, "*")
	const all = "system:authenticated"
	return group == all || open && strings.HasPrefix(all, prefix)
}
