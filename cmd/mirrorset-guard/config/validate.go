package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// The bounds of values; the comments on the types name them.
const (
	maxMinutes     = 24 * 60
	maxRate        = 1_000_000
	maxConcurrency = limits.RequestsPerRegistry
	minLifetime    = time.Second
	maxFound       = 24 * time.Hour
	maxFoundByTag  = time.Hour
	maxOther       = 10 * time.Minute
)

// A validator collects mistakes, but not about values that could not be decoded.
type validator struct {
	mistakes field.ErrorList
	wrong    map[string]bool
}

func (v *validator) add(mistake *field.Error) {
	if !v.wrong[mistake.Field] {
		v.mistakes = append(v.mistakes, mistake)
	}
}

// validate returns the mistakes of c, except those at the paths in wrong, which are known.
func (c Configuration) validate(wrong map[string]bool) field.ErrorList {
	v := validator{wrong: wrong}
	oneOf(&v, field.NewPath("mode"), c.Mode)
	v.patterns(field.NewPath("protectedNamespaces"), c.ProtectedNamespaces)
	v.severities(field.NewPath("severities"), c.Severities)
	for i, n := range c.NamespaceSeverities {
		path := field.NewPath("namespaceSeverities").Index(i)
		v.pattern(path.Child("namespace"), n.Namespace)
		oneOf(&v, path.Child("severity"), n.Severity)
	}
	oneOf(&v, field.NewPath("guesses"), c.Guesses)
	oneOf(&v, field.NewPath("verifyBlobs"), c.VerifyBlobs)
	v.exemptions(field.NewPath("exemptions"), c.Exemptions)
	v.minutes(field.NewPath("minutesPerNode"), c.MinutesPerNode)
	v.lifetimes(field.NewPath("lifetimes"), c.Lifetimes)
	v.registries(field.NewPath("registries"), c.Registries)
	if to := c.AuditLog; to != auditlog.Stdout && to != auditlog.Nowhere && !filepath.IsAbs(to) {
		v.add(field.Invalid(field.NewPath("auditLog"), to, "want stdout, none or a path that begins with /"))
	}
	oneOf(&v, field.NewPath("updates"), c.Updates)
	return v.mistakes
}

// oneOf wants value to be one of those that its type has.
func oneOf[T interface {
	~string
	v1alpha1.Enum
}](v *validator, path *field.Path, value T) {
	switch {
	case value == "":
		v.add(field.Required(path, "one of "+strings.Join(value.Values(), ", ")))
	case !slices.Contains(value.Values(), string(value)):
		v.add(field.NotSupported(path, value, value.Values()))
	}
}

var namespacePattern = regexp.MustCompile(`^(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}\*)$`)

func (v *validator) patterns(path *field.Path, patterns []string) {
	for i, p := range patterns {
		v.pattern(path.Index(i), p)
	}
}

func (v *validator) pattern(path *field.Path, pattern string) {
	switch {
	case pattern == "":
		v.add(field.Required(path, "the name of a namespace; a trailing * matches any ending"))
	case !namespacePattern.MatchString(pattern):
		v.add(field.Invalid(path, pattern, "not the name of a namespace, with or without a trailing *"))
	}
}

func (v *validator) severities(path *field.Path, severities map[string]v1alpha1.Severity) {
	rules := policy.RuleIDs()
	for _, key := range slices.Sorted(maps.Keys(severities)) {
		rule, suffix, found := strings.Cut(key, "@")
		switch {
		case !slices.Contains(rules, rule):
			v.add(field.Invalid(path.Key(key), field.OmitValueType{}, "no such rule"+didYouMean(rule, rules)))
		case found && suffix != "protected":
			v.add(field.Invalid(path.Key(key), field.OmitValueType{}, fmt.Sprintf("want %s or %s@protected", rule, rule)))
		}
		oneOf(v, path.Key(key), severities[key])
	}
}

var exemptionName = regexp.MustCompile(`^[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$`)

func (v *validator) exemptions(path *field.Path, exemptions []v1alpha1.Exemption) {
	seen := map[string]bool{}
	for i, e := range exemptions {
		at := path.Index(i)
		switch {
		case v.wrong[at.String()]:
			continue
		case e.Name == "":
			v.add(field.Required(at.Child("name"), "what warnings and records call the exemption"))
		case !exemptionName.MatchString(e.Name):
			v.add(field.Invalid(at.Child("name"), e.Name, "want at most 63 letters, digits, dashes, dots and underscores, with a letter or digit at either end"))
		case seen[e.Name]:
			v.add(field.Duplicate(at.Child("name"), e.Name))
		}
		seen[e.Name] = true
		v.exemption(at, e)
	}
}

