// Package browser opens pages in Chromium, as a person would.
package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder for pictures of pages, which docs show")

// The pages, by name, and the browser that opens them.
var (
	pages   = map[string]string{}
	browser context.Context
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run makes the pages and starts the browser.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pages-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	if err := makePages(dir); err != nil {
		log.Print(err)
		return 1
	}
	profile := filepath.Join(dir, "profile")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(2*time.Minute),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var stop context.CancelFunc
	browser, stop = chromedp.NewContext(allocated)
	defer stop()
	if err := chromedp.Run(browser); err != nil {
		log.Printf("Chromium does not start (apt-get install --no-install-recommends chromium): %v", err)
		return 1
	}
	return m.Run()
}

// makePages has the tests of the module above leave their pages.
func makePages(dir string) error {
	cmd := exec.Command("go", "test", "-vet=off", "-ldflags=-s -w", "-count=1", "-run", "^TestPages$", "./review/page", "./test/scenarios")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "PAGES="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the pages: %w\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	for _, f := range files {
		pages[strings.TrimSuffix(filepath.Base(f), ".html")] = f
	}
	if len(pages) < 100 {
		return fmt.Errorf("there are only %d pages in %s", len(pages), dir)
	}
	return err
}

// A tab is a page that is open, with what went wrong in it.
type tab struct {
	context.Context
	t *testing.T

	mu      sync.Mutex
	address string
	faults  []string
}

// open opens a page at a width, and ends the test in error if it fetches something or complains.
func open(t *testing.T, name string, width int64, more ...chromedp.Action) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	b := &tab{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, b.listen)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			t.Error(f)
		}
		cancel()
		end()
	})
	actions := append([]chromedp.Action{network.Enable(), cdplog.Enable(), runtime.Enable(), chromedp.EmulateViewport(width, 900)}, more...)
	b.run(actions...)
	b.show(name)
	return b
}

