// Package review puts a question to package policy and keeps the answer.
//
// It is the only place where planning, looking up and deciding meet, so that
// the webhook, the command line and the standing verifier are ways to ask the
// same question and cannot give different answers.
package review

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An Inventory is what a review has to know about the cluster.
type Inventory interface {
	// Mirrors returns the mirror configuration as it stands, read anew, so that
	// two changes in a row see each other.
	Mirrors(context.Context) (mirrors.Set, error)
	// Images returns the images that the cluster depends on, each reference once.
	Images(context.Context) ([]policy.Image, error)
}

// A GapSource inventory knows that parts of it are out of date. An Inventory may be
// one.
type GapSource interface {
	// Gaps returns these parts. It is called before Images.
	Gaps() []policy.Gap
}

// A PlatformSource knows of which platforms the nodes are. An Inventory may be one.
type PlatformSource interface {
	// NodePlatforms returns them, each once ("linux/amd64"), sorted; none if they are
	// not known.
	NodePlatforms() []string
}

// Registries is what a review has to know about the rest of the world.
type Registries interface {
	// Presence returns what is known about the locations by the time ctx ends,
	// looking up what is not known or too old. The first ones are the most
	// important. It does not fail: what could not be found out is Unknown.
	Presence(context.Context, []mirrors.Location) policy.Facts
}

// A Recaller is Registries that remember misses for a while after they ceased to be fresh.
type Recaller interface {
	// Recall is as Presence, but content with what it remembers, which is Recalled. It is
	// for finding out what else there is to ask.
	Recall(ctx context.Context, locations []mirrors.Location) policy.Facts
}

// RegistriesFunc is a function that is Registries.
type RegistriesFunc func(context.Context, []mirrors.Location) policy.Facts

// Presence implements Registries.
func (f RegistriesFunc) Presence(ctx context.Context, locs []mirrors.Location) policy.Facts {
	return f(ctx, locs)
}

// Trust is what a review has to know of the CAs that nodes trust for single registries.
type Trust interface {
	// CAs returns the certificates, as PEM by host, in a ConfigMap of openshift-config as it
	// is now. It is no error, and there are none, if there is no such ConfigMap: nodes do
	// without then.
	CAs(ctx context.Context, name string) (map[string]string, error)
	// Propose returns Registries that are asked about Locations with ProposedTrust as if
	// additionalTrustedCA said cas. They are to be released.
	Propose(cas map[string]string) (registries Registries, release func())
}

// A NoteSource has something to say to whoever reads an answer that rests on it:
// "the pull secret is missing; registries were asked anonymously". Inventories
// and Registries may be NoteSources. Each note is one short line.
type NoteSource interface {
	Notes() []string
}

// A Record is a review and all it rested on. Denial, warnings, audit
// annotations, the log line, metrics and command line output are written from
// it, so they cannot tell different stories.
type Record struct {
	// Subject is what was asked about, for people: "ImageTagMirrorSet apps",
	// "Deleting ImageTagMirrorSet apps", "3 objects".
	Subject string
	Plan    policy.Plan
	Facts   policy.Facts
	// Asked are the locations that the verdict hangs on, the most important first:
	// what to keep an eye on where the same question may come again.
	Asked   []mirrors.Location
	Verdict policy.Verdict
	// Notes are remarks on the sources of the answer, for people.
	Notes []string
	Took  time.Duration
}

// A Reviewer reviews edits of the mirror configuration. It is safe for
// concurrent use.
type Reviewer struct {
	Inventory  Inventory
	Registries Registries
	Settings   policy.Settings
	// OtherCredentials reports whether nodes may have other credentials for an image, and
	// for its mirrors, than those with which Registries are asked; nil: for none.
	OtherCredentials func(ref string) bool
	// Trust is asked where a change names other CAs; nil if they are not known.
	Trust Trust
	// NoteSources are asked for notes beside Inventory and Registries.
	NoteSources []NoteSource
	// Limiter bound how many calls of Review compute at once; nil for no bound.
	Limiter *Limiter
}

// Review says what would come of edit, which messages call subject. An error
// means that there is no verdict; it never means that the edit is safe.
func (r *Reviewer) Review(ctx context.Context, subject string, edit mirrors.Edit) (Record, error) {
	start := time.Now()
	now, err := r.read(ctx)
	if err != nil {
		return Record{}, err
	}
	change := policy.Change{Before: now.set, After: edit(now.set)}
	trust := r.readTrust(ctx, &change)
	defer trust.release()
	if err := r.Limiter.take(ctx, atFirst); err != nil {
		return Record{}, fmt.Errorf("waiting for other reviews: %w", err)
	}
	defer r.Limiter.give()
	plan := policy.NewPlan(change, now.cluster, r.Settings)
	record := r.judge(ctx, r.Limiter.between(trust.registries), plan, plan.Lookups, plan.Decisive)
	record.Notes = append(record.Notes, trust.notes...)
	record.Subject, record.Took = subject, time.Since(start)
	return record, nil
}

