package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A display shows how far the copying is: as a bar on a terminal, as lines or as JSON.
type display struct {
	out, log io.Writer
	json     bool
	terminal bool
	dryRun   bool

	mu      sync.Mutex
	planned bool
	open    []skip // those that could not be looked up
	begun   []*copying.Job
	started time.Time
	total   int64
	images  int
	done    int
	failed  int
	bar     *progressbar.ProgressBar // on a terminal, once it is known how much is to be copied
	stop    context.CancelFunc
	shown   chan struct{}
}

func (s *syncing) display() *display {
	return &display{
		out: s.streams.Out, log: s.streams.Err, json: s.output.Format == "json", dryRun: s.dryRun,
		terminal: s.output.Format == "auto" && !s.dryRun && cli.IsTerminal(s.streams.Out),
	}
}

// How often a bar is drawn, and a line of progress is written elsewhere.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

// begin names the skipped images, and begins to show the progress.
func (d *display) begin(ctx context.Context, skipped []skip) {
	for _, k := range skipped {
		d.write(document("Skipped", k.copied, func(e *v1alpha1.SyncEvent) { e.Message = k.why }), "")
	}
	d.open = slices.DeleteFunc(slices.Clone(skipped), func(k skip) bool { return !k.open })
	d.started = time.Now()
	ctx, d.stop = context.WithCancel(ctx)
	d.shown = make(chan struct{})
	go d.follow(ctx)
}

// follow shows the progress until ctx ends.
func (d *display) follow(ctx context.Context) {
	defer close(d.shown)
	every := lineEvery
	if d.terminal {
		every = barEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.show()
		}
	}
}

func (d *display) show() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.bar != nil:
		d.draw()
	case d.planned && !d.terminal:
		d.write(d.event("Progress"), d.summary())
	}
}

// draw draws the bar, which adds the bytes, the rate and the time that is left. It is no longer than a line.
func (d *display) draw() {
	d.bar.Describe(text.Number(d.done) + " of " + text.Count(d.images, "image") + d.failures())
	_ = d.bar.Set64(min(d.sent(), d.total)) // the next one may be drawn
}

func (d *display) sent() int64 {
	var sent int64
	for _, j := range d.begun {
		sent += j.Sent()
	}
	return sent
}

// summary says how far all is, in a line.
func (d *display) summary() string {
	sent := d.sent()
	line := fmt.Sprintf("%s of %s, %s of %s", text.Number(d.done), text.Count(d.images, "image"), size(sent), size(d.total))
	if rate := d.rate(sent); rate > 0 {
		line += fmt.Sprintf(", %s/s", size(int64(rate)))
		if left := d.total - sent; left > 0 && d.done+d.failed < d.images {
			line += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
		}
	}
	return line + d.failures()
}

// ended says what was copied once nothing is under way any more.
func (d *display) ended(interrupted bool) string {
	sent := d.sent()
	line := fmt.Sprintf("Copied %s of %s, %s", text.Number(d.done), text.Count(d.images, "image"), size(sent))
	switch rest := d.total - sent; {
	case !d.planned:
		line = fmt.Sprintf("Copied %s, %s", text.Count(d.done, "image"), size(sent))
	case interrupted || d.failed > 0:
		line += " of " + size(d.total)
	case rest > 0: // as another image brought it there, or an earlier run
		line += fmt.Sprintf(" (the other %s were there)", size(rest))
	}
	if interrupted {
		if lost := d.lost(); lost > 0 {
			line += fmt.Sprintf("; %s of layers that were under way are to be sent again", size(lost))
		}
	} else if rate := d.rate(sent); rate > 0 {
		line += fmt.Sprintf(", %s/s", size(int64(rate)))
	}
	return line + d.failures()
}

func (d *display) rate(sent int64) float64 {
	return float64(sent) / max(time.Since(d.started).Seconds(), 0.001)
}

func (d *display) failures() string {
	if d.failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %s failed", text.Number(d.failed))
}

func (d *display) lost() int64 {
	var lost int64
	for _, j := range d.begun {
		lost += j.Lost()
	}
	return lost
}

// on is told what happens to jobs.
func (d *display) on(e copying.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := e.Job
	switch j.State {
	case copying.Started:
		d.begun = append(d.begun, j)
		d.write(jobDocument(j), "")
		return
	case copying.Copied:
		d.done++
	case copying.Failed:
		d.failed++
	}
	d.write(jobDocument(j), jobLine(j))
}

func jobLine(j *copying.Job) string {
	switch j.State {
	case copying.Failed:
		return fmt.Sprintf("failed: %s: %v", text.ShortDigest(j.To.Ref), j.Err)
	case copying.There:
		return "present: " + text.ShortDigest(j.To.Ref)
	default:
		if j.Cache {
			return fmt.Sprintf("pulled through the cache: %s (%s)", text.ShortDigest(j.To.Ref), size(j.Sent()))
		}
		return fmt.Sprintf("copied: %s (%s)", text.ShortDigest(j.To.Ref), size(j.Sent()))
	}
}