// show opens another page in the same tab, which takes a tenth of the time.
func (b *tab) show(name string) {
	b.t.Helper()
	file, ok := pages[name]
	if !ok {
		b.t.Fatalf("there is no page %s", name)
	}
	b.mu.Lock()
	b.address = "file://" + file
	b.mu.Unlock()
	b.run(chromedp.Navigate("file://" + file))
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fault := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Request.URL != b.address {
			fault = "it fetches " + e.Request.URL
		}
	case *runtime.EventConsoleAPICalled:
		fault = fmt.Sprintf("console: %s %v", e.Type, e.Args)
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Error()
	case *cdplog.EventEntryAdded:
		fault = fmt.Sprintf("log: %s %s", e.Entry.Level, e.Entry.Text)
	}
	if fault != "" {
		b.faults = append(b.faults, b.address+": "+fault)
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// of returns the value of a JavaScript expression, which may be a promise.
func of[T any](b *tab, expression string) T {
	b.t.Helper()
	var v T
	b.run(chromedp.Evaluate(expression, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return v
}

// eventually waits until an expression is true, as the page acts after the event. chromedp.Poll evaluates
// it in the page, whose policy forbids that.
func (b *tab) eventually(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !of[bool](b, expression); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("this does not become true: %s", expression)
		}
	}
}

var widths = []int64{360, 1280, 1920}

// TestEachPage opens each page at each width: nothing sticks out of it, fetches or complains.
func TestEachPage(t *testing.T) {
	b := open(t, names()[0], widths[0])
	for _, name := range names() {
		b.show(name)
		for _, width := range widths {
			b.run(chromedp.EmulateViewport(width, 900))
			if over := of[[]string](b, sticksOut); len(over) > 0 {
				t.Errorf("%s: at %d pixels, these stick out: %s", name, width, strings.Join(over, ", "))
			}
		}
		if title := of[string](b, "document.title"); title == "" {
			t.Errorf("%s has no title", name)
		}
	}
}

// sticksOut names elements to the right of the page, if the page is wider than the window.
const sticksOut = `document.documentElement.scrollWidth <= innerWidth ? [] :
	[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).slice(0, 5).map((e) => e.tagName + "." + e.className)`

func names() []string {
	all := make([]string, 0, len(pages))
	for name := range pages {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// TestAccessible: axe-core finds no serious fault, in light and in dark, at each width for the samples.
func TestAccessible(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join("node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("npm ci gets it: %v", err)
	}
	for _, scheme := range []string{"light", "dark"} {
		b := open(t, "review", 1280, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		for i, name := range names() {
			if !isSample(name) && i%16 != 0 || strings.HasPrefix(name, "review-10000") {
				continue
			}
			b.show(name)
			b.run(chromedp.Evaluate(unfoldAll, nil), chromedp.Evaluate(string(axe), nil))
			at := []int64{1280}
			if isSample(name) {
				at = widths
			}
			for _, width := range at {
				b.run(chromedp.EmulateViewport(width, 900))
				for _, v := range of[[]violation](b, faults) {
					t.Errorf("%s, %s, at %d pixels: %s (%s): %s\n  %s", name, scheme, width, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n  "))
				}
			}
		}
	}
}

const unfoldAll = `document.querySelectorAll("details").forEach((d) => { d.open = true; })`

// A violation is a finding of axe-core.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// faults are those of the standards up to WCAG 2.2 AA, and the good practices that matter.
const faults = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((r) => r.violations
	.filter((v) => ["serious", "critical", "moderate"].includes(v.impact))
	.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary)})))`

// isSample reports whether a page is not that of a story.
func isSample(name string) bool { return name[0] < '0' || name[0] > '9' }

const shown = `[...document.querySelectorAll("#image-rows tbody tr")].filter((r) => !r.hidden).length`

// TestSearch: the images are searched, and a cell of a release's grid leads to its row although that was not among what was found.
func TestSearch(t *testing.T) {
	b := open(t, "review", 1280)
	b.searches("cart:V1", 1)
	b.searches("payments", 5)
	b.searches("", of[int](b, `document.querySelectorAll("#image-rows tbody tr").length`))
	b = open(t, "release", 1280)
	if all := of[int](b, `document.querySelectorAll(".grid a").length`); all != of[int](b, shown) || all < 40 {
		t.Fatalf("%d cells", all)
	}
	b.searches("cannot be", 0)
	b.run(chromedp.Click(`.grid .bad a[href="#image-48"]`))
	b.eventually(`(() => { const r = document.querySelector("tr:target"); if (!r || r.id !== "image-48") return false; const at = r.getBoundingClientRect(); return at.height > 0 && at.top > -1 && at.top < innerHeight; })()`)
	b.copies("#remedy .todo button")
	open(t, "review-10000", 1280).searches("team-007-production", 34)
}

// searches types something, and wants so many rows to be shown.
func (b *tab) searches(what string, want int) {
	b.t.Helper()
	b.eventually(`document.querySelector(".search input") !== null`)
	b.run(chromedp.Evaluate(fmt.Sprintf(`{ const field = document.querySelector(".search input"); field.value = %q; field.dispatchEvent(new Event("input")); }`, what), nil))
	b.eventually(fmt.Sprintf("%s === %d", shown, want))
	if got := of[string](b, `document.querySelector(".search output").textContent`); !strings.HasPrefix(got, fmt.Sprintf("%d of ", want)) {
		b.t.Errorf("%s: %s", what, got)
	}
}

// TestSort: by text and by number, in both directions, with the keyboard.
func TestSort(t *testing.T) {
	b := open(t, "review", 1280)
	column := func(n int) []string {
		return of[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("#namespaces tbody tr")].map((r) => r.cells[%d].textContent)`, n))
	}
	b.run(chromedp.Focus("#namespaces th:nth-child(1) button"), chromedp.KeyEvent("\r"))
	if got := column(0); !slices.IsSorted(got) || len(got) < 5 {
		t.Errorf("by name: %q", got)
	}
	b.run(chromedp.KeyEvent("\r"))
	if got := column(0); !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("by name, from the end: %q", got)
	}
	if got := of[string](b, `document.querySelector("#namespaces th").getAttribute("aria-sort")`); got != "descending" {
		t.Errorf("aria-sort is %q", got)
	}
	b.run(chromedp.Click("#namespaces th:nth-child(2) button"))
	numbers := column(1)
	if !slices.IsSortedFunc(numbers, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("by number: %q", numbers)
	}
}

