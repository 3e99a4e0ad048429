package readiness

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Title names the release: "Release 4.21.3 (quay.io/...@sha256:...)".
func (r *Readiness) Title() string {
	version := r.Version
	if version == "" {
		version = r.Choice.Version
	}
	return strings.ReplaceAll(text.Line("Release "+version+" ("+r.imageOrChoice()+")"), "Release  ", "Release ")
}

// Report returns the answer for people: the verdict, the images that are not ready in the order in which an
// update needs them, one remedy for all, and what was not looked at.
func (r *Readiness) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n%s\n", r.State(), r.Title(), r.found())
	fmt.Fprintf(&b, "%s\n", r.Summary())
	r.reportImages(&b)
	r.reportSignature(&b)
	r.reportProblems(&b)
	r.reportRemedy(&b)
	if r.Gate != nil && !r.Gate.Given {
		fmt.Fprintf(&b, "\nBefore such an update the cluster wants an administrator's word (%s); --ack shows the evidence for it.\n", r.Gate.Key)
	}
	b.WriteString("\nNot checked:\n")
	writeList(&b, r.unchecked())
	return b.String()
}

func (r *Readiness) found() string {
	found := "Found: " + r.Choice.Why + "."
	if r.ReadAt.Ref != "" {
		found += " Its payload was read from " + r.ReadAt.Ref
		if r.Platform != "" {
			found += ", for " + r.Platform
		}
		found += "."
	}
	return found
}

// Summary counts the images.
func (r *Readiness) Summary() string {
	if r.Version == "" {
		return "Which images it consists of is not known, as its release image could not be read."
	}
	onlySource := 0
	for i := range r.Images {
		if r.Images[i].onlySource() {
			onlySource++
		}
	}
	parts := []string{fmt.Sprintf("%s of %s can be pulled by all nodes that need them", text.Number(r.Count(Ready)+onlySource), text.Count(len(r.Images), "image"))}
	if onlySource > 0 {
		parts[0] += fmt.Sprintf(" (%s only from the source, which mirrors are to stand in for)", text.Number(onlySource))
	}
	if n := r.Count(NotReady) - onlySource; n > 0 {
		parts = append(parts, text.Number(n)+" cannot")
	}
	if n := r.Count(Unknown); n > 0 {
		parts = append(parts, "of "+text.Number(n)+" it is not known")
	}
	return strings.Join(parts, ", ") + "."
}

// onlySource reports whether all that is wrong with i is that nodes get it from its source, and from no mirror.
func (i *Image) onlySource() bool {
	denials := 0
	for _, f := range i.Findings {
		if f.Severity < policy.Deny {
			continue
		}
		if denials++; !f.OnlySource {
			return false
		}
	}
	return i.State == NotReady && denials > 0
}

// maxTold is how many images are told about in full.
const maxTold = 20

func (r *Readiness) reportImages(b *strings.Builder) {
	open := slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool { return i.State == Ready })
	if len(open) > 0 {
		b.WriteString("\n")
		table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "LEVEL\tIMAGE\tSTATE\tREASON")
		for _, i := range open {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", i.level(), i.Title(), i.State, i.reason())
		}
		table.Flush() //nolint:errcheck // into memory
	}
	for k, i := range open[:min(len(open), maxTold)] {
		fmt.Fprintf(b, "\n%d. %s: %s\n", k+1, i.Title(), text.Line(i.Ref))
		for _, f := range i.Findings {
			fmt.Fprintf(b, "   %s: %s\n", f.Rule, text.Line(f.Reason))
			for _, line := range f.Detail {
				fmt.Fprintf(b, "   - %s\n", text.Line(line))
			}
			if f.Copy == nil || f.Copy.Obstacle != "" {
				for _, line := range f.Remedy {
					fmt.Fprintf(b, "   To do: %s\n", text.Line(line))
				}
			}
		}
	}
	if more := len(open) - maxTold; more > 0 {
		fmt.Fprintf(b, "\nand %s more: -o json has all.\n", text.Number(more))
	}
	r.reportWarnings(b)
}

// reportWarnings lists the findings about images that are ready.
func (r *Readiness) reportWarnings(b *strings.Builder) {
	var lines []string
	for _, i := range r.Images {
		for _, f := range i.Findings {
			if i.State == Ready {
				lines = append(lines, i.Title()+": "+f.Rule+": "+f.Reason)
			}
		}
	}
	if len(lines) > 0 {
		b.WriteString("\nWarnings:\n")
		writeList(b, text.First(lines, maxTold, "warning"))
	}
}

