// Package copyplan writes the copies that mirrors need for the tools that a house mirrors with: oc-mirror
// (an ImageSetConfiguration), oc image mirror (a mapping), and sh (a script of skopeo's commands).
//
// All formats write the same value (policy.Copy), be it for the images that a review found missing, or
// for all that a change needs. Comments say what a format cannot express; nothing is left out silently.
//
//	plan := copyplan.Make(ctx, reviewer, record.Judged(), true)
//	err := plan.Write(os.Stdout, "sh")
package copyplan

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A Plan lists the images to be copied for a change.
type Plan struct {
	Copies []Copy
	// Left are those that are not to be made, with what Pulls, Obstacles or Unknown say of them.
	Left []Copy
	// Pulls are the images to be pulled once through a cache, to which nothing is copied.
	Pulls []policy.Copy
	// Obstacles say what to do instead of a copy, or before one.
	Obstacles []string
	// Notes are remarks on the plan as a whole.
	Notes []string
	// Unknown are images about which it could not be determined whether they are missing, or whether they
	// have signatures.
	Unknown []string
	// Release is the one that the cluster runs; zero where unknown.
	Release Release
}

// A Release is a version of OpenShift, with the channel that the cluster follows, and policy.ReleaseArchitecture.
type Release struct{ Version, Channel, Architecture string }

// A Copy is one image, with the signatures that nodes would look for.
type Copy struct {
	Image policy.Image
	// From has the digest where it is known, so that a tag that moves meanwhile makes no difference.
	From, To   mirrors.Location
	Signatures []policy.AttachmentCopy
	// Signed is set if nodes require signatures of images at To.
	Signed bool
	// NotByOCMirror says why it is not for oc-mirror, which copies signatures in its own way; "" if it is.
	NotByOCMirror string
}

// Make returns the copies for images that were judged: the missing ones, or all that they need. It
// asks registries for the signatures at the places from which to copy, until ctx ends.
func Make(ctx context.Context, r *review.Reviewer, of review.Judged, missing bool) Plan {
	all, lacking := rules.AllCopies(of.Plan, of.Judgement, of.Facts)
	var plan Plan
	if missing {
		all = all[:lacking]
		copied := map[string]bool{}
		for i := range all {
			copied[all[i].Image.Ref] = true
		}
		for _, u := range rules.UndeterminedOf(of.Plan, of.Facts) {
			if !copied[u.Image.Ref] {
				plan.Unknown = append(plan.Unknown, u.Image.Ref)
			}
		}
	}
	facts, _ := r.LookUp(ctx, func(known policy.Facts) []mirrors.Location { return lookups(all, known) })
	for i := range all {
		c := &all[i]
		if c.Denied { // as sync copies it, too
			if note := "what is there is not known, and copied all the same: " + c.Obstacle; !slices.Contains(plan.Notes, note) {
				plan.Notes = append(plan.Notes, note)
			}
		}
		if c.Cache && (c.Obstacle == "" || c.Denied) && isPlain(c.To.Ref) {
			plan.Pulls, plan.Left = append(plan.Pulls, *c), append(plan.Left, Copy{Image: c.Image, To: c.To})
			continue
		}
		s := standing{c, facts}
		obstacle, unknown := s.obstacle(), ""
		if obstacle == "" {
			unknown = s.unknown()
		}
		if obstacle == "" && unknown == "" {
			obstacle = s.stops()
		}
		if obstacle != "" {
			plan.Obstacles = append(plan.Obstacles, c.Image.Ref+": "+obstacle)
		} else if unknown != "" {
			plan.Unknown = append(plan.Unknown, unknown)
		}
		if obstacle != "" || unknown != "" {
			plan.Left = append(plan.Left, Copy{Image: c.Image, To: c.To})
			continue
		}
		if !c.Found && facts.At(manifestAt(c)).Presence != policy.Present {
			plan.Unknown = append(plan.Unknown, "whether "+c.From[0].Ref+" has what is to be copied")
			if len(c.Readers.At(c.To.Ref)) > 0 {
				plan.Unknown = append(plan.Unknown, "signatures of "+c.Image.Ref)
			}
		}
		signatures, kept, unreadable := s.takeSignatures()
		for _, tag := range kept {
			plan.Obstacles = append(plan.Obstacles, "signatures of "+c.Image.Ref+": there is something else at "+tag.Ref+" than at their origin, or it could not be read")
		}
		plan.Copies = append(plan.Copies, Copy{Image: c.Image, From: s.byDigest(), To: c.To, Signatures: signatures, Signed: c.Signed(), NotByOCMirror: notByOCMirror(len(kept) > 0, unreadable)})
	}
	slices.Sort(plan.Unknown)
	return plan
}

// notByOCMirror returns Copy.NotByOCMirror, by what takeSignatures returned.
func notByOCMirror(keeps, unreadable bool) string {
	switch {
	case keeps:
		return "oc-mirror would replace its signatures there"
	case unreadable:
		return "nodes and oc-mirror cannot read what is under a tag of signatures where it comes from"
	default:
		return ""
	}
}

// isPlain reports whether a reference has only the characters of references: a text with a meaning to a
// shell has never come this far, and must not.
func isPlain(ref string) bool {
	return ref != "" && !strings.ContainsFunc(ref, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+", r)
	})
}

// writers are the formats, each with what writes it.
var writers = map[string]func(*Plan, *bufio.Writer){
	"imageset": (*Plan).writeImageSet,
	"mapping":  (*Plan).writeMapping,
	"sh":       (*Plan).writeShell,
}

