// Package review judges changes with package policy, and records what each verdict rests on.
//
// It is the only place where planning, looking up and deciding meet: the webhook, the
// command line and the standing verification all go through it and cannot give different
// answers.
package review

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review/renderedconfig"
)

// An Inventory provides what a review has to know about the cluster.
type Inventory interface {
	// Mirrors returns the mirror configuration in force. It is read each time, so that
	// two changes in a row see each other.
	Mirrors(context.Context) (mirrors.Set, error)
	// Cluster returns everything else that is known of the cluster; InForce, Current and OtherCredentials
	// are set by the Reviewer. It waits for parts that are temporarily out of reach, for some seconds
	// at most, less if ctx ends. Parts that still are, or that went out of reach meanwhile, are among
	// the Gaps.
	Cluster(context.Context) (plan.Cluster, error)
	renderedconfig.Source // of what nodes have
	NoteSource
}

// Registries provides what a review has to know about registries.
type Registries interface {
	// Presence returns the facts about the locations by the time ctx ends, looking up those that are
	// missing or too old. The first ones are the most important. It does not fail: a location without
	// an answer is Unknown.
	Presence(context.Context, []mirrors.Location, policy.Freshness) policy.Facts
	NoteSource
}

// A RegistriesFunc is a function that implements Registries, and remembers nothing.
type RegistriesFunc func(context.Context, []mirrors.Location) policy.Facts

// Presence implements Registries.
func (f RegistriesFunc) Presence(ctx context.Context, locs []mirrors.Location, _ policy.Freshness) policy.Facts {
	return f(ctx, locs)
}

// Notes implements NoteSource: there are none.
func (f RegistriesFunc) Notes() []string { return nil }

// Trust provides what a review has to know about the CAs that nodes trust for single
// registries.
type Trust interface {
	// CAs returns the certificates, as PEM by host, in a ConfigMap of openshift-config as it
	// is now. If there is no such ConfigMap it returns none, and no error: nodes do without.
	CAs(ctx context.Context, name string) (map[string]string, error)
	// Propose returns Registries that look up Locations with ProposedTrust as if
	// additionalTrustedCA held cas. The caller has to release them.
	Propose(cas map[string]string) (registries Registries, release func())
}

// A NoteSource provides remarks for the readers of an answer that rests on it:
// "the pull secret is missing; registries were asked anonymously". Each note is one short
// line.
type NoteSource interface {
	Notes() []string
}

// A Record is a review with everything it rested on. Denial, warnings, audit
// annotations, the log line, metrics and command line output are written from
// it, so they cannot tell different stories.
type Record struct {
	// Subject is what was reviewed, for people: "ImageTagMirrorSet apps",
	// "Deleting ImageTagMirrorSet apps", "The change of 3 objects".
	Subject string
	// Change is the step that was reviewed: from what was in force to what it would become.
	Change policy.Change
	// Read is when Change.Before was read, or shortly before. It holds nothing that was stored
	// later.
	Read  time.Time
	Plan  plan.ChangePlan
	Facts policy.Facts
	// Asked are the locations that were looked up, the most important first, 50,000 at most: those to keep
	// fresh where the same change may be reviewed again.
	Asked   []mirrors.Location
	Verdict policy.Verdict
	// Refusal is words.Refusal of Verdict: why the change is refused, or would be in mode enforce.
	Refusal string
	// Forecast is what the change does to the nodes; nil if that is not known.
	Forecast *forecast.Forecast
	// Notes are remarks on the sources of the answer, for people.
	Notes []string
	Took  time.Duration
}

// A Reviewer reviews edits of the mirror configuration. It is safe for
// concurrent use.
type Reviewer struct {
	Inventory  Inventory
	Registries Registries
	Settings   settings.Settings
	// SettingsNow, if it is not nil, is asked for each review, instead of Settings.
	SettingsNow func() settings.Settings
	// OtherCredentials reports whether nodes may have other credentials for an image, and
	// for its mirrors, than those with which Registries are asked; nil: for none.
	OtherCredentials func(ref string) bool
	// Trust is asked where a change names other CAs; nil if they are not known.
	Trust Trust
	// NoteSources are asked for notes beside Inventory and Registries.
	NoteSources []NoteSource
	// Told is the number of findings of a change, in order, that need Detail and Remedy, as more are
	// not reported in full (rules.DecideInBrief), and the record needs neither Plan nor Facts; 0 for all.
	Told int
	// Limiter bounds how many calls of Review compute at once; nil for no bound.
	Limiter *Limiter
	// MissesFor is the age that a miss may have when a review begins for it to deny a change without being
	// looked up again; 0 for none.
	MissesFor time.Duration
	// InForce keeps the tables of the configuration in force from one review to the next; nil
	// to compute them each time.
	InForce *InForce
	// Brought are images that the change under review brings beside its mirror objects
	// (plan.Cluster.Bringing).
	Brought []policy.Image
	// Current keeps what nodes have from one review to the next; nil to read it each time.
	Current *Current
}