// level says when an update needs an image.
func (i *Image) level() string {
	switch {
	case i.IsRelease:
		return "first"
	case i.OS:
		return "last"
	case i.Level == release.NoLevel:
		return "-"
	default:
		return strconv.Itoa(i.Level)
	}
}

// reason says in a few words why an image is not ready.
func (i *Image) reason() string {
	if len(i.Findings) > 0 {
		reason := text.Line(i.Findings[0].Reason)
		if len(i.Pools) > 0 {
			reason += " (for the nodes of " + text.Names(i.Pools, maxNamed) + ")"
		}
		return reason
	}
	if i.State == NotReady {
		return "no node can make sense of the reference"
	}
	return "it could not be determined"
}

func (r *Readiness) reportSignature(b *strings.Builder) {
	s := r.Signature
	fmt.Fprintf(b, "\nGPG signature: %s: %s\n", s.State, text.Line(s.Reason))
	writeList(b, s.Detail)
	if s.Remedy != "" && s.State != Ready {
		fmt.Fprintf(b, "To do: %s\n", s.Remedy)
	}
}

func (r *Readiness) reportProblems(b *strings.Builder) {
	for _, p := range r.Problems {
		fmt.Fprintf(b, "\n%s: %s\n", p.State, p.Reason)
		writeList(b, p.Detail)
	}
}

// reportRemedy says how to copy all that is missing.
func (r *Readiness) reportRemedy(b *strings.Builder) {
	if title, commands := r.remedies(); len(commands) > 0 {
		fmt.Fprintf(b, "\n%s:\n", title)
		writeList(b, commands)
	}
}

// remedies are the ways to copy all that is missing, none if nothing can be copied.
func (r *Readiness) remedies() (title string, commands []string) {
	copies := r.copies()
	if len(copies) == 0 {
		return "", nil
	}
	commands = []string{
		r.remedy(), "with other tools: mirrorset-guard plan " + r.asks() + " --missing > copy.sh && sh copy.sh",
		"with oc-mirror: mirrorset-guard plan " + r.asks() + " -o imageset > imageset.yaml" + r.stanza(),
	}
	if len(copies) <= maxCommands {
		for i := range copies {
			commands = append(commands, copies[i].Commands()...)
		}
	}
	return fmt.Sprintf("To copy what is missing (%s)", text.Count(len(copies), "image")), commands
}

// copies are those that can be made.
func (r *Readiness) copies() []policy.Copy {
	return slices.DeleteFunc(r.Copies(), func(c policy.Copy) bool { return c.Obstacle != "" })
}

// Copies returns the required copies in the order in which an update needs them.
func (r *Readiness) Copies() []policy.Copy {
	position := map[string]int{}
	for k := range r.Images {
		position[r.Images[k].Ref] = k
	}
	copies := r.Judged.Judgement.Copies()
	slices.SortStableFunc(copies, func(a, b policy.Copy) int { return cmp.Compare(position[a.Image.Ref], position[b.Image.Ref]) })
	return copies
}

// asks are the flags that ask for the same again.
func (r *Readiness) asks() string {
	return "--release " + r.asked + r.flags
}

// remedy is the command that copies all that is missing, "" if nothing can be copied.
func (r *Readiness) remedy() string {
	if len(r.copies()) == 0 {
		return ""
	}
	return "mirrorset-guard sync " + r.asks()
}

// maxCommands is how many images are copied by single commands.
const maxCommands = 3

// stanza is what oc-mirror needs to be told of the release.
func (r *Readiness) stanza() string {
	if r.Version == "" || r.Channel == "" || r.Architecture == "" {
		return ""
	}
	architectures := ""
	if r.Architecture != "amd64" { // which oc-mirror takes without a word
		architectures = "architectures: [" + r.Architecture + "], "
	}
	return fmt.Sprintf(", or platform: {%schannels: [{name: %s, minVersion: %s, maxVersion: %s}]}", architectures, r.Channel, r.Version, r.Version)
}

