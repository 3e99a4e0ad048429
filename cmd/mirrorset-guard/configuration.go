package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// configFlags name the configuration file. The flags that set the same as a file does set what
// the file leaves out.
type configFlags struct {
	path string
	// mounted is set where the file comes from a ConfigMap; else a person names it, as a pipe
	// perhaps.
	mounted bool

	given *pflag.FlagSet // nil: none
}

func (c *configFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.path, "config", "", "configuration file (see mirrorset-guard config); what it sets cannot be set by other flags")
	c.given = flags
}

// says reports whether a flag was given.
func (c *configFlags) says(flag string) bool { return c.given != nil && c.given.Changed(flag) }

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
func (c *configFlags) conflicts(file config.Configuration) error {
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

// A configuration joins the file and the flags.
type configuration struct {
	settings  policy.Settings
	paces     registry.Paces
	lifetimes presence.Lifetimes
	audit     auditlog.Settings
}

// read returns what the file, if there is one, and the flags say.
func (c *configFlags) read(p *policyFlags, r *registryFlags) (configuration, error) {
	file, read := config.Default(), config.Read
	if c.mounted {
		read = config.ReadMounted
	}
	if c.path != "" {
		var err error
		if file, err = read(c.path); err != nil {
			return configuration{}, configError(err)
		}
	}
	merged, err := c.merge(file, p, r)
	if err != nil && c.path != "" {
		return configuration{}, configError(fmt.Errorf("%s: %w", c.path, err))
	}
	return merged, err
}

// configError says by which flag the file came.
func configError(err error) error { return fmt.Errorf("--config: %w", err) }

// merge returns what file and the flags say.
func (c *configFlags) merge(file config.Configuration, p *policyFlags, r *registryFlags) (configuration, error) {
	if err := c.conflicts(file); err != nil {
		return configuration{}, err
	}
	flagged, err := p.settings()
	if err != nil {
		return configuration{}, err
	}
	rates, err := r.registryRates()
	if err != nil {
		return configuration{}, err
	}
	merged := configuration{settings: c.withFlags(file.Settings(), flagged), paces: file.Paces(), lifetimes: file.FactLifetimes(), audit: file.AuditSettings()}
	if c.says("registry-rate") {
		merged.paces.Rates = rates
	}
	if c.says("fact-lifetime") {
		merged.lifetimes.PresentDigest, merged.lifetimes.PresentTag = r.factLifetime, min(r.factLifetime, maxTagLifetime)
	}
	return merged, nil
}

// withFlags returns s with those of the flags that were given.
func (c *configFlags) withFlags(s, flagged policy.Settings) policy.Settings {
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

// requesterFlags say for whom check reviews a change.
type requesterFlags struct {
	user   string
	groups []string
}

func (r *requesterFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&r.user, "for-user", "", "user who will make the change, for the exemptions in --config")
	flags.StringArrayVar(&r.groups, "for-group", nil, "group of that user; may be repeated")
}

func (r *requesterFlags) requester() (policy.Requester, error) {
	if r.user == "" && len(r.groups) > 0 {
		return policy.Requester{}, errors.New("--for-group: name the user with --for-user")
	}
	return policy.Requester{User: r.user, Groups: r.groups}, nil
}

// note says that exemptions were left out, for want of a user; "" if none were.
func (r *requesterFlags) note(s policy.Settings) string {
	personal := slices.ContainsFunc(s.Exemptions, func(e policy.Exemption) bool { return len(e.Users)+len(e.Groups) > 0 })
	if r.user != "" || !personal {
		return ""
	}
	return "exemptions of users and groups were not applied, as it is not known who will make the change; see --for-user"
}