// TestFold: all at once, one by keyboard, and by a link that leads to it.
func TestFold(t *testing.T) {
	b := open(t, "review", 1280)
	const open = `document.querySelectorAll("details[open]").length`
	all := of[int](b, `document.querySelectorAll("details").length`)
	b.run(chromedp.Click("#unfold"))
	b.eventually(fmt.Sprintf("%s === %d", open, all))
	b.run(chromedp.Click("#fold"))
	b.eventually(open + " === 0")
	b.run(chromedp.Focus("#finding-1 summary"), chromedp.KeyEvent("\r"))
	b.eventually(open + " === 1")
	b.run(chromedp.Click(`#findings td + th a[href="#finding-4"], #findings a[href="#finding-4"]`))
	b.eventually(`document.getElementById("finding-4").open`)
}

// copies clicks a button, and waits until it has said "Copied", which it takes back after two seconds.
func (b *tab) copies(button string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(fmt.Sprintf(`(() => {
		window.copied = false;
		const button = document.querySelector(%q);
		new MutationObserver(() => { window.copied ||= button.textContent === "Copied"; }).observe(button, {childList: true, characterData: true, subtree: true});
	})()`, button), nil), chromedp.Click(button))
	b.eventually("window.copied")
}

// TestCopy: a command is copied whole; advice has no button.
func TestCopy(t *testing.T) {
	b := open(t, "review", 1280)
	b.copies("#finding-1 .todo button")
	if n := of[int](b, `[...document.querySelectorAll(".todo")].filter((d) => d.querySelector("button") && !/^skopeo/.test(d.textContent)).length`); n > 0 {
		t.Errorf("%d pieces of advice have a button", n)
	}
}

// TestPrint: what is folded is printed, controls are not, and the paper is A4.
func TestPrint(t *testing.T) {
	for _, name := range []string{"review", "review-empty", "report", "rollout", "diagnosis", "release"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, name, 1280, emulation.SetEmulatedMedia().WithMedia("print"))
			if n := of[int](b, `[...document.querySelectorAll("button, .search, .contents")].filter((e) => e.getClientRects().length > 0).length`); n > 0 {
				t.Errorf("%d controls are printed", n)
			}
			if n := of[int](b, `[...document.querySelectorAll("details:not([open]) > :not(summary)")].filter((e) => e.getBoundingClientRect().height === 0).length`); n > 0 {
				t.Errorf("%d folded parts are not printed", n)
			}
			var pdf []byte
			b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
				pdf, _, err = page.PrintToPDF().WithPreferCSSPageSize(true).WithPrintBackground(true).Do(ctx)
				return err
			}))
			if !strings.HasPrefix(string(pdf), "%PDF-") || !strings.Contains(string(pdf), "/MediaBox [0 0 59") && !strings.Contains(string(pdf), "/MediaBox [0 0 594") {
				t.Errorf("no PDF of A4: %d bytes", len(pdf))
			}
		})
	}
}

// TestWithoutScript: all that is said is there, and no control that would do nothing.
func TestWithoutScript(t *testing.T) {
	b := open(t, "review", 1280, emulation.SetScriptExecutionDisabled(true))
	var text string
	b.run(chromedp.Text("main", &text, chromedp.ByQuery))
	for _, want := range []string{"ImageMissing", "skopeo copy", "worker-3", "mirror.example.com", "reporting"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not to be seen", want)
		}
	}
	if strings.Contains(text, "Search") {
		t.Error("there is a search that does nothing")
	}
}

// TestHostileText: nothing that others wrote has run or become an element.
func TestHostileText(t *testing.T) {
	for _, name := range []string{"review-hostile", "release-hostile", "177_hostile_reference"} {
		b := open(t, name, 1280)
		if n := of[int](b, `document.querySelectorAll("main script, main img, main style, main iframe").length`); n > 0 {
			t.Errorf("%s: %d elements are not ours", name, n)
		}
	}
}

