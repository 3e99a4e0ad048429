package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// ReviewFlags choose the subject of a review: a world, a change in it or none, and by which rules for whom.
type ReviewFlags struct {
	World  WorldFlags
	Change ChangeFlags
	Config ConfigFlags
	By     RequesterFlags

	given *pflag.FlagSet
}

// AddFlags adds the flags.
func (r *ReviewFlags) AddFlags(flags *pflag.FlagSet) {
	r.AddInForce(flags)
	r.Change.AddFlags(flags)
	r.By.AddFlags(flags)
}

// AddInForce adds the flags of a question about the configuration in force.
func (r *ReviewFlags) AddInForce(flags *pflag.FlagSet) {
	r.given = flags
	r.World.AddFlags(flags)
	r.Config.AddFlags(flags)
}

// Again returns the flags that were given and that another command about the same cluster needs, as a shell reads them: " --from dump.yaml".
// It is "" if there are none.
func (r *ReviewFlags) Again() string {
	var again strings.Builder
	r.given.Visit(func(f *pflag.Flag) {
		if !slices.Contains(ofCluster, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, v := range values {
			again.WriteString(" --" + f.Name + " " + shellWord(v))
		}
	})
	return again.String()
}

// ofCluster are the flags that choose the cluster and how its registries are asked.
var ofCluster = []string{"from", "kubeconfig", "context", "config", "pull-secret", "registry-ca", "resolve"}

var plainWord = regexp.MustCompile(`^[0-9A-Za-z_./:@=,+-]+$`)

// shellWord returns s as a shell reads it as one word.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// A Candidate is a change that was read, or none, with the world that it would be made in and what reviews it there.
type Candidate struct {
	World    *environment.World
	Reviewer review.Reviewer
	Change   Change
	Edit     mirrors.Edit
	By       settings.Requester
	Notes    []string
}

// Open reads the change, if there is one, and opens the world. That is to be closed.
func (r *ReviewFlags) Open(ctx context.Context, streams Streams) (*Candidate, error) {
	configured, err := r.Config.Read()
	if err != nil {
		return nil, err
	}
	r.World.Registries.Configured = &configured
	c := new(Candidate)
	if c.By, err = r.By.Requester(); err != nil {
		return nil, err
	}
	if c.Change, err = r.Change.Begin(streams); err != nil {
		return nil, err
	}
	if c.World, err = r.World.Open(ctx, streams); err != nil {
		return nil, c.Change.Unless(err)
	}
	if c.Edit, c.Notes, err = c.Change.On(ctx, c.World); err != nil {
		c.World.Close()
		return nil, err
	}
	c.Reviewer = c.World.Reviewer()
	c.Reviewer.Settings = configured.Settings()
	brought, notes := c.Change.Brought()
	c.Reviewer.Brought, c.Notes = brought, append(c.Notes, notes...)
	if note := r.By.Note(c.Reviewer.Settings); note != "" {
		c.Notes = append(c.Notes, note)
	}
	return c, nil
}
