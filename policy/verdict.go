package policy

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Finding is one rule's objection.
type Finding struct {
	// Rule is the stable id of the rule ("ImageMissing").
	Rule     string
	Severity Severity
	// Image is what the finding is about; its Ref is "" where the finding is about
	// the configuration as a whole.
	Image Image
	// Statement is what a finding about the configuration is about, if that is a part of it.
	Statement *Statement
	// Reason is short and the same for every image of the same case.
	Reason string
	// Detail is what was found for this image: a line for each place looked at.
	Detail []string
	// Remedy is what to do about the finding: commands, or a sentence.
	Remedy []string
	// Copy is what to copy, nil if that would not help; Remedy begins with its commands.
	Copy *Copy
	// Moved is set where the change leaves the image on its route, and what it does to the nodes
	// has the image pulled again.
	Moved bool
	// OnlySource is set where nodes get the image all the same, from its source.
	OnlySource bool
	// Exemptions are the names of those without which the finding would be a denial.
	Exemptions []string
}

// A Statement is a part of the configuration: a scope, in the mirror objects, image policies or registry
// lists that name it.
type Statement struct {
	// Scope is as it is written there: a source, or an item of a list.
	Scope string
	// Objects are those that say so, by name ("ImageTagMirrorSet apps"); none if it is not known which.
	Objects []string
}

// StatementOf returns what the entry e says.
func StatementOf(e mirrors.Entry) *Statement {
	return &Statement{e.Source, []string{mirrors.NameOf(e.Object)}}
}

// A Judgement holds the rules' findings about the images of a Plan. All verdicts have it in common.
type Judgement struct {
	// Findings are sorted: denials first, protected images first within them.
	Findings []Finding
	Counts   Counts
	// Results has one for each rerouted image, in the order of plan.Plan.Reroutes, where one image may have
	// several next to each other.
	Results []Result
	// Partial is set if a part of the cluster is not known (plan.Plan.Gaps, or platforms of nodes): not all may be verified.
	Partial bool
}

// A Verdict is the answer to a change.
type Verdict struct {
	Judgement
	// Allowed is the answer. A change that the rules deny is allowed in any mode but
	// ModeEnforce: see Waived.
	Allowed bool
	// Mode is that of the settings.
	Mode Mode
	// BlockedBy are the namespaces, none of them protected, whose images are all that is
	// denied, sorted; nil for an admission, and where there is another reason.
	BlockedBy []string
	// Brings is set if the change brings or alters an entry or a registry list, and does
	// not only take objects away.
	Brings bool
	// Deletes is set if all that the change does is to take objects away.
	Deletes bool
	// OnlySignatures is set if the change leaves all images where they are, and alters only
	// what nodes require of their signatures, or where they look for them.
	OnlySignatures bool
	// RequiresNone is set if no signature is required of any of them after it: nothing is verified then.
	RequiresNone bool
	// OnlyPins is set if the change only has PinnedImageSets name other images, or for other pools.
	OnlyPins bool
	// Unjudged is set if the new configuration could not be resolved, and it is not known
	// which images it reroutes.
	Unjudged bool
}

// A StandingVerdict is the answer about the configuration in force. It admits and refuses nothing, whatever the mode.
type StandingVerdict struct{ Judgement }

// HasFaults reports whether a change to this configuration would be denied.
func (v StandingVerdict) HasFaults() bool { return len(v.WithSeverity(Deny)) > 0 }

// A Result says whether nodes get a rerouted image by its new route. The zero value is ResultUnverified.
type Result uint8

const (
	// ResultUnverified means that it could not be determined whether nodes get the image.
	ResultUnverified Result = iota
	// ResultVerified means what Counts.Verified counts.
	ResultVerified
	// ResultFails means that nodes do not get the image, that some do not, or that they may get another.
	ResultFails
	// ResultFailsAlready means that nodes do not get the image, and that this is proved of their
	// route before the change as well.
	ResultFailsAlready
	// ResultAssumed means what Counts.Assumed counts.
	ResultAssumed
)

// String returns "unverified", "verified", "fails", "fails already" or "assumed".
func (r Result) String() string {
	return [...]string{"unverified", "verified", "fails", "fails already", "assumed"}[r]
}

// Counts are the numbers of images that a verdict rests on.
type Counts struct {
	Total      int // images in the inventory
	Rerouted   int // images whose route changes
	Verified   int // of these, found at a place the new route reaches, for all nodes
	Layers     int // of the verified, those whose layers were found as well
	Assumed    int // of these, found only where a mirroring that has not been done would copy from
	Unverified int // of these, what could not be determined
	Pending    int // of the unverified, still being asked when time was up
	Malformed  int // images no node could parse
	// Moved are the images that are not rerouted, and that drains have pulled again; of these,
	// nodes cannot pull those that are MovedLost, and of MovedOpen it is not known.
	Moved, MovedLost, MovedOpen int
	// MovedAssumed are Moved that are Assumed.
	MovedAssumed int
	// Tags are those of ImageStreams, Builds the BuildConfigs and Builds whose route changes as soon as the
	// change is stored: see mirrors.Puller.
	Tags, Builds int
}