// Formats returns the names of the formats.
func Formats() []string { return []string{"sh", "mapping", "imageset"} }

// Write writes p in one of Formats.
func (p *Plan) Write(w io.Writer, format string) error {
	b := bufio.NewWriter(w)
	writers[format](p, b)
	return b.Flush()
}

// writeRemarks says what a plan does not hold, of a format that pulls through caches or does not.
func (p *Plan) writeRemarks(b *bufio.Writer, pulls bool) {
	if !pulls {
		for _, c := range p.Pulls {
			fmt.Fprint(b, text.Comment("Not copied: %s: pull it once through the cache: %s", c.Image.Ref, policy.PullCommand(c.To)))
		}
	}
	for _, n := range p.Notes {
		fmt.Fprint(b, text.Comment("Note: %s", n))
	}
	for _, o := range p.Obstacles {
		fmt.Fprint(b, text.Comment("Not copied: %s", o))
	}
	for _, u := range p.Unknown {
		fmt.Fprint(b, text.Comment("Not determined: %s", u))
	}
}

// summary counts the copies. An image that is copied by its tag and by its digest has the same signatures for both.
func (p *Plan) summary() string {
	signatures := map[string]bool{}
	for _, c := range p.Copies {
		for _, s := range c.Signatures {
			signatures[s.To.Ref] = true
		}
	}
	counted := text.Count(len(p.Copies), "image") + " and " + text.Count(len(signatures), "signature")
	if len(p.Pulls) > 0 {
		counted += ", and " + text.Count(len(p.Pulls), "image") + " through a cache"
	}
	return counted
}

// writeMapping writes lines for oc image mirror -f. It pushes to tags only; a copy that nodes find by its
// digest gets the tag that oc-mirror would give it, which also keeps registries from pruning it. A file that names a tag
// twice is refused by oc as a whole. Signatures come first: nodes stop at a mirror that has an image without them.
func (p *Plan) writeMapping(b *bufio.Writer) {
	insecure := ""
	if from, to := p.insecure(); from || to {
		insecure = "--insecure=true "
	}
	fmt.Fprint(b, text.Comment("%s. Run: oc image mirror %s--keep-manifest-list=true --filter-by-os='.*' -f FILE", p.summary(), insecure))
	p.writeRemarks(b, false)
	written := map[string]bool{}
	write := func(from, to string) {
		if to = tagged(to); !written[to] {
			fmt.Fprintf(b, "%s=%s\n", from, to)
		}
		written[to] = true
	}
	for _, c := range p.Copies {
		for _, s := range c.Signatures {
			write(s.From.Ref, s.To.Ref)
		}
	}
	for _, c := range p.Copies {
		write(c.From.Ref, c.To.Ref)
	}
}

// insecure reports whether something is copied from, and to, a registry whose certificate nodes do not verify, or that has none.
func (p *Plan) insecure() (from, to bool) {
	for _, c := range p.Copies {
		from, to = from || c.From.Insecure, to || c.To.Insecure
		for _, s := range c.Signatures {
			from, to = from || s.From.Insecure, to || s.To.Insecure
		}
	}
	return from, to
}

// tagged returns a place by digest under the tag that oc-mirror makes of it.
func tagged(ref string) string {
	repository, version, ok := mirrors.Canonical(ref)
	if _, hex, digested := strings.Cut(version, ":"); ok && digested && strings.HasPrefix(version, "@") {
		return repository + ":" + hex
	}
	return ref
}

// shell is the beginning of a script: it goes on after a failure, and says in the end how many there were.
const shell = `#!/bin/sh
# %s. Needs skopeo 1.6 or later, and credentials as by "skopeo login". It may be run again:
# what is there already is not sent twice. An image without the signatures that nodes require is not copied.
set -u
failed=0
copy() {
  skopeo copy --retry-times 3 "$@" || { failed=$((failed + 1)); echo "not copied: $*" >&2; return 1; }
}
`

// pullShell pulls what a cache is to have, and keeps none of it.
const pullShell = `pull() {
  dir=$(mktemp -d)
  skopeo copy --retry-times 3 --all "$@" "dir:$dir" || { failed=$((failed + 1)); echo "not served by the cache, which may lack credentials for its upstream: $*" >&2; }
  rm -r "$dir"
}
`

// writeShell writes a line for each image: its signatures first. Where nodes require them, the image is copied only if all of
// them arrive, as nodes stop at a mirror that has it without them, and look no further.
func (p *Plan) writeShell(b *bufio.Writer) {
	fmt.Fprintf(b, shell, p.summary())
	if len(p.Pulls) > 0 {
		fmt.Fprint(b, pullShell)
	}
	p.writeRemarks(b, true)
	for _, c := range p.Copies {
		then := "\n"
		if c.Signed {
			then = " && "
		}
		for _, s := range c.Signatures {
			fmt.Fprintf(b, "copy %s%s", policy.CopyArguments("--preserve-digests", s.From, s.To), then)
		}
		fmt.Fprintf(b, "copy %s\n", policy.CopyArguments("--all --preserve-digests", c.From, c.To))
	}
	for _, c := range p.Pulls {
		tls := ""
		if c.To.Insecure {
			tls = "--src-tls-verify=false "
		}
		fmt.Fprintf(b, "pull %sdocker://%s\n", tls, c.To.Ref)
	}
	fmt.Fprint(b, "[ \"$failed\" -eq 0 ] || { echo \"$failed not copied\" >&2; exit 1; }\n")
}