// mostDiffers is the share of what a picture shows that may differ from the one in docs: versions of Chromium
// and of fonts draw letters otherwise, and a part that is missing is more.
const mostDiffers = 0.1

// TestScreenshots: the pictures that docs show are of these pages. -screenshots ../../docs/images makes them
// anew.
func TestScreenshots(t *testing.T) {
	for _, s := range []struct {
		page, file, clip string
		height           int64
	}{{"review", "report.png", "", 980}, {"review", "report-rollout.png", "#rollout", 0}, {"review", "report-flow.png", "#flow", 0}} {
		b := open(t, s.page, 1180)
		var data []byte
		if s.clip != "" {
			b.run(chromedp.Screenshot(s.clip, &data, chromedp.ByQuery))
		} else {
			b.run(chromedp.EmulateViewport(1180, s.height), chromedp.CaptureScreenshot(&data))
		}
		if len(data) > 150_000 {
			t.Errorf("%s has %d bytes", s.file, len(data))
		}
		if *screenshots != "" {
			if err := os.WriteFile(filepath.Join(*screenshots, s.file), data, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		shown, err := os.ReadFile(filepath.Join("..", "..", "docs", "images", s.file))
		if err != nil {
			t.Fatal(err)
		}
		share := differs(t, shown, data)
		if t.Logf("%s: %.3f differ", s.file, share); share > mostDiffers {
			t.Errorf("%s is of another page: %.0f %% of it differ; go test . -run TestScreenshots -screenshots ../../docs/images", s.file, 100*share)
		}
	}
}

// differs returns the share of the blocks of two pictures, of those that are not empty in both, which are of
// another shade: 1 where the sizes differ by more than a line of text.
func differs(t *testing.T, one, other []byte) float64 {
	t.Helper()
	a, b := blocks(t, one), blocks(t, other)
	if abs(len(a)-len(b)) > 1 || abs(len(a[0])-len(b[0])) > 1 {
		return 1
	}
	filled, unlike := 0, 0
	for y := range min(len(a), len(b)) {
		for x := range min(len(a[y]), len(b[y])) {
			if empty := 0.99; a[y][x] > empty && b[y][x] > empty {
				continue
			}
			filled++
			if math.Abs(a[y][x]-b[y][x]) > 0.08 {
				unlike++
			}
		}
	}
	return float64(unlike) / float64(max(1, filled))
}

// blocks returns how light the blocks of a picture are, from 0 to 1, by row and column. A block is as high
// as a line of text, so that it matters little where in it a letter stands.
func blocks(t *testing.T, data []byte) [][]float64 {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	const side = 24
	size := img.Bounds()
	rows := make([][]float64, size.Dy()/side)
	for y := range rows {
		rows[y] = make([]float64, size.Dx()/side)
		for x := range rows[y] {
			sum := 0.0
			for i := range side * side {
				sum += float64(color.Gray16Model.Convert(img.At(size.Min.X+x*side+i%side, size.Min.Y+y*side+i/side)).(color.Gray16).Y)
			}
			rows[y][x] = sum / (side * side * 0xffff)
		}
	}
	return rows
}

func abs(n int) int { return max(n, -n) }

// TestDiffers: the pictures in docs are alike to themselves, and not to each other or to one that lacks a part.
func TestDiffers(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", "images", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	page := read("report.png")
	if share := differs(t, page, page); share != 0 {
		t.Errorf("%.2f differ from themselves", share)
	}
	if share := differs(t, page, read("report-flow.png")); share != 1 {
		t.Errorf("%.2f differ from another section", share)
	}
	whole, err := png.Decode(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	without := image.NewRGBA(whole.Bounds())
	draw.Draw(without, whole.Bounds(), whole, image.Point{}, draw.Src)
	third := image.Rect(0, 0, whole.Bounds().Dx(), whole.Bounds().Dy()/3)
	draw.Draw(without, third, image.NewUniform(color.White), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, without); err != nil {
		t.Fatal(err)
	}
	if share := differs(t, page, b.Bytes()); share < mostDiffers {
		t.Errorf("without its first third, only %.2f differ", share)
	}
}
