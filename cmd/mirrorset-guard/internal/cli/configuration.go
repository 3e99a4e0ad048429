package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// ConfigFlags name the configuration file. Flags for settings that a file can have too apply to those
// that it leaves out.
type ConfigFlags struct {
	Path string
	// Mounted is set where the file comes from a ConfigMap; else a person names it, as a pipe
	// perhaps.
	Mounted bool

	given *pflag.FlagSet // nil: none
}

// AddFlags adds the flags.
func (c *ConfigFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Path, "config", "", "configuration file (see mirrorset-guard config); what it sets cannot be set by other flags")
	c.given = flags
}

// says reports whether a flag was given.
func (c *ConfigFlags) says(flag string) bool { return c.given != nil && c.given.Changed(flag) }

// overlapping are the flags that set the same as fields of the file.
var overlapping = []struct {
	flag   string
	fields []string
}{
	{"protect", []string{"protectedNamespaces"}},
	{"severity", []string{"severities"}},
	{"namespace-severity", []string{"namespaceSeverities"}},
	{"guesses", []string{"guesses"}},
	{"verify-blobs", []string{"verifyBlobs"}},
	{"allow-source-fallback", []string{"allowSourceFallback"}},
	{"minutes-per-node", []string{"minutesPerNode"}},
	{"fact-lifetime", []string{"lifetimes.found", "lifetimes.foundByTag"}},
	{"registry-rate", []string{"registries.requestsPerSecond"}},
	{"audit-log", []string{"audit.destination", "audit.file.path"}},
}

// conflicts returns an error that names all settings that are both in the file and among the
// flags.
func (c *ConfigFlags) conflicts(file config.Configuration) error {
	var both []string
	for _, o := range overlapping {
		if !c.says(o.flag) {
			continue
		}
		for _, field := range o.fields {
			if file.Says(field) {
				both = append(both, fmt.Sprintf("%s and --%s", field, o.flag))
			}
		}
	}
	if len(both) == 0 {
		return nil
	}
	return fmt.Errorf("set both in the configuration file and by a flag: %s", strings.Join(both, ", "))
}

// A Configuration joins the file and the flags.
type Configuration struct {
	Settings  policy.Settings
	Paces     registry.Paces
	Lifetimes presence.Lifetimes
	Audit     auditlog.Settings
	Updates   v1alpha1.Updates
}

// Read returns what the file, if there is one, and the flags say.
func (c *ConfigFlags) Read(p *PolicyFlags, r *RegistryFlags) (Configuration, error) {
	file, read := config.Default(), config.Read
	if c.Mounted {
		read = config.ReadMounted
	}
	if c.Path != "" {
		var err error
		if file, err = read(c.Path); err != nil {
			return Configuration{}, ConfigError(err)
		}
	}
	merged, err := c.Merge(file, p, r)
	if err != nil && c.Path != "" {
		return Configuration{}, ConfigError(fmt.Errorf("%s: %w", c.Path, err))
	}
	return merged, err
}

// ConfigError says by which flag the file came.
func ConfigError(err error) error { return fmt.Errorf("--config: %w", err) }

// Merge returns what file and the flags say.
func (c *ConfigFlags) Merge(file config.Configuration, p *PolicyFlags, r *RegistryFlags) (Configuration, error) {
	if err := c.conflicts(file); err != nil {
		return Configuration{}, err
	}
	flagged, err := p.settings()
	if err != nil {
		return Configuration{}, err
	}
	rates, err := r.registryRates()
	if err != nil {
		return Configuration{}, err
	}
	merged := Configuration{Settings: c.withFlags(file.Settings(), flagged), Paces: file.Paces(), Lifetimes: file.FactLifetimes(), Audit: file.AuditSettings(), Updates: file.Updates}
	if c.says("registry-rate") {
		merged.Paces.Rates = rates
	}
	if c.says("fact-lifetime") {
		merged.Lifetimes.PresentDigest, merged.Lifetimes.PresentTag = r.factLifetime, min(r.factLifetime, maxTagLifetime)
	}
	return merged, nil
}

// withFlags returns s with those of the flags that were given.
func (c *ConfigFlags) withFlags(s, flagged policy.Settings) policy.Settings {
	for flag, set := range map[string]func(){
		"protect":               func() { s.Protected = flagged.Protected },
		"severity":              func() { s.Severities = flagged.Severities },
		"namespace-severity":    func() { s.Namespaces = flagged.Namespaces },
		"guesses":               func() { s.Guesses = flagged.Guesses },
		"verify-blobs":          func() { s.Blobs = flagged.Blobs },
		"allow-source-fallback": func() { s.AllowSourceFallback = flagged.AllowSourceFallback },
		"minutes-per-node":      func() { s.Times = flagged.Times },
	} {
		if c.says(flag) {
			set()
		}
	}
	return s
}

// RequesterFlags name the user for whom check reviews a change.
type RequesterFlags struct {
	user   string
	groups []string
}

// AddFlags adds the flags.
func (r *RequesterFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&r.user, "for-user", "", "user who will make the change, for the exemptions in --config")
	flags.StringArrayVar(&r.groups, "for-group", nil, "group of that user; may be repeated")
}

// Requester returns who will make the change.
func (r *RequesterFlags) Requester() (policy.Requester, error) {
	if r.user == "" && len(r.groups) > 0 {
		return policy.Requester{}, errors.New("--for-group: name the user with --for-user")
	}
	return policy.Requester{User: r.user, Groups: r.groups}, nil
}

// Given reports whether the flags name somebody.
func (r *RequesterFlags) Given() bool { return r.user != "" || len(r.groups) > 0 }

// Note says that exemptions were left out, for want of a user; "" if none were.
func (r *RequesterFlags) Note(s policy.Settings) string {
	personal := slices.ContainsFunc(s.Exemptions, func(e policy.Exemption) bool { return len(e.Users)+len(e.Groups) > 0 })
	if r.user != "" || !personal {
		return ""
	}
	return "exemptions of users and groups were not applied, as it is not known who will make the change; see --for-user"
}