// AssumedToo is the number of assumed images where another follows ("3 assumed, "), "" if there are none.
func (c Counts) AssumedToo() string {
	if c.Assumed == 0 {
		return ""
	}
	return text.Number(c.Assumed) + " assumed, "
}

// Looked says what was found of the verified images, "" if there are none: at least a manifest under
// the reference for the platform of each node that may run it.
func (c Counts) Looked() string {
	const signatures = "; signatures were looked up only where a policy requires them"
	switch {
	case c.Verified == 0:
		return ""
	case c.Layers == 0:
		return "Verified: the manifests were found, layers were not looked up" + signatures + "."
	case c.Layers == c.Verified:
		return "Verified: manifests and layers were found" + signatures + "."
	default:
		return fmt.Sprintf("Verified: the manifests were found, and the layers of %s of them%s.", text.Number(c.Layers), signatures)
	}
}

// WithSeverity returns the findings of one severity, in order. They must not be changed.
func (j Judgement) WithSeverity(s Severity) []Finding {
	return Only(j.Findings, func(f *Finding) bool { return f.Severity == s })
}

// MaxConsumers is how many consumers are named for an image.
const MaxConsumers = 3

// AtOnce says for how much the change takes effect as soon as it is stored, "" if for nothing.
func (c Counts) AtOnce() string {
	var what []string
	if c.Tags > 0 {
		what = append(what, text.Count(c.Tags, "tag")+" of ImageStreams")
	}
	if c.Builds > 0 {
		what = append(what, text.Count(c.Builds, "build"))
	}
	if len(what) == 0 {
		return ""
	}
	take := "take"
	if c.Tags+c.Builds == 1 {
		take = "takes"
	}
	return fmt.Sprintf("%s %s another route as soon as it is stored, with no rollout", strings.Join(what, " and "), take)
}

// LeavesOpen reports whether an image that a place has is not verified on account of f: it is
// refused, some nodes may not get it, or they may get another.
func (f Finding) LeavesOpen() bool {
	return f.Severity == Deny || f.Rule == PlatformMissing || f.Rule == SignatureUnreadable || f.Rule == AnotherImage
}

// Only returns the findings that are wanted. Usually these are all, or a few in a row, which are
// not copied: there may be 100,000.
func Only(findings []Finding, wanted func(*Finding) bool) []Finding {
	first := 0
	for first < len(findings) && !wanted(&findings[first]) {
		first++
	}
	end := first
	for end < len(findings) && wanted(&findings[end]) {
		end++
	}
	found := findings[first:end:end]
	for i := end; i < len(findings); i++ {
		if wanted(&findings[i]) {
			found = append(found, findings[i])
		}
	}
	return found
}

// MovedCounts are the numbers of images of evicted pods that the change does not reroute: of all, of
// those that nodes certainly cannot pull (Lost), of those that they may not be able to pull (Open), and
// of those that a mirroring still to be done would copy (Assumed).
type MovedCounts struct{ All, Lost, Open, Assumed int }

// String continues a forecast, "" if there is nothing to add.
func (c MovedCounts) String() string {
	n, what := c.Lost, "cannot be pulled"
	if n == 0 {
		n, what = c.Open, "could not be verified"
	}
	switch {
	case n == 0:
		return ""
	case c.All == 1:
		return "; the other image that drains move " + what
	default:
		return fmt.Sprintf("; of %s that drains move, %s %s", text.Count(c.All, "other image"), text.Number(n), what)
	}
}

// The ids of the rules. Settings.Severities, messages, metrics and documents use them, so
// they never change.
const (
	RewriteError        = "RewriteError"
	NoRoute             = "NoRoute"
	MirrorHidden        = "MirrorHidden"
	NotFullySynced      = "NotFullySynced"
	ContentMismatch     = "ContentMismatch"
	SignatureMissing    = "SignatureMissing"
	SignatureRejected   = "SignatureRejected"
	SignatureUnreadable = "SignatureUnreadable"
	BlobsMissing        = "BlobsMissing"
	ImageMissing        = "ImageMissing"
	CredentialsMissing  = "CredentialsMissing"
	Unverified          = "Unverified"
	UnverifiedInFront   = "UnverifiedInFront"
	PlatformMissing     = "PlatformMissing"
	BlockLifted         = "BlockLifted"
	AnotherImage        = "AnotherImage"
	TagDrift            = "TagDrift"
	RejectedByMCO       = "RejectedByMCO"
	InventoryStale      = "InventoryStale"
	MalformedReference  = "MalformedReference"
	NoEffect            = "NoEffect"
	BroadSource         = "BroadSource"
	MirrorInCluster     = "MirrorInCluster"
	RolloutStalls       = "RolloutStalls"
	DrainLosesPod       = "DrainLosesPod"
	DrainBlocked        = "DrainBlocked"
	RolloutBusy         = "RolloutBusy"
	PoolPaused          = "PoolPaused"
	PinnedImageMissing  = "PinnedImageMissing"
	BuildFails          = "BuildFails"
	ImportFails         = "ImportFails"
	PullThroughFails    = "PullThroughFails"
	FollowedAtOnce      = "FollowedAtOnce"
	RescueMissing       = "RescueMissing"
)
