package truth

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/ports"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A world holds what all scenarios share.
type world struct {
	seed uint64
	port string
	// ca is trusted everywhere, private at its hosts, unknown nowhere.
	ca, private, unknown *authority
	corpus               *corpus
	tokens               string // a token server without TLS
	runtimes             []runtime
}

// defaultSeed is as good as any. TRUTH_SEED sets another one.
const defaultSeed = 20260810

// usual is how many scenarios there are: many in a campaign, as TRUTH_SCENARIOS says where it is set.
const usual, many = 400, 5000

// TestTruth predicts the pull of each scenario, and then pulls. To rerun a scenario that
// failed, use its number: -run 'TestTruth/scenarios/0042'.
func TestTruth(t *testing.T) {
	w := newWorld(t)
	count := number(t, "TRUTH_SCENARIOS", campaign.Times(usual, many))
	t.Logf("seed %d, %d scenarios", w.seed, count)
	var l ledger
	t.Run("scenarios", func(t *testing.T) {
		for i := range count {
			t.Run(title(i), func(t *testing.T) {
				t.Parallel()
				l.add(w.play(t, i))
			})
		}
	})
	t.Run("changes", w.testChanges)
	t.Run("signed", w.testSigned)
	t.Log(l.String())
	if len(l.plays) == count && count >= usual {
		l.check(t)
		w.checkExceptions(t, &l)
	}
}

// title names scenario i: by its number, and its plot if it has one.
func title(i int) string {
	if plots := plots(); i < len(plots) {
		return fmt.Sprintf("%04d %s", i, plots[i].name)
	}
	return fmt.Sprintf("%04d", i)
}

func number(t *testing.T, variable string, fallback int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(fallback)))
	if err != nil || n < 1 {
		t.Fatalf("%s: want a number from 1 on", variable)
	}
	return n
}

func newWorld(t *testing.T) *world {
	t.Helper()
	registries.Need(t)
	w := &world{
		seed: uint64(number(t, "TRUTH_SEED", defaultSeed)),
		port: freePort(t),
		ca:   newAuthority(t, "known"), private: newAuthority(t, "private"), unknown: newAuthority(t, "unknown"),
	}
	w.findRuntimes(t)
	w.corpus = newCorpus(t)
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { grant(w, r, false) }))
	t.Cleanup(tokens.Close)
	w.tokens = tokens.Listener.Addr().String()
	return w
}

// findRuntimes returns the runtimes, and skips the test if there are none.
func (w *world) findRuntimes(t *testing.T) {
	t.Helper()
	packaged, noSkopeo := skopeo()
	built, noPuller := puller(t.TempDir())
	if noSkopeo != nil && noPuller != nil {
		skip.Now(t, fmt.Sprintf("there is no runtime to compare with: %v; %v", noSkopeo, noPuller))
	}
	if noSkopeo == nil {
		w.runtimes = append(w.runtimes, packaged)
	} else {
		skip.Part(t, fmt.Sprint("without skopeo: ", noSkopeo))
	}
	if noPuller == nil {
		w.runtimes = append(w.runtimes, built)
	} else {
		skip.Part(t, fmt.Sprint("without containers/image: ", noPuller))
	}
}

