package sync

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A display shows how far the copying is: as lines or as JSON.
type display struct {
	out, log io.Writer
	json     bool
	dryRun   bool

	mu      sync.Mutex
	planned bool
	all     v1alpha1.SyncEvent // the counts, without what was sent
	open    []skip             // those that could not be looked up
	begun   []*copying.Job
	started time.Time
	stop    func() // ends the goroutine that shows the progress
}

func (s *syncing) display() *display {
	return &display{out: s.streams.Out, log: s.streams.Err, json: s.output.Format == "json", dryRun: s.dryRun}
}

// showEvery is how often the progress is shown.
const showEvery = 10 * time.Second

// begin names the skipped images, and begins to show the progress.
func (d *display) begin(ctx context.Context, skipped []skip) {
	for _, k := range skipped {
		d.write(document("Skipped", k.copied, func(e *v1alpha1.SyncEvent) { e.Message = k.why }), "")
	}
	d.open = slices.DeleteFunc(slices.Clone(skipped), func(k skip) bool { return !k.open })
	d.started = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() { pause.Every(ctx, showEvery, d.show) })
	d.stop = func() {
		cancel()
		shown.Wait()
	}
}

// show writes how far all is, once it is known how much is to be copied.
func (d *display) show() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.planned {
		return
	}
	e := d.counts("Progress")
	line := d.summary(e)
	if left := e.Bytes - e.Sent; left > 0 && e.Sent > 0 && e.Done+e.Failed < e.Images {
		line += fmt.Sprintf(", %s left", time.Duration(float64(left)/float64(e.Sent)*float64(time.Since(d.started))).Round(time.Second))
	}
	d.write(e, line+failures(e))
}

func failures(e v1alpha1.SyncEvent) string {
	if e.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %s failed", text.Number(e.Failed))
}

// summary says how far all is, without failures.
func (d *display) summary(e v1alpha1.SyncEvent) string {
	line := fmt.Sprintf("%s of %s, %s of %s", text.Number(e.Done), text.Count(e.Images, "image"), size(e.Sent), size(e.Bytes))
	if rate := float64(e.Sent) / max(time.Since(d.started).Seconds(), 0.001); rate > 0 {
		line += fmt.Sprintf(", %s/s", size(int64(rate)))
	}
	return line
}

// on is told what happens to jobs.
func (d *display) on(j *copying.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch j.State {
	case copying.Started:
		d.begun = append(d.begun, j)
		d.write(jobDocument(j), "")
		return
	case copying.Copied:
		d.all.Done++
	case copying.Failed:
		d.all.Failed++
	}
	d.write(jobDocument(j), jobLine(j))
}

func jobLine(j *copying.Job) string {
	to := text.ShortDigest(j.To.Ref)
	switch {
	case j.State == copying.Failed:
		return fmt.Sprintf("failed: %s: %v", to, j.Err)
	case j.State == copying.There:
		return "present: " + to
	case j.Cache:
		return fmt.Sprintf("pulled through the cache: %s (%s)", to, size(j.Sent()))
	default:
		return fmt.Sprintf("copied: %s (%s)", to, size(j.Sent()))
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
				d.all.Images++
			}
			continue
		}
		d.all.Images++
		d.all.Bytes += j.Bytes
		at := slices.IndexFunc(e.Registries, func(r v1alpha1.SyncRegistry) bool { return r.Registry == j.Registry })
		if at < 0 {
			at = len(e.Registries)
			e.Registries = append(e.Registries, v1alpha1.SyncRegistry{Registry: j.Registry})
		}
		e.Registries[at].Images++
		e.Registries[at].Bytes += j.Bytes
	}
	e.Images, e.Bytes = d.all.Images, d.all.Bytes
	d.planned = true
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
	unseen := map[string]int{}
	for _, k := range d.open {
		unseen[k.copied.To.Host()]++
	}
	for _, registry := range slices.Sorted(maps.Keys(unseen)) {
		fmt.Fprintf(w, "%s could not be looked up at %s\n", text.Count(unseen[registry], "image"), text.Line(registry))
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

// end says what was copied.
func (d *display) end(interrupted bool) {
	d.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.counts("Ended"); !d.dryRun && (e.Images > 0 || interrupted || d.json) {
		d.write(e, "Copied "+d.summary(e)+failures(e))
	}
}

// counts is an event about all that is copied.
func (d *display) counts(kind string) v1alpha1.SyncEvent {
	e := event(kind)
	e.Images, e.Done, e.Failed, e.Bytes = d.all.Images, d.all.Done, d.all.Failed, d.all.Bytes
	for _, j := range d.begun {
		e.Sent += j.Sent()
	}
	return e
}

// write writes an event as JSON, or as a line if there is one.
func (d *display) write(e v1alpha1.SyncEvent, line string) {
	switch {
	case d.json:
		_ = cli.WriteLine(d.out, e) // the review that comes last says if that is impossible
	case line != "":
		fmt.Fprintln(d.log, text.Line(line))
	}
}

func event(kind string) v1alpha1.SyncEvent {
	return v1alpha1.SyncEvent{APIVersion: v1alpha1.APIVersion, Kind: "SyncEvent", Time: time.Now().UTC(), Type: kind}
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

// size says how many bytes there are as people read it.
var size = text.Size