// Review judges edit; by is the user who asks for it, the zero Requester if unknown. An error
// means that there is no verdict; it never means that the edit is safe.
func (r *Reviewer) Review(ctx context.Context, edit mirrors.Edit, by settings.Requester) (Record, error) {
	if err := edit.Err(); err != nil {
		return Record{}, err
	}
	start := time.Now()
	now, err := r.read(ctx)
	if err != nil {
		return Record{}, err
	}
	change := policy.Change{Before: now.Set, After: edit.Apply(now.Set)}
	trust := r.readTrust(ctx, &change)
	defer trust.release()
	slots := r.Limiter.slotsFor(edit)
	if err := slots.acquire(ctx, starting); err != nil {
		return Record{}, fmt.Errorf("waiting for other reviews: %w", err)
	}
	defer slots.release()
	outline := plan.NewOutline(change, now.Cluster, r.settings().For(by))
	done, err := r.Limiter.widen(ctx, slots, outline.CountTouched(wideReview+1))
	if err != nil {
		return Record{}, fmt.Errorf("waiting for other reviews of many images: %w", err)
	}
	defer done()
	planning := time.Now()
	planned := outline.Plan()
	looking, cancel := KeepBack(ctx, decidingShare*time.Since(planning))
	defer cancel()
	record := r.judge(looking, slots.yielding(trust.registries), planned, start.Add(-r.MissesFor))
	if r.MissesFor > 0 && record.Verdict.Allowed { // a miss of a while ago may deny, and proves nothing for a change
		record = r.judge(looking, slots.yielding(trust.registries), planned, start)
	}
	record.Notes = slices.Concat(record.Notes, trust.notes, planned.OrderNotes(), planned.ElsewhereNotes())
	record.Change, record.Read = change, start
	r.forecast(ctx, &record, start, slots)
	record.Subject = edit.Subject()
	record.Refusal = words.Refusal(record.Verdict, record.Subject)
	record.Took = time.Since(start)
	if r.Told > 0 {
		record.Plan, record.Facts = plan.ChangePlan{}, nil
	}
	return record, nil
}

// decidingShare is the time that deciding and writing the reasons may take, in terms of the time for
// planning: as long for each, and as much again. If a tenant names 20,000 images, that is longer than
// the time that a caller keeps for it on a busy machine.
const decidingShare = 3

// A Coming has the images that a cluster will pull beside those of today, as by an update. The zero value has none.
type Coming struct {
	Images []policy.Image
	// Policies are the image policies that will be in force.
	Policies mirrors.Edit
	// Gaps are what could not be read of it.
	Gaps  []policy.Gap
	Notes []string
}

// PlanDeletion returns the plan of deleting something at registries under the configuration in force, for a cluster
// that will pull the images of coming: see plan.NewDeletion.
func (r *Reviewer) PlanDeletion(ctx context.Context, coming Coming, concerned func(*mirrors.Route) bool) (plan.DeletionPlan, error) {
	now, err := r.read(ctx)
	if err != nil {
		return plan.DeletionPlan{}, err
	}
	known := now.Cluster.Bringing(coming.Images)
	known.Gaps = slices.Concat(known.Gaps, known.Unsearched, coming.Gaps)
	return plan.NewDeletion(now.Set, coming.Policies.Apply(now.Set), known, r.settings(), concerned), nil
}

// ReadPulls reads what PlanPulls needs, to judge images that the nodes are to pull one day.
func (r *Reviewer) ReadPulls(ctx context.Context) (State, error) {
	now, err := r.read(ctx)
	now.Cluster.Gaps = slices.DeleteFunc(slices.Clone(now.Cluster.Gaps), func(g policy.Gap) bool { return !g.IsOfNodes() }) // the images in use do not matter
	return now, err
}

// PlanPulls returns the plan of pulling images in the state of now, once edit has been made: see
// plan.NewPulls. Layers are looked up of all of them.
func (r *Reviewer) PlanPulls(now State, images policy.Images, edit mirrors.Edit) plan.Plan {
	s, known := r.settings(), now.Cluster
	s.Blobs = settings.BlobsOfAll
	known.Images = images
	set := edit.Apply(now.Set)
	if !set.Equal(now.Set) {
		known.InForce = nil
	}
	return plan.NewPulls(set, known, s)
}

// Renew returns record, which is that of Review, as of now: it judges edit again unless the
// configuration in force is still the one of record.
func (r *Reviewer) Renew(ctx context.Context, edit mirrors.Edit, by settings.Requester, record Record) (Record, error) {
	read := time.Now()
	set, err := r.readInForce(ctx)
	if err != nil {
		return Record{}, err
	}
	if set.Equal(record.Change.Before) {
		record.Read = read
		return record, nil
	}
	return r.Review(ctx, edit, by)
}

