package healing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
)

// The reasons of reports: those of the Events on mirror sets.
const (
	MirrorHealed      = "MirrorHealed"
	MirrorNotHealed   = "MirrorNotHealed"
	MirrorHealStopped = "MirrorHealStopped"
)

// The results in audit records and metrics.
const (
	Copied  = "copied"
	Failed  = "failed"
	Stopped = "stopped"
	Resumed = "resumed"
)

// Author returns the author of Events, in the name of instance.
func Author(instance string) events.Author {
	return events.Author{Part: "heal", Instance: instance, Action: "Healing"}
}

// news are what has not been reported.
type news struct {
	copied []made
	left   []leaving
}

// made is a copy that was made.
type made struct {
	loss
	job *copying.Job
}

// leaving is a loss that is not made good, and why.
type leaving struct {
	loss
	why  reason
	says string
}

// tell has it reported that l is not made good, unless the last report about it said the same. It returns whether
// that is so.
func (h *Healer) tell(l loss, why reason, says string) bool {
	to := l.copied.To.Ref
	if to == "" {
		to = l.Image.Ref
	}
	if h.work.told[to] == says {
		return false
	}
	h.work.told[to] = says
	h.work.news.left = append(h.work.news.left, leaving{l, why, says})
	return true
}

// report reports what has not been reported, as far as budgets go.
func (h *Healer) report(ctx context.Context) error {
	return h.options.Outlet.Pass(ctx, func(yield func(report.News) bool) {
		for _, o := range objectsOf(h.work.news) {
			if r, ok := copiedReport(o, h.work.news.copied); ok && !yield(report.News{Report: r, Done: func() { h.forgetCopied(o) }}) {
				return
			}
			for _, why := range reasons {
				if r, ok := leftReport(o, why, h.work.news.left); ok && !yield(report.News{Report: r, Done: func() { h.forgetLeft(o, why) }}) {
					return
				}
			}
		}
	})
}

// isAbout reports whether l is put down to an object, by the first that sends its image to mirrors: it is
// reported once.
func (l loss) isAbout(o mirrors.Object) bool { return report.Key(l.object()) == report.Key(o) }

func (l loss) object() mirrors.Object {
	if len(l.Objects) == 0 {
		return nil
	}
	return l.Objects[0]
}

// objectsOf returns what n is about.
func objectsOf(n news) []mirrors.Object {
	var all []mirrors.Object
	add := func(l loss) {
		if !slices.ContainsFunc(all, l.isAbout) {
			all = append(all, l.object())
		}
	}
	for _, m := range n.copied {
		add(m.loss)
	}
	for _, l := range n.left {
		add(l.loss)
	}
	return all
}

func (h *Healer) forgetCopied(o mirrors.Object) {
	h.work.news.copied = slices.DeleteFunc(h.work.news.copied, func(m made) bool { return m.isAbout(o) })
}

func (h *Healer) forgetLeft(o mirrors.Object, why reason) {
	h.work.news.left = slices.DeleteFunc(h.work.news.left, func(l leaving) bool { return l.isAbout(o) && l.why == why })
}

// maxNamed is how many images a note names.
const maxNamed = 3

func copiedReport(o mirrors.Object, all []made) (report.Report, bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(m made) bool { return !m.isAbout(o) })
	if len(all) == 0 {
		return report.Report{}, false
	}
	var bytes int64
	for _, m := range all {
		bytes += m.job.Sent()
	}
	first := all[0]
	note := fmt.Sprintf("%s copied back, %d bytes of layers sent: %s from %s", text.Count(len(all), "image"), bytes, first.copied.To.Ref, first.copied.From[0].Ref)
	return report.Report{
		Object: o, Images: len(all), Reason: MirrorHealed, Message: "Copied back what mirrors had lost",
		Note: note + also(each.Of(all[1:], func(m made) string { return m.copied.To.Ref })),
	}, true
}

func leftReport(o mirrors.Object, why reason, all []leaving) (report.Report, bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(l leaving) bool { return l.why != why || !l.isAbout(o) })
	if len(all) == 0 {
		return report.Report{}, false
	}
	first := all[0]
	r := report.Report{Object: o, Images: len(all), Warning: true, Reason: MirrorNotHealed, Message: "Did not copy back what mirrors had lost"}
	if why == stopped {
		r.Reason, r.Message, r.Note = MirrorHealStopped, "Nothing more is copied back to a registry", first.says
		return r, true
	}
	r.Note = fmt.Sprintf("%s lost and not copied back: %s: %s", text.Count(len(all), "image"), first.Image.Ref, first.says) +
		also(each.Of(all[1:], func(l leaving) string { return l.Image.Ref }))
	return r, true
}

func also(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ". Also " + text.Names(names, maxNamed-1)
}

// document returns the record of a copy that was made, or tried.
func (l loss) document(result string, j *copying.Job, why string) auditv1alpha1.Healing {
	d := auditv1alpha1.Healing{
		Result: result, Image: l.Image.Ref, Rule: l.copied.Rule, Digest: j.Digest, Registry: hostOf(l.copied.To), To: l.copied.To.Ref, Bytes: int(j.Sent()), Reason: why,
		MirrorSets: each.Of(l.Objects, mirrors.NameOf),
	}
	for _, from := range l.copied.From {
		d.From = append(d.From, from.Ref)
	}
	return d
}

func (h *Healer) record(d auditv1alpha1.Healing) {
	d.Time = time.Now().UTC()
	d.Reason = strings.TrimSpace(text.Line(d.Reason))
	if h.options.Record != nil {
		h.options.Record(d)
	}
}