// plan shows the images to copy, and those copied already.
func (d *display) plan(jobs []*copying.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := event("Planned")
	for _, j := range jobs {
		if !j.Wanted {
			if j.State == copying.Failed {
				e.Failed++
				d.images++
			}
			continue
		}
		d.images++
		d.total += j.Bytes
		at := slices.IndexFunc(e.Registries, func(r v1alpha1.SyncRegistry) bool { return r.Registry == j.Registry })
		if at < 0 {
			at = len(e.Registries)
			e.Registries = append(e.Registries, v1alpha1.SyncRegistry{Registry: j.Registry})
		}
		e.Registries[at].Images++
		e.Registries[at].Bytes += j.Bytes
	}
	e.Images, e.Bytes = d.images, d.total
	d.planned = true
	if d.terminal && d.total > 0 {
		d.bar = progressbar.NewOptions64(d.total, progressbar.OptionSetWriter(d.out), progressbar.OptionUseANSICodes(true),
			progressbar.OptionShowBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseIECUnits(true), progressbar.OptionSetTheme(progressbar.ThemeASCII))
	}
	switch {
	case d.json:
		d.write(e, "")
	case d.dryRun:
		for _, j := range jobs {
			if j.Wanted {
				from := text.Line(j.From[0].Ref)
				if j.Cache {
					from = "through the cache"
				}
				fmt.Fprintf(d.out, "%9s  %s -> %s\n", size(j.Bytes), from, text.Line(j.To.Ref))
			}
		}
		d.tellPlan(d.out, e)
	default:
		d.tellPlan(d.log, e)
	}
}

func (d *display) tellPlan(w io.Writer, e v1alpha1.SyncEvent) {
	for _, at := range byRegistry(d.open) {
		fmt.Fprintln(w, at)
	}
	switch {
	case e.Images == 0 && len(d.open) == 0:
		fmt.Fprintln(w, "Nothing is to be copied")
	case e.Failed > 0 && d.dryRun:
		fmt.Fprintln(w, text.Count(e.Failed, "image")+" cannot be copied")
	}
	for _, r := range e.Registries {
		fmt.Fprintf(w, "To %s: %s, %s\n", text.Line(r.Registry), text.Count(r.Images, "image"), size(r.Bytes))
	}
}

// byRegistry says how many images could not be looked up where.
func byRegistry(open []skip) []string {
	counts := map[string]int{}
	for _, k := range open {
		counts[k.copied.To.Host()]++
	}
	return convert.Each(slices.Sorted(maps.Keys(counts)), func(registry string) string {
		return text.Count(counts[registry], "image") + " could not be looked up at " + text.Line(registry)
	})
}

// end takes the bar away, and says what was copied.
func (d *display) end(interrupted bool) {
	d.stop()
	<-d.shown
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		_ = d.bar.Clear() // the summary follows below
		d.bar = nil
	}
	d.terminal = false
	if !d.dryRun && (d.images > 0 || interrupted || d.json) {
		d.write(d.event("Ended"), d.ended(interrupted))
	}
}

// event is one about all that is copied.
func (d *display) event(kind string) v1alpha1.SyncEvent {
	e := event(kind)
	e.Images, e.Done, e.Failed, e.Bytes, e.Sent = d.images, d.done, d.failed, d.total, d.sent()
	return e
}

// write writes an event as JSON, or as a line if there is one.
func (d *display) write(e v1alpha1.SyncEvent, line string) {
	switch {
	case d.json:
		_ = writeLine(d.out, e) // the review that comes last says if that is impossible
	case line != "" && !d.terminal:
		fmt.Fprintln(d.log, text.Line(line))
	}
}

func event(kind string) v1alpha1.SyncEvent {
	return v1alpha1.SyncEvent{APIVersion: "mirrorset-guard.io/v1alpha1", Kind: "SyncEvent", Time: time.Now().UTC(), Type: kind}
}

func document(kind string, c policy.Copy, set func(*v1alpha1.SyncEvent)) v1alpha1.SyncEvent {
	e := event(kind)
	e.Image, e.Rule, e.To, e.Digest = c.Image.Ref, c.Rule, c.To.Ref, c.Digest
	for _, l := range c.From {
		e.From = append(e.From, l.Ref)
	}
	set(&e)
	return e
}

func jobDocument(j *copying.Job) v1alpha1.SyncEvent {
	return document(string(j.State), j.Copy, func(e *v1alpha1.SyncEvent) {
		e.Digest, e.Notes, e.Bytes, e.Sent = j.Digest, j.Notes, j.Bytes, j.Sent()
		if j.Err != nil {
			e.Message = j.Err.Error()
		}
	})
}

func writeLine(w io.Writer, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text.JSON(data), '\n'))
	return err
}

// size says how many bytes there are as people read it.
var size = text.Size