// Standing says how the configuration in force does, by the rules for changes: see
// policy.NewStanding. Its questions are those for who can wait.
func (r *Reviewer) Standing(ctx context.Context) (Record, error) {
	start := time.Now()
	now, err := r.read(ctx)
	if err != nil {
		return Record{}, err
	}
	plan := policy.NewStanding(now.set, now.cluster, r.Settings)
	record := r.judge(ctx, r.Registries, plan, plan.StandingLookups, nil)
	record.Subject, record.Took = "The mirror configuration in force", time.Since(start)
	return record, nil
}

// A state is how things are: the configuration in force, and what else is known of the
// cluster.
type state struct {
	set     mirrors.Set
	cluster policy.Cluster
}

func (r *Reviewer) read(ctx context.Context) (now state, err error) {
	if now.set, err = r.Inventory.Mirrors(ctx); err != nil {
		return state{}, fmt.Errorf("reading the mirror configuration in force: %w", err)
	}
	if inventory, ok := r.Inventory.(GapSource); ok {
		now.cluster.Gaps = inventory.Gaps()
	}
	if now.cluster.Images, err = r.Inventory.Images(ctx); err != nil {
		return state{}, fmt.Errorf("listing the images in use: %w", err)
	}
	if inventory, ok := r.Inventory.(PlatformSource); ok {
		now.cluster.Platforms = inventory.NodePlatforms()
	}
	now.cluster.OtherCredentials = r.OtherCredentials
	return now, nil
}

// Questions are what is to be looked up, given what is known: Plan.Lookups of package
// policy, and its like.
type Questions func(policy.Facts) []mirrors.Location

func (r *Reviewer) judge(ctx context.Context, registries Registries, plan policy.Plan, ask, decisive Questions) Record {
	facts, asked := r.lookUp(ctx, registries, ask, decisive)
	return Record{Plan: plan, Facts: facts, Asked: asked, Verdict: plan.Decide(facts), Notes: r.notes()}
}

// LookUp asks the registries what there is to ask until there is nothing more, or ctx
// ends, round by round: what a later round asks depends on the answers to the one
// before. It returns what it learned and what it asked, in order. A location that gives
// no answer is Unknown, and not asked twice.
func (r *Reviewer) LookUp(ctx context.Context, ask Questions) (policy.Facts, []mirrors.Location) {
	return r.lookUp(ctx, r.Registries, ask, nil)
}

// lookUp also asks again what decisive names, if that is not nil, once nothing else is to
// be asked: until then misses that Registries remember are good enough.
func (r *Reviewer) lookUp(ctx context.Context, registries Registries, ask, decisive Questions) (policy.Facts, []mirrors.Location) {
	facts := policy.Facts{}
	var asked []mirrors.Location
	repeated := map[mirrors.Location]bool{}
	plan := registries.Presence
	if recaller, ok := registries.(Recaller); ok && decisive != nil {
		plan = recaller.Recall
	}
	for ctx.Err() == nil {
		if questions := ask(facts); len(questions) > 0 {
			asked = append(asked, questions...)
			learn(facts, questions, plan(ctx, questions))
			continue
		}
		if decisive == nil {
			break
		}
		again := slices.DeleteFunc(decisive(facts), func(l mirrors.Location) bool { return repeated[l] })
		if len(again) == 0 {
			break
		}
		for _, l := range again {
			repeated[l] = true
		}
		learn(facts, again, registries.Presence(ctx, again))
	}
	return facts, asked
}

// learn enters answers to questions. No answer takes nothing away from what is recalled.
func learn(facts policy.Facts, questions []mirrors.Location, answers policy.Facts) {
	for _, l := range questions {
		fact, ok := answers[l]
		if !ok && facts[l].Recalled {
			continue
		}
		if !ok {
			fact.Detail = noAnswer
		}
		facts[l] = fact
	}
}

// noAnswer is the Detail of a location that was still being asked when time ran
// out.
const noAnswer = "no answer yet"

func (r *Reviewer) notes() []string {
	var notes []string
	for _, source := range []any{r.Inventory, r.Registries} {
		if n, ok := source.(NoteSource); ok {
			notes = append(notes, n.Notes()...)
		}
	}
	for _, n := range r.NoteSources {
		notes = append(notes, n.Notes()...)
	}
	return notes
}

// Denial returns the text that refuses the change, "" if it is admitted.
func (r Record) Denial() string { return r.Verdict.Message(r.Subject) }

// Warnings returns what to tell whoever made the change, denied or not: short
// lines, the most important first.
func (r Record) Warnings() []string {
	warnings := r.Verdict.Warnings(r.Subject)
	for _, note := range r.Notes {
		warnings = append(warnings, text.Line(note))
	}
	return warnings
}
