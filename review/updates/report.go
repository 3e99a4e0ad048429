package updates

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
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

// News is what there is to tell of the next release.
type News struct {
	Reason, Note string
	Warning      bool
}

// A verdict is the finding of one round about the release that is marked.
type verdict struct {
	marked string
	choice readiness.Choice
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

// confirmations is how many rounds in a row must agree before their verdict is reported: a registry may be halfway
// through a restart.
const confirmations = 2

// A ledger knows the verdict that was reported last, and what has been seen since.
type ledger struct {
	// first is set for a replica that has just begun: what it finds to be ready at once is no news.
	first    bool
	latest   verdict
	times    int // rounds in a row that agree with latest
	reported *readiness.State
}

// enter enters what a round has found. One that waits for answers, and has found nothing else, says nothing yet.
func (l *ledger) enter(v verdict, settled bool) {
	if l.latest.marked != v.marked || l.latest.choice.Version != v.choice.Version || l.latest.choice.Image != v.choice.Image {
		begins := l.first
		*l = ledger{}
		if begins {
			ready := readiness.Ready
			l.reported = &ready
		}
	}
	agrees := l.times > 0 && l.latest.state() == v.state()
	switch l.latest = v; {
	case !settled && v.state() != readiness.NotReady:
		l.times = 0
	case agrees:
		l.times++
	default:
		l.times = 1
	}
}

// notReadyRounds returns how many rounds in a row have found that the release is not ready.
func (l *ledger) notReadyRounds() int {
	if l.latest.state() != readiness.NotReady {
		return 0
	}
	return l.times
}

// news returns what has changed, if something has.
func (l *ledger) news() (News, bool) {
	s := l.latest.state()
	if l.times < confirmations || l.reported != nil && *l.reported == s {
		return News{}, false
	}
	return l.latest.news(), true
}

// told notes that the latest verdict was reported.
func (l *ledger) told() {
	s := l.latest.state()
	l.reported = &s
}

// report reports what has changed. What cannot be written is tried again by the next round.
func (w *Watcher) report(ctx context.Context, l *ledger) {
	n, changed := l.news()
	if !changed {
		return
	}
	if w.options.Report != nil {
		if err := w.options.Report(ctx, n); err != nil {
			w.options.Log.Error(err, "Could not tell of the next release")
			return
		}
	}
	l.told()
	w.options.Log.Info("Judged the next release", "reason", n.Reason, "note", events.Note(n.Note))
}

// news says what the verdict is, in the words of the Event.
func (v *verdict) news() News {
	marked := map[string]string{readiness.Desired: "chosen by spec.desiredUpdate", readiness.Recommended: "the newest that is recommended"}[v.marked]
	title := strings.TrimSpace("Release "+text.Line(text.Cut(v.version(), maxNamedText))) + " (" + marked + ")"
	switch v.state() {
	case readiness.Ready:
		return News{UpdateReady, fmt.Sprintf("%s is READY: %s", title, v.readiness.Summary()), false}
	case readiness.NotReady:
		return News{UpdateNotReady, fmt.Sprintf("%s is NOT READY: %s %s", title, v.readiness.Summary(), v.named(readiness.NotReady)), true}
	case readiness.Unknown:
	}
	if v.readiness == nil {
		return News{UpdateNotDetermined, fmt.Sprintf("It is UNKNOWN whether nodes could pull %s: %s", strings.ToLower(title[:1])+title[1:], v.reason), false}
	}
	return News{UpdateNotDetermined, fmt.Sprintf("%s is not known to be ready: %s %s", title, v.readiness.Summary(), v.named(readiness.Unknown)), false}
}

const (
	// maxNamed is how many images a note names, and maxNamedText how much of a name that others have given.
	maxNamed     = 3
	maxNamedText = 100
	// maxFirst is how much a note says of the first reason: there is room for the names.
	maxFirst = 300
)

// named names what is in a state, the first of it with the reason.
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
		if others := text.Names(each.Of(images[1:], readiness.Image.Title), maxNamed-1); others != "" {
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
	if v.marked == readiness.Desired {
		return readiness.Desired
	}
	return readiness.Next
}