// unchecked lists what cannot be known from outside, or was left out.
func (r *Readiness) unchecked() []string {
	lines := []string{"whether the operators are Upgradeable, and what the update itself does (oc adm upgrade says so)"}
	if r.GateUnknown != "" {
		lines = append(lines, "whether the cluster waits for an administrator's word about signatures: "+r.GateUnknown)
	}
	lines = append(lines, "the images of operators and catalogs for that version of OpenShift")
	if len(r.Choice.Risks) > 0 {
		lines = append(lines, "whether a risk of this update applies to the cluster: "+strings.Join(r.Choice.Risks, "; "))
	}
	if r.Count(Ready) > 0 {
		lines = append(lines, "pools with an image of their own for the system (osImageURL, MachineOSConfig) do not take that of the release, but one built on it")
	}
	return lines
}

func writeList(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", text.Line(line))
	}
}

// Evidence returns what an administrator may want to see before giving the word that mirrors hold signatures: each
// image whose signature nodes will require, where they will look for it, and what they will find.
func (r *Readiness) Evidence() string {
	var b strings.Builder
	required := slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool { return !i.Required })
	fmt.Fprintf(&b, "%s: signatures that nodes will require of %s\n", r.Signed(), r.Title())
	switch {
	case r.Version == "":
		fmt.Fprintf(&b, "Its release image could not be read: which policies it brings is not known.\n")
	case len(required) == 0:
		fmt.Fprintf(&b, "No policy in force, and none that the release is known to bring, asks for a signature of any of its %s.\n", text.Count(len(r.Images), "image"))
	default:
		fmt.Fprintf(&b, "A policy in force, or one that the release brings, asks for a signature of %d of its %s.\n\n", len(required), text.Count(len(r.Images), "image"))
	}
	for _, i := range required {
		i.evidence(&b)
	}
	r.reportProblems(&b)
	r.word(&b)
	return b.String()
}

func (i *Image) evidence(b *strings.Builder) {
	if len(i.Signatures) == 0 {
		fmt.Fprintf(b, "%s %s\n  %s: %s\n", i.Title(), text.Line(i.Ref), i.State, i.reason())
		return
	}
	fmt.Fprintf(b, "%s %s\n", i.Title(), text.Line(i.Ref))
	for _, s := range i.Signatures {
		at := s.At.Ref
		if at == "" {
			at = i.At
		}
		line := s.State + " at " + at
		if s.Platform != "" {
			line = s.Platform + ": " + line
		}
		if s.Detail != "" {
			line += ": " + s.Detail
		}
		fmt.Fprintf(b, "  %s\n", text.Line(line))
	}
}

// accepted is the state of a policy.SignatureFinding that is good.
const accepted = "accepted"

// Signed reports the verdict of Evidence: whether all signatures that nodes will require are there. Problems count as they do for the release: while it
// is not certain which policies nodes will have, nor is which signatures they will require.
func (r *Readiness) Signed() State {
	states := r.wholeStates()
	for i := range r.Images {
		states = append(states, r.Images[i].signed()...)
	}
	return worst(states)
}

// signed are the states of the signatures that nodes will require of i, none if they will require none.
func (i *Image) signed() []State {
	switch {
	case !i.Required && i.At != "":
		return nil
	case i.At == "" && i.State == NotReady: // nodes would find nothing, and look for no signature
		return []State{NotReady}
	case len(i.Signatures) == 0:
		return []State{Unknown}
	}
	return convert.Each(i.Signatures, func(s policy.SignatureFinding) State {
		switch s.State {
		case accepted:
			return Ready
		case "unknown":
			return Unknown
		default:
			return NotReady
		}
	})
}

// word shows how to give the word, and does not recommend it where the evidence does not.
func (r *Readiness) word(b *strings.Builder) {
	g := r.Gate
	switch {
	case g == nil && r.GateUnknown != "":
		fmt.Fprintf(b, "\nWhether the cluster waits for a word about signatures is not known: %s.\n", r.GateUnknown)
	case g == nil:
		fmt.Fprintf(b, "\nThe cluster waits for no word about signatures: ConfigMap openshift-config-managed/admin-gates has no such key for the version that runs.\n")
	case g.Given:
		fmt.Fprintf(b, "\nThe word was given: %s.\n", g.Key)
	case r.Signed() == Ready:
		fmt.Fprintf(b, "\nThe cluster waits for the word %s:\n%s\nTo give it (this command does not):\n%s\n", g.Key, g.Text, g.Command())
	default:
		fmt.Fprintf(b, "\nThe cluster waits for the word %s:\n%s\nThe evidence above does not support it. Once it does:\n%s\n", g.Key, g.Text, g.Command())
	}
}
