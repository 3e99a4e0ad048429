package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"
	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// explainOptions are the choices of the command explain.
type explainOptions struct {
	world   world
	change  change
	output  output
	probe   bool
	timeout time.Duration
}

func newExplain() *cobra.Command {
	o := explainOptions{output: output{format: "table", formats: []string{"table", "json", "yaml"}}}
	cmd := &cobra.Command{
		Use:   "explain IMAGE...",
		Short: "Say where nodes pull an image from, in which order, and why",
		Long: `explain prints the places a node tries for each image, in order, with the entry
of registries.conf that decides and the objects that made it; with -f, before and
after that change. No registry is contacted unless --probe is given.

Exit code 0: explained. 2: an image or an object cannot be parsed, or the Machine
Config Operator would reject the configuration, in which case no node would get it.`,
		Example: `  mirrorset-guard explain quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:...
  mirrorset-guard explain --from must-gather.yaml -f itms.yaml quay.io/team/app:v1 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			return o.run(cmd.Context(), images, streamsOf(cmd))
		},
	}
	o.world.addFlags(cmd.Flags())
	o.change.addFlags(cmd.Flags())
	o.output.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.probe, "probe", false, "ask the registries what is there")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long --probe asks registries before answering with what is known")
	return cmd
}

func (o *explainOptions) run(ctx context.Context, images []string, io streams) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	edit, err := o.change.readOptional(io)
	if err != nil {
		return err
	}
	w, err := o.open(ctx, io)
	if err != nil {
		return err
	}
	defer w.close()
	set, err := w.inventory.Mirrors(ctx)
	if err != nil {
		return err
	}
	e, err := newExplainer(set, edit(set))
	if err != nil {
		return err
	}
	if err := e.explain(images); err != nil {
		return err
	}
	if o.probe {
		e.facts = o.ask(ctx, w, e.openLocations())
	}
	if o.output.format != "table" {
		return o.output.write(io.out, e.document())
	}
	e.print(io.out, len(o.change.files) > 0)
	if o.probe {
		printProbeNotes(io.out, w)
	}
	return nil
}

// readOptional is read for a command that does without a change too.
func (c *change) readOptional(io streams) (mirrors.Edit, error) {
	if len(c.files) == 0 {
		return mirrors.Keep, nil
	}
	edit, _, err := c.read(io.in, io.err)
	return edit, err
}

// open reads no more of the world than is needed. Only a cluster that is read as
// a whole comes with the nodes' credentials.
func (o *explainOptions) open(ctx context.Context, io streams) (*openWorld, error) {
	if o.probe {
		return o.world.open(ctx, io)
	}
	return o.world.openMirrors(ctx, io)
}

func (o *explainOptions) ask(ctx context.Context, w *openWorld, locs []mirrors.Location) policy.Facts {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return w.registries.Presence(ctx, locs)
}

func printProbeNotes(w io.Writer, world *openWorld) {
	for _, note := range world.registries.Notes() {
		fmt.Fprintln(w)
		writeLines(w, wrapped("Note: "+note, tableWidth), 0)
	}
	fmt.Fprintf(w, "\nRegistries were asked from this machine; nodes may have other proxies, CAs and name servers.\n")
}

// An explainer knows the configuration before and after a change, and what it
// does to some images.
type explainer struct {
	before, after side
	images        []explained
	facts         policy.Facts // nil if nobody was asked
}

// explained is one image, as asked, with its routes.
type explained struct {
	image         string
	before, after mirrors.Route
}

func newExplainer(before, after mirrors.Set) (*explainer, error) {
	var (
		e   explainer
		err error
	)
	if e.before, err = newSide(before, "in force"); err != nil {
		return nil, err
	}
	if e.after, err = newSide(after, "after the change"); err != nil {
		return nil, err
	}
	return &e, nil
}

// explain works out the routes of images. The error names every one of them that
// no node could parse.
func (e *explainer) explain(images []string) error {
	var malformed []error
	for _, image := range images {
		before, errBefore := e.before.table.Route(image)
		after, errAfter := e.after.table.Route(image)
		if errBefore != nil || errAfter != nil {
			malformed = append(malformed, cmp.Or(errBefore, errAfter))
			continue
		}
		e.images = append(e.images, explained{image, before, after})
	}
	return joined(malformed)
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	err := errs[0]
	for _, next := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return err
}

func (e *explainer) openLocations() []mirrors.Location {
	var locs []mirrors.Location
	for _, img := range e.images {
		for _, l := range slices.Concat(img.before.Open(), img.after.Open()) {
			if !slices.Contains(locs, l) {
				locs = append(locs, l)
			}
		}
	}
	return locs
}

func (e *explainer) document() review.Explanation {
	doc := review.Explanation{APIVersion: review.APIVersion, Kind: "Explanation", Images: []review.Explained{}}
	for _, img := range e.images {
		doc.Images = append(doc.Images, review.Explained{
			Image:  img.image,
			Before: review.RouteDocument(img.before, e.facts),
			After:  review.RouteDocument(img.after, e.facts),
		})
	}
	return doc
}

// A side is the configuration before a change, or after it, with the knowledge
// of who said what.
type side struct {
	set     mirrors.Set
	table   *mirrors.Table
	entries map[string]sysregistriesv2.Registry // by scope
}

// newSide resolves set, which the error calls which.
func newSide(set mirrors.Set, which string) (side, error) {
	table, err := mirrors.Resolve(set)
	if err != nil {
		return side{}, fmt.Errorf("RejectedByMCO: the configuration %s is invalid, so that no node would get it: %w", which, err)
	}
	s := side{set: set, table: table, entries: map[string]sysregistriesv2.Registry{}}
	for _, r := range table.Config().Registries {
		s.entries[r.Prefix] = r
	}
	return s, nil
}

// A step is one place on a node's way to an image.
type step struct {
	mirrors.PullSource
	// serves is set for a mirror of the entry that a node passes over, and says
	// what it is for: "tags" or "digests".
	serves string
}

// steps returns the places of route, which is that of ref alone, and between them
// the mirrors of its entry that a node passes over.
func (s side) steps(ref string, route mirrors.Route) []step {
	var steps []step
	rest := route.Sources
	for _, m := range s.entries[route.Entry].Mirrors {
		if serves := otherPullType(m, ref); serves != "" {
			passed := mirrors.PullSource{Location: mirrors.Location{Ref: s.rewrite(ref, route.Entry, m)}, Mirror: true}
			steps = append(steps, step{passed, serves})
			continue
		}
		steps = append(steps, step{PullSource: rest[0]})
		rest = rest[1:]
	}
	for _, source := range rest {
		steps = append(steps, step{PullSource: source})
	}
	return steps
}

// otherPullType says what m serves, if that is not the kind of pull that ref, a
// candidate of a table, is. Candidates have either a tag or a digest.
func otherPullType(m sysregistriesv2.Endpoint, ref string) string {
	digested := strings.Contains(ref, "@")
	switch {
	case m.PullFromMirror == sysregistriesv2.MirrorByTagOnly && digested:
		return "tags"
	case m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly && !digested:
		return "digests"
	default:
		return ""
	}
}

// rewrite returns what ref would be at m if m served its kind of pull, or just
// the location of m where that would be no reference.
func (s side) rewrite(ref, entry string, m sysregistriesv2.Endpoint) string {
	named, err := reference.ParseNamed(ref)
	if err != nil {
		return m.Location
	}
	alone := s.entries[entry]
	alone.Mirrors = []sysregistriesv2.Endpoint{{Location: m.Location}}
	pulls, err := alone.PullSourcesFromReference(named)
	if err != nil {
		return m.Location
	}
	return pulls[0].Reference.String()
}

// entryText says which entry of registries.conf decides, who made it, and whose
// mirrors it has where they are not its own.
func (s side) entryText(scope string) string {
	if scope == "" {
		return "no entry of registries.conf covers it"
	}
	makers := namesOf(s.entriesFor(scope))
	for _, list := range s.imageLists() {
		if slices.ContainsFunc(list.scopes, func(listed string) bool { return sameScope(listed, scope) }) {
			makers = append(makers, list.name)
		}
	}
	text := fmt.Sprintf("entry %s, made by %s", scope, namedUpTo(makers, maxMakers))
	if wider := s.inheritedFrom(scope); wider != "" {
		text += fmt.Sprintf("; mirrors inherited from %s, made by %s", wider, namedUpTo(namesOf(s.entriesFor(wider)), maxMakers))
	}
	return text
}

// maxMakers is how many objects are named for one entry: more do not help to
// find the one that is to be changed.
const maxMakers = 4

func namedUpTo(names []string, limit int) string {
	if more := len(names) - limit; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), more)
	}
	return strings.Join(names, ", ")
}

// entriesFor returns the entries that made what registries.conf has for scope. One
// without any mirror but its source is ignored together with its policy
// (runtime-utils, mirrorsContainsARealMirror).
func (s side) entriesFor(scope string) []mirrors.Entry {
	return slices.DeleteFunc(s.set.Entries(), func(e mirrors.Entry) bool { return e.Source != scope || !hasRealMirror(e) })
}

func hasRealMirror(e mirrors.Entry) bool {
	return slices.ContainsFunc(e.Mirrors, func(m string) bool { return m != e.Source })
}

// namesOf returns the objects of entries, each once, sorted.
func namesOf(entries []mirrors.Entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, mirrors.NameOf(e.Object))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// An imageList is a list in Image cluster that makes entries.
type imageList struct {
	name   string
	scopes []string
}

func (s side) imageLists() []imageList {
	return []imageList{
		{blockedList, s.set.Registries.BlockedRegistries},
		{insecureList, s.set.Registries.InsecureRegistries},
	}
}

const (
	blockedList  = "blockedRegistries of Image cluster"
	insecureList = "insecureRegistries of Image cluster"
)

// sameScope compares what an object says with a scope in registries.conf, which
// has no slash at its end.
func sameScope(listed, scope string) bool { return strings.TrimRight(listed, "/") == scope }

// inheritedFrom returns the wider source whose mirrors the entry for scope has,
// "" if they are its own or it has none. The generator goes through the sources
// of digest mirrors and then those of tag mirrors, each sorted, and the first that
// covers an entry without mirrors gives it all of its own.
func (s side) inheritedFrom(scope string) string {
	if len(s.entries[scope].Mirrors) == 0 || len(s.entriesFor(scope)) > 0 {
		return ""
	}
	for _, ofTags := range []bool{false, true} {
		for _, source := range s.mirroredSources(ofTags) {
			if source != scope && registries.ScopeIsNestedInsideScope(scope, source) {
				return source
			}
		}
	}
	return ""
}

// mirroredSources returns the sources that have tag mirrors, or digest mirrors,
// sorted.
func (s side) mirroredSources(ofTags bool) []string {
	var sources []string
	for _, e := range s.set.Entries() {
		if _, isTag := e.Object.(*configv1.ImageTagMirrorSet); isTag == ofTags && hasRealMirror(e) {
			sources = append(sources, e.Source)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// blockText says which entry blocks a place, and who wants it so.
func (s side) blockText(scope string) string {
	var by []string
	never := slices.DeleteFunc(s.entriesFor(scope), func(e mirrors.Entry) bool { return e.Policy != configv1.NeverContactSource })
	if len(never) > 0 {
		by = append(by, "NeverContactSource in "+namedUpTo(namesOf(never), maxMakers))
	}
	for _, listed := range s.set.Registries.BlockedRegistries {
		if sameScope(listed, scope) {
			by = append(by, blockedList)
			break
		}
		if registries.ScopeIsNestedInsideScope(scope, listed) {
			by = append(by, fmt.Sprintf("%s in %s", listed, blockedList))
			break
		}
	}
	return fmt.Sprintf("blocked by the entry %s (%s)", scope, strings.Join(by, "; "))
}

// The table is written in lines of at most tableWidth characters: what fits a
// terminal, a ticket and a printed page.
const (
	tableWidth  = 100
	margin      = 2
	columnWidth = (tableWidth - 2*margin) / 2 // two columns, each with a margin to its left
)

// A paragraph is a place with what there is to say of it, or a remark on the
// places that follow.
type paragraph struct {
	label string // "" for a remark, which has no body either
	head  string // of a place its reference, which a column must not break
	body  string
}

func (e *explainer) print(w io.Writer, changed bool) {
	for i, img := range e.images {
		if i > 0 {
			fmt.Fprintln(w)
		}
		writeLines(w, wrapped(short(img.image), tableWidth), 0)
		e.printRoutes(w, img, changed)
	}
}

func (e *explainer) printRoutes(w io.Writer, img explained, changed bool) {
	before, after := e.paragraphs(e.before, img.image, img.before), e.paragraphs(e.after, img.image, img.after)
	switch {
	case !changed:
		writeStacked(w, after, margin)
	case slices.Equal(before, after):
		writeLines(w, []string{"the same before and after the change:"}, margin)
		writeStacked(w, after, 2*margin)
	case fitColumn(before) && fitColumn(after):
		writeSideBySide(w, before, after)
	default:
		writeLines(w, []string{"before the change:"}, margin)
		writeStacked(w, before, 2*margin)
		writeLines(w, []string{"after the change:"}, margin)
		writeStacked(w, after, 2*margin)
	}
}

// paragraphs tells the way of a node to image by the configuration of s.
func (e *explainer) paragraphs(s side, image string, route mirrors.Route) []paragraph {
	candidates, err := s.table.Candidates(image)
	if err != nil { // then there is no route either
		return nil
	}
	all := e.candidateParagraphs(s, candidates)
	switch {
	case route.Refused != "":
		all = append(all, paragraph{head: "nodes refuse it whoever serves it: " + route.Refused})
	case route.Err == nil && len(route.Open()) == 0:
		all = append(all, paragraph{head: "nothing is left to try: it cannot be pulled"})
	}
	return all
}

func (e *explainer) candidateParagraphs(s side, candidates []string) []paragraph {
	var all []paragraph
	if len(candidates) > 1 {
		all = append(all, paragraph{head: fmt.Sprintf("a short name: the %d search registries are tried in turn", len(candidates))})
	}
	tried := 0
	for _, ref := range candidates {
		route, err := s.table.Route(ref)
		if err != nil {
			continue // a candidate is a reference
		}
		head := s.entryText(route.Entry)
		if len(candidates) > 1 {
			head = short(ref) + ": " + head
		}
		all = append(all, paragraph{head: head})
		all = append(all, e.stepParagraphs(s, ref, route, tried)...)
		tried += len(route.Sources)
	}
	return all
}

// stepParagraphs numbers the steps to ref from what has been tried before.
func (e *explainer) stepParagraphs(s side, ref string, route mirrors.Route, tried int) []paragraph {
	if route.Err != nil {
		return []paragraph{{head: "the pull fails before anything is asked: " + short(route.Err.Error())}}
	}
	var all []paragraph
	for _, step := range s.steps(ref, route) {
		label := "-"
		if step.serves == "" {
			tried++
			label = fmt.Sprintf("%d.", tried)
		}
		all = append(all, paragraph{label: label, head: short(step.Ref), body: e.remark(s, step)})
	}
	return all
}

func (e *explainer) remark(s side, step step) string {
	what := "source"
	if step.Mirror {
		what = "mirror"
	}
	switch {
	case step.serves != "":
		return fmt.Sprintf("%s, skipped: serves %s only", what, step.serves)
	case step.Blocked:
		return fmt.Sprintf("%s, %s", what, s.blockText(step.BlockedBy))
	}
	text := what + ", tried"
	if step.Insecure {
		text += " without verifying certificates (" + insecureList + ")"
	}
	if f, ok := e.facts[step.Location]; ok {
		text += ": " + factText(f)
	}
	return text
}

func factText(f policy.Fact) string {
	if f.Detail == "" {
		return f.Presence.String()
	}
	return f.Presence.String() + ": " + short(f.Detail)
}

// short cuts the digests in text to twelve digits, as denials do.
func short(text string) string { return longDigest.ReplaceAllString(text, "$1") }

var longDigest = regexp.MustCompile(`(sha(?:256|384|512):[0-9a-f]{12})[0-9a-f]{52,}`)

func (p paragraph) lines(width int) []string {
	if p.label == "" {
		return wrapped(p.head, width)
	}
	lines := slices.Concat(wrapped(p.head, width-labelWidth-1), wrapped(p.body, width-labelWidth-1))
	for i, line := range lines {
		label := ""
		if i == 0 {
			label = p.label
		}
		lines[i] = fmt.Sprintf("%-*s %s", labelWidth-1, label, line)
	}
	return lines
}

// labelWidth is that of "1. "; one more is kept free for a tenth place.
const labelWidth = 3

func fitColumn(ps []paragraph) bool {
	return !slices.ContainsFunc(ps, func(p paragraph) bool { return p.label != "" && labelWidth+len(p.head) >= columnWidth })
}

func writeStacked(w io.Writer, ps []paragraph, indent int) {
	for _, p := range ps {
		writeLines(w, p.lines(tableWidth-indent), indent)
	}
}

func writeLines(w io.Writer, lines []string, indent int) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", indent), line)
	}
}

// writeSideBySide writes two routes in columns, the paragraphs of each pair at
// the same height.
func writeSideBySide(w io.Writer, left, right []paragraph) {
	writeRow(w, []string{"before the change"}, []string{"after the change"})
	for i := range max(len(left), len(right)) {
		writeRow(w, linesAt(left, i), linesAt(right, i))
	}
}

func linesAt(ps []paragraph, i int) []string {
	if i >= len(ps) {
		return nil
	}
	return ps[i].lines(columnWidth)
}

func writeRow(w io.Writer, left, right []string) {
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		line := fmt.Sprintf("%*s%-*s%*s%s", margin, "", columnWidth, l, margin, "", r)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// wrapped breaks text at spaces, and a word that is too long for a line where it
// can be read best. Lines after the first are set in by two.
func wrapped(text string, width int) []string {
	const hang = "  "
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if strings.TrimSpace(line) != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), hang
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
		for len(line) > width {
			cut := breakAt(line, width)
			lines, line = append(lines, line[:cut]), hang+line[cut:]
		}
	}
	return append(lines, line)
}

// breakAt returns where to break a line without spaces: before a separator of
// references in its second half, or else at its width.
func breakAt(line string, width int) int {
	if cut := strings.LastIndexAny(line[:width], "/@:"); cut > width/2 {
		return cut
	}
	cut := width
	for !utf8.RuneStart(line[cut]) {
		cut--
	}
	return cut
}
