package nextrelease

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// Author returns the author of Events, in the name of instance.
func Author(instance string) events.Author {
	return events.Author{Part: "updates", Instance: instance, Action: "Judging"}
}

// The reasons of Events on the ClusterVersion.
const (
	UpdateReady         = "UpdateReady"
	UpdateNotReady      = "UpdateNotReady"
	UpdateNotDetermined = "UpdateNotDetermined"
)

// reasons has the reason of each state.
var reasons = map[readiness.State]string{readiness.Ready: UpdateReady, readiness.NotReady: UpdateNotReady, readiness.Unknown: UpdateNotDetermined}

// A verdict is the finding of one round about the release that is marked.
type verdict struct {
	marked string
	choice target.Release
	// readiness is nil if the release could not be judged, for a reason.
	readiness *readiness.Readiness
	reason    string
}

func (v *verdict) state() readiness.State {
	if v.readiness == nil {
		return readiness.Unknown
	}
	return v.readiness.State()
}

func (v *verdict) version() string {
	if v.readiness != nil && v.readiness.Version != "" {
		return v.readiness.Version
	}
	return v.choice.Version
}

// A ledger knows what has been found and reported of the release that is marked, by the reason of an Event.
type ledger struct {
	// first is set for a replica that has just begun: a release that is ready at once is no news.
	first  bool
	latest verdict
	trial  watchloop.Trial[string]
}

// enter enters what a round has found. One that waits for answers, and has found nothing else, says nothing yet.
func (l *ledger) enter(v verdict, settled bool) {
	if l.latest.marked != v.marked || l.latest.choice.Version != v.choice.Version || l.latest.choice.Image != v.choice.Image {
		begins := l.first
		*l = ledger{}
		if begins {
			l.trial.Reported = UpdateReady
		}
	}
	if l.latest = v; !settled && v.state() != readiness.NotReady {
		l.trial.Interrupt()
		return
	}
	l.trial.Find(reasons[v.state()])
}

// news yields what has changed, if something has.
func (l *ledger) news(yield func(watchloop.News) bool) {
	if l.trial.IsNews() {
		v := &l.latest
		yield(watchloop.News{Done: l.trial.MarkReported, Report: watchloop.Report{
			About: "the next release", Reason: reasons[v.state()], Warning: v.state() == readiness.NotReady, Message: "Judged the next release", Note: v.note(),
		}})
	}
}

func (v *verdict) note() string {
	marked := map[string]string{target.Desired: "chosen by spec.desiredUpdate", target.Recommended: "the newest that is recommended"}[v.marked]
	title := strings.TrimSpace("Release "+text.Line(text.Cut(v.version(), maxNamedText))) + " (" + marked + ")"
	switch s := v.state(); {
	case v.readiness == nil:
		return fmt.Sprintf("It is UNKNOWN whether nodes could pull %s: %s", strings.ToLower(title[:1])+title[1:], v.reason)
	case s == readiness.Ready:
		return fmt.Sprintf("%s is READY: %s", title, v.readiness.Summary())
	case s == readiness.NotReady:
		return fmt.Sprintf("%s is NOT READY: %s %s", title, v.readiness.Summary(), v.named(s))
	default:
		return fmt.Sprintf("%s is not known to be ready: %s %s", title, v.readiness.Summary(), v.named(s))
	}
}

// blocks are the answer about the release as a part of a page, and how to ask for all of it.
func (v *verdict) blocks() (blocks []answer.Block) {
	if v.readiness == nil {
		return nil
	}
	a := v.readiness.Answer()
	blocks = append(blocks, answer.Paragraph{{{Text: a.Verdict, Tone: a.Tone}, {Text: ": " + a.Subject}}}, answer.Paragraph(a.Lead))
	for _, b := range a.Blocks {
		switch b := b.(type) {
		case answer.Section, answer.Drawn:
		case answer.Printed: // of the images, a row of each is enough here
			if table, ok := b.Block.(answer.Table); ok {
				blocks = append(blocks, table)
			}
		case answer.List:
			b.ID = ""
			blocks = append(blocks, b)
		default:
			blocks = append(blocks, b)
		}
	}
	return append(blocks, answer.Paragraph{answer.Code("mirrorset-guard release " + v.asked() + " -o html=release.html")})
}

const (
	// maxNamed is how many images a note names, and maxNamedText how much of a name that others have given.
	maxNamed     = 3
	maxNamedText = 100
	// maxFirst is how much a note says of the first reason: there is room for the names.
	maxFirst = 300
)

// named names the images and problems in a state, the first of them with the reason.
func (v *verdict) named(s readiness.State) string {
	var parts []string
	r := v.readiness
	images := slices.DeleteFunc(slices.Clone(r.Images), func(i readiness.Image) bool { return i.State != s })
	if len(images) > 0 {
		first := images[0].Title() + " " + images[0].Ref
		if len(images[0].Findings) > 0 {
			f := images[0].Findings[0]
			first += ": " + f.Rule + ": " + strings.Join(append([]string{f.Reason}, f.Detail...), "; ")
		}
		first = text.Cut(text.Line(first), maxFirst)
		if others := text.Names(convert.Each(images[1:], readiness.Image.Title), maxNamed-1); others != "" {
			first += ". Also " + others
		}
		parts = append(parts, sentence(first))
	}
	if r.Signature.State == s {
		parts = append(parts, sentence("GPG signature: "+text.Cut(text.Line(r.Signature.Reason), maxFirst)))
	}
	for _, p := range r.Problems {
		if p.State == s {
			parts = append(parts, sentence(text.Cut(text.Line(p.Reason), maxFirst)))
			break
		}
	}
	return strings.Join(append(parts, `"mirrorset-guard release `+v.asked()+`" shows all`), " ")
}

// sentence ends s, unless it was cut.
func sentence(s string) string {
	if strings.HasSuffix(s, "…") {
		return s
	}
	return s + "."
}

// asked is the word by which the command release finds the release.
func (v *verdict) asked() string {
	if v.marked == target.Desired {
		return target.Desired
	}
	return target.Next
}
