package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// ConfigFlags name the configuration file.
type ConfigFlags struct {
	Path string
	// Mounted is set where the file comes from a ConfigMap; else a person names it, as a pipe
	// perhaps.
	Mounted bool
}

// AddFlags adds the flags.
func (c *ConfigFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Path, "config", "", "configuration file (see mirrorset-guard config)")
}

// Read returns what the file says, or the defaults if there is none.
func (c *ConfigFlags) Read() (config.Configuration, error) {
	read := config.Read
	if c.Mounted {
		read = config.ReadMounted
	}
	if c.Path == "" {
		return config.Default(), nil
	}
	file, err := read(c.Path)
	if err != nil {
		return file, ConfigError(err)
	}
	return file, nil
}

// ConfigError says by which flag the file came.
func ConfigError(err error) error { return fmt.Errorf("--config: %w", err) }

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
func (r *RequesterFlags) Requester() (settings.Requester, error) {
	if r.user == "" && len(r.groups) > 0 {
		return settings.Requester{}, errors.New("--for-group: name the user with --for-user")
	}
	return settings.Requester{User: r.user, Groups: r.groups}, nil
}

// Given reports whether the flags name somebody.
func (r *RequesterFlags) Given() bool { return r.user != "" || len(r.groups) > 0 }

// Note says that exemptions were left out, for want of a user; "" if none were.
func (r *RequesterFlags) Note(s settings.Settings) string {
	personal := slices.ContainsFunc(s.Exemptions, func(e settings.Exemption) bool { return len(e.Users)+len(e.Groups) > 0 })
	if r.user != "" || !personal {
		return ""
	}
	return "exemptions of users and groups were not applied, as it is not known who will make the change; see --for-user"
}
