package cli

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
)

// ReviewFlags choose what is reviewed: a world, a change in it or none, and by which rules for whom.
type ReviewFlags struct {
	World  WorldFlags
	Change ChangeFlags
	Policy PolicyFlags
	Config ConfigFlags
	By     RequesterFlags
}

// AddFlags adds the flags.
func (r *ReviewFlags) AddFlags(flags *pflag.FlagSet) {
	r.World.AddFlags(flags)
	r.Change.AddFlags(flags)
	r.Policy.AddFlags(flags)
	r.Config.AddFlags(flags)
	r.By.AddFlags(flags)
}

// A Candidate is a change that was read, or none, with the world that it would be made in and what reviews it there.
type Candidate struct {
	World    *world.World
	Reviewer review.Reviewer
	Change   Change
	Edit     mirrors.Edit
	By       policy.Requester
	Notes    []string
}

// Open reads the change, if there is one, and opens the world. That is to be closed.
func (r *ReviewFlags) Open(ctx context.Context, streams Streams) (*Candidate, error) {
	configured, err := r.Config.Read(&r.Policy, &r.World.Registries)
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
	c.Reviewer.Settings = configured.Settings
	brought, notes := c.Change.Brought()
	c.Reviewer.Brought, c.Notes = brought, append(c.Notes, notes...)
	if note := r.By.Note(configured.Settings); note != "" {
		c.Notes = append(c.Notes, note)
	}
	return c, nil
}