func (v *validator) exemption(path *field.Path, e v1alpha1.Exemption) {
	for i, p := range e.Images {
		if !policy.ImagePattern(p).Valid() {
			v.add(field.Invalid(path.Child("images").Index(i), p, "want a host, a repository with its host, an image with its host, *.DOMAIN or *"))
		}
	}
	v.patterns(path.Child("namespaces"), e.Namespaces)
	v.names(path.Child("mirrorSets"), e.MirrorSets)
	v.names(path.Child("users"), e.Users)
	v.names(path.Child("groups"), e.Groups)
	if v.wrongBelow(path) {
		return // what it restricts is not known
	}
	switch {
	case coversEverything(e) && !e.Everything:
		v.add(field.Required(path.Child("everything"), "the exemption restricts nothing: it exempts everything; if that is meant, say so with everything: true"))
	case !coversEverything(e) && e.Everything:
		v.add(field.Invalid(path.Child("everything"), true, "the exemption does not exempt everything; leave this out"))
	}
}

func (v *validator) wrongBelow(path *field.Path) bool {
	for at := range v.wrong {
		if strings.HasPrefix(at, path.String()+".") {
			return true
		}
	}
	return false
}

// names wants names, of which a trailing * is the only wildcard.
func (v *validator) names(path *field.Path, names []string) {
	for i, name := range names {
		if name == "" || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			v.add(field.Invalid(path.Index(i), name, "want a name; a * may stand at its end only"))
		}
	}
}

// coversEverything reports whether e restricts nothing. An empty list does not, and neither
// does one with an entry that always matches.
func coversEverything(e v1alpha1.Exemption) bool {
	unrestricted := func(names []string) bool { return len(names) == 0 || slices.Contains(names, "*") }
	anyone := len(e.Users)+len(e.Groups) == 0 || slices.Contains(e.Users, "*") ||
		slices.ContainsFunc(e.Groups, func(g string) bool { return g == "*" || isEverybody(g) })
	return unrestricted(e.Images) && unrestricted(e.Namespaces) && unrestricted(e.MirrorSets) && len(e.MirrorSetLabels) == 0 && anyone
}

// isEverybody reports whether everybody who may change a mirror set is in a group.
func isEverybody(group string) bool {
	prefix, open := strings.CutSuffix(group, "*")
	const all = "system:authenticated"
	return group == all || open && strings.HasPrefix(all, prefix)
}

func (v *validator) minutes(path *field.Path, m *v1alpha1.Minutes) {
	if m == nil || v.wrong[path.String()] {
		return
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"least", m.Least}, {"most", m.Most}} {
		if n.value < 1 || n.value > maxMinutes {
			v.add(field.Invalid(path.Child(n.name), n.value, fmt.Sprintf("want from 1 to %d", maxMinutes)))
		}
	}
	if m.Least > m.Most && m.Most > 0 {
		v.add(field.Invalid(path.Child("least"), m.Least, fmt.Sprintf("want no more than most, which is %d", m.Most)))
	}
}

func (v *validator) lifetimes(path *field.Path, l v1alpha1.Lifetimes) {
	for _, d := range []struct {
		name  string
		value v1alpha1.Duration
		most  time.Duration
	}{{"found", l.Found, maxFound}, {"foundByTag", l.FoundByTag, maxFoundByTag}, {"recalled", l.Recalled, maxOther}, {"trouble", l.Trouble, maxOther}} {
		if time.Duration(d.value) < minLifetime || time.Duration(d.value) > d.most {
			v.add(field.Invalid(path.Child(d.name), d.value.String(), fmt.Sprintf("want from %s to %s", v1alpha1.Duration(minLifetime), v1alpha1.Duration(d.most))))
		}
	}
}

var hostPattern = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?$`)

func (v *validator) registries(path *field.Path, registries []v1alpha1.Registry) {
	seen := map[string]bool{}
	for i, r := range registries {
		at := path.Index(i)
		switch {
		case v.wrong[at.String()]:
			continue
		case r.Host == "":
			v.add(field.Required(at.Child("host"), "the host of a registry"))
		case !hostPattern.MatchString(r.Host) || !hasValidPort(r.Host):
			v.add(field.Invalid(at.Child("host"), r.Host, "want HOST or HOST:PORT"))
		case seen[hostOf(r.Host)]:
			v.add(field.Duplicate(at.Child("host"), r.Host))
		}
		seen[hostOf(r.Host)] = true
		if rate := r.RequestsPerSecond; rate != nil && !(*rate >= 0 && *rate <= maxRate) {
			v.add(field.Invalid(at.Child("requestsPerSecond"), *rate, fmt.Sprintf("want from 0 to %d", maxRate)))
		}
		if n := r.Concurrency; n != nil && (*n < 1 || *n > maxConcurrency) {
			v.add(field.Invalid(at.Child("concurrency"), *n, fmt.Sprintf("want from 1 to %d", maxConcurrency)))
		}
		oneOf(v, at.Child("depth"), cmp.Or(r.Depth, "blobs"))
	}
}

// hasValidPort reports whether a host has no port, or one that there can be.
func hasValidPort(host string) bool {
	_, port, found := strings.Cut(host, ":")
	if !found {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// hostOf gives the Docker Hub its name in references.
func hostOf(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	default:
		return host
	}
}