func (r *Reviewer) readInForce(ctx context.Context) (mirrors.Set, error) {
	set, err := r.Inventory.Mirrors(ctx)
	if err != nil {
		return mirrors.Set{}, fmt.Errorf("reading the mirror configuration in force: %w", err)
	}
	return set, nil
}

func (r *Reviewer) settings() settings.Settings {
	if r.SettingsNow != nil {
		return r.SettingsNow()
	}
	return r.Settings
}

// contendedSimulation is how long a simulation may take while reviews wait whose senders do not come after its own. Simulating
// thousands of nodes takes seconds, after which those others would be without an answer, and
// refused; this one has its verdict on images already.
const contendedSimulation = 200 * time.Millisecond

// forecast adds to record what the change does to the nodes. Locations that decide this and were not
// looked up yet are looked up first, while there is time.
func (r *Reviewer) forecast(ctx context.Context, record *Record, start time.Time, slots slots) {
	of := func(before *forecast.Forecast) *forecast.Forecast {
		return forecast.Of(record.Plan, record.Facts, forecast.Forecaster{Now: start, Before: before, Stop: func() func() bool { return slots.simulating(ctx) }})
	}
	record.Forecast = of(nil)
	for record.Forecast != nil && r.lookUpMoved(ctx, record, slots) {
		record.Forecast = of(record.Forecast)
	}
	record.Verdict = rules.WithForecast(record.Plan, record.Verdict, record.Forecast)
}

// simulating returns what says whether to give a simulation up that begins now.
func (s slots) simulating(ctx context.Context) (stop func() bool) {
	began := time.Now()
	return func() bool { return ctx.Err() != nil || s.contended(ctx) && time.Since(began) > contendedSimulation }
}

// lookUpMoved looks up what record.Forecast says, for no more than half of the time that is
// left: simulating takes some as well. It reports whether anything was looked up.
func (r *Reviewer) lookUpMoved(ctx context.Context, record *Record, slots slots) bool {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	registries := slots.yielding(r.Registries)
	asked := false
	for ctx.Err() == nil {
		lookups := record.Forecast.Lookups(record.Facts)
		if len(lookups) == 0 {
			break
		}
		if !asked {
			record.Facts = maps.Clone(record.Facts)
		}
		asked = true
		learn(record.Facts, lookups, registries.Presence(ctx, lookups, policy.Freshness{}))
	}
	return asked
}

// A State is the configuration in force, with what else is known about the cluster.
type State struct {
	Set     mirrors.Set
	Cluster plan.Cluster
}

func (r *Reviewer) read(ctx context.Context) (now State, err error) {
	if now.Set, err = r.readInForce(ctx); err != nil {
		return State{}, err
	}
	if now.Cluster, err = r.Inventory.Cluster(ctx); err != nil {
		return State{}, fmt.Errorf("listing the images in use: %w", err)
	}
	if through := now.Cluster.Rollout; through != nil {
		now.Cluster.Current = cmp.Or(r.Current, NewCurrent()).configsOf(ctx, r.Inventory, through)
	}
	now.Cluster = now.Cluster.Bringing(r.Brought)
	now.Cluster.OtherCredentials = r.OtherCredentials
	now.Cluster.InForce = r.InForce.tablesOf(now.Set)
	return now, nil
}

// InForce keeps the tables of the configuration in force, which rarely changes between two
// reviews. The zero value is ready for use.
type InForce struct {
	mu     sync.Mutex
	tables *mirrors.Tables
}

// tablesOf returns the tables of set, the configuration in force.
func (f *InForce) tablesOf(set mirrors.Set) *mirrors.Tables {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil || !f.tables.Of(set) {
		f.tables = mirrors.NewTables(set)
	}
	return f.tables
}

func (r *Reviewer) notes() []string {
	notes := slices.Concat(r.Inventory.Notes(), r.Registries.Notes())
	for _, n := range r.NoteSources {
		notes = append(notes, n.Notes()...)
	}
	return notes
}

// maxForecast is how many runes the line of forecast has: twice as many as other warnings, as
// each pool has its part in it.
const maxForecast = 240

// Warnings returns the warnings for the user who made the change, denied or not: short lines,
// the most important first. There are none in mode audit.
func (r Record) Warnings() []string {
	if r.Verdict.Mode == policy.ModeAudit {
		return nil
	}
	warnings := words.Warnings(r.Verdict, r.Subject)
	if r.Verdict.Allowed && r.Forecast != nil && (r.Forecast.Reaches() || r.Forecast.Pins != "") {
		warnings = append(warnings, text.Cut(text.Line("Forecast: "+r.Forecast.String()), maxForecast))
	}
	for _, note := range r.Notes {
		warnings = append(warnings, text.Line(note))
	}
	return warnings
}