// freePort returns a port that is free at every host's own address.
func freePort(t *testing.T) string {
	t.Helper()
	addresses, err := ports.Free("127.99.0.1", 1)
	if err != nil {
		skip.Now(t, fmt.Errorf("hosts need addresses of their own in 127.0.0.0/8, which this system does not give: %w", err))
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A play is the result of a scenario.
type play struct {
	scenario *scenario
	verdict  verdict
	traits   []string
	results  map[string]result // by runtime
	// excused are the exceptions that account for a difference, by runtime.
	excused map[string]exception
	// caught are the misreadings that a runtime proves wrong.
	caught []string
}

// play judges scenario i, lets the runtimes pull, and compares.
func (w *world) play(t *testing.T, i int) play {
	s := newScenario(w, i)
	for _, h := range s.hosts {
		h.start(t, w)
	}
	g := newGuard(w, s)
	defer g.client.Close()
	p := play{scenario: s, verdict: g.judge(t.Context(), plain("the guard")), results: map[string]result{}, excused: map[string]exception{}}
	p.traits = append(s.traits, g.met()...)
	others := map[string]verdict{}
	for _, r := range misreadings() {
		others[r.name] = g.judge(t.Context(), r)
	}
	n := newNode(t, w, s)
	for _, r := range w.runtimes {
		got, ok := r.pull(t, s, n)
		if !ok {
			continue
		}
		p.results[r.name] = got
		p.compare(t, r.name, got)
		for name, v := range others {
			if differs(v, got) && !differs(p.verdict, got) && !slices.Contains(p.caught, name) {
				p.caught = append(p.caught, name)
			}
		}
	}
	return p
}

// met returns traits of the places that the guard looked at.
func (g *guard) met() []string {
	seen := map[string]bool{}
	route, err := g.scenario.table.Route(g.scenario.image, "")
	if err != nil {
		return nil
	}
	for _, l := range route.Open() {
		if h, _ := g.scenario.find(repositoryOf(l.Ref)); h != nil {
			seen["host: "+string(h.manner)] = true
			seen["door: "+string(h.door)] = true
			seen["place: "+string(g.scenario.stateAt(l.Ref))] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// differs reports whether a runtime proves v wrong.
func differs(v verdict, got result) bool {
	return v.works() != got.pulled || got.pulled && repositoryOf(v.from.Ref) != got.from
}

func (p *play) compare(t *testing.T, name string, got result) {
	t.Helper()
	if !differs(p.verdict, got) {
		return
	}
	for _, e := range slices.Concat(exceptions, faults) {
		if e.covers(p.scenario, p.verdict, got) {
			p.excused[name] = e
			return
		}
	}
	t.Errorf("the guard says %s\n%s: pulled %v, last asked %q\n%s\n%s", p.verdict, name, got.pulled, got.from, got.says, p.scenario)
}

func (v verdict) String() string {
	word := map[bool]string{true: "it can be pulled", false: "it cannot be pulled"}[v.works()]
	return fmt.Sprintf("%s (outcome %d, from %+v, sparse %v)", word, v.outcome, v.from, v.sparse)
}

// A ledger sums up the plays.
type ledger struct {
	mu    sync.Mutex
	plays []play
}

func (l *ledger) add(p play) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plays = append(l.plays, p)
}

// check reports what would make the comparison worthless: too few pulls of one sort, or
// a mistake that would have gone unnoticed.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	pulled := 0
	caught := map[string]int{}
	for _, p := range l.plays {
		if p.verdict.works() {
			pulled++
		}
		for _, name := range p.caught {
			caught[name]++
		}
	}
	if share := 100 * pulled / len(l.plays); share < 25 || share > 75 {
		t.Errorf("%d %% of the images can be pulled, want a quarter to three quarters", share)
	}
	for _, r := range misreadings() {
		if caught[r.name] == 0 {
			t.Errorf("no scenario shows that it is wrong to think that %s", r.name)
		}
	}
}

// checkExceptions reports exceptions that no scenario needs: each of them has a plot.
func (w *world) checkExceptions(t *testing.T, l *ledger) {
	t.Helper()
	if len(w.runtimes) < 2 {
		return // short names are only for one of them
	}
	needed := map[string]bool{}
	for _, p := range l.plays {
		for _, e := range p.excused {
			needed[e.name] = true
		}
	}
	for _, e := range slices.Concat(exceptions, faults) {
		if !needed[e.name] {
			t.Errorf("no scenario needs the exception %q any more; take it off the list and out of docs/truth.md", e.name)
		}
	}
}

// String says how many scenarios there were of each sort.
func (l *ledger) String() string {
	type count struct{ all, pulled int }
	traits, compared := map[string]*count{}, map[string]*count{}
	excused, caught := map[string]int{}, map[string]int{}
	add := func(in map[string]*count, key string, pulled bool) {
		if in[key] == nil {
			in[key] = &count{}
		}
		in[key].all++
		if pulled {
			in[key].pulled++
		}
	}
	for _, p := range l.plays {
		for _, trait := range append(p.traits, "all") {
			add(traits, trait, p.verdict.works())
		}
		for name, got := range p.results {
			add(compared, name, got.pulled)
		}
		for name, e := range p.excused {
			excused[e.name+", "+name]++
		}
		for _, name := range p.caught {
			caught[name]++
		}
	}
	var b strings.Builder
	b.WriteString("what was compared\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, table := range []map[string]*count{compared, traits} {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			c := table[key]
			fmt.Fprintf(w, "%d\t%d pulled\t%d not\t  %s\n", c.all, c.pulled, c.all-c.pulled, key)
		}
	}
	w.Flush() //nolint:errcheck // a strings.Builder takes everything
	for _, table := range []struct {
		title string
		of    map[string]int
	}{{"exceptions", excused}, {"scenarios that show a mistake", caught}} {
		fmt.Fprintf(&b, "%s\n", table.title)
		for _, key := range slices.Sorted(maps.Keys(table.of)) {
			fmt.Fprintf(&b, "%6d  %s\n", table.of[key], key)
		}
	}
	return b.String()
}
