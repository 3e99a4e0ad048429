package truth

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A verdict is what the guard says a pull will do.
type verdict struct {
	outcome evidence.Outcome
	// from is the place that nodes would take the image from, if the outcome is
	// Works.
	from mirrors.Location
	// sparse is set if that place lacks the node's part of an index, or the index has none
	// for it: the rule PlatformMissing.
	sparse bool
	// places are the repositories that the guard looked at.
	places []string
}

// works reports whether the guard says that the image can be pulled.
func (v verdict) works() bool { return v.outcome.Found() && !v.sparse }

// A guard asks the registries of one scenario, each place once.
type guard struct {
	scenario *scenario
	client   *registry.Client
	facts    policy.Facts
}

func newGuard(w *world, s *scenario) *guard { return newGuardOf(w, s, []string{"linux/" + s.arch}) }

// newGuardOf returns a guard for a cluster whose nodes have these platforms.
func newGuardOf(w *world, s *scenario, platforms []string) *guard {
	credentials, err := pullsecret.Parse(s.pullSecret)
	if err != nil {
		panic(err) // newScenario writes it
	}
	o := wire.Options{
		Credentials: credentials, RootCAs: pool(w.ca), HostRootCAs: map[string]*x509.CertPool{}, AllowLoopback: true,
		Timeout: patience, DialTimeout: patience, // a busy machine is not a dead registry
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	for _, h := range s.hosts {
		if h.manner == private {
			o.HostRootCAs[h.addr] = pool(w.ca, w.private)
		}
	}
	return &guard{scenario: s, client: registry.NewClient(o, func() []string { return platforms }), facts: policy.Facts{}}
}

// judge says what a pull of the scenario's image does with r.
func (g *guard) judge(ctx context.Context, r reading) verdict {
	table, err := mirrors.ResolveUnchecked(r.set(g.scenario.set))
	if err != nil {
		return verdict{outcome: evidence.Fails}
	}
	route, err := table.Route(g.scenario.image, "")
	if err != nil {
		return verdict{outcome: evidence.Fails}
	}
	route.Sources = r.sources(route.Sources)
	facts := policy.Facts{}
	v := verdict{}
	for _, l := range route.Open() {
		facts[l] = new(r.fact(*g.look(ctx, l)))
		v.places = append(v.places, repositoryOf(l.Ref))
	}
	v.outcome = evidence.Pull(route, facts)
	if v.outcome.Found() {
		place, fact, _ := evidence.Served(route, facts)
		// A single image for another platform is pulled all the same; it does not run.
		v.from, v.sparse = place, len(fact.Missing) > 0 || len(fact.Children) > 0 && len(fact.Lacks) > 0
	}
	return v
}

func (g *guard) look(ctx context.Context, l mirrors.Location) *policy.Fact {
	fact, known := g.facts[l]
	if !known {
		asked := l
		if g.scenario.blobs {
			asked.Depth = mirrors.DepthBlobs
		}
		fact = new(g.client.Probe(ctx, asked))
		g.facts[l] = fact
	}
	return fact
}

// A reading is one interpretation of a configuration and of registries' answers.
type reading struct {
	name    string
	set     func(mirrors.Set) mirrors.Set
	sources func([]mirrors.PullSource) []mirrors.PullSource
	fact    func(policy.Fact) policy.Fact
}

// plain is the guard's own reading.
func plain(name string) reading {
	return reading{
		name:    name,
		set:     func(s mirrors.Set) mirrors.Set { return s },
		sources: func(p []mirrors.PullSource) []mirrors.PullSource { return p },
		fact:    func(f policy.Fact) policy.Fact { return f },
	}
}

// misreadings are mistakes that a guard could make. The test must notice each.
func misreadings() []reading {
	set := func(name string, change func(*mirrors.Set)) reading {
		r := plain(name)
		r.set = func(s mirrors.Set) mirrors.Set {
			change(&s)
			return s
		}
		return r
	}
	sources := func(name string, change func(*mirrors.PullSource)) reading {
		r := plain(name)
		r.sources = func(p []mirrors.PullSource) []mirrors.PullSource {
			p = slices.Clone(p)
			for i := range p {
				change(&p[i])
			}
			return p
		}
		return r
	}
	fact := func(name string, change func(*policy.Fact)) reading {
		r := plain(name)
		r.fact = func(f policy.Fact) policy.Fact {
			change(&f)
			return f
		}
		return r
	}
	onlyTheFirst := plain("only the first place is tried")
	onlyTheFirst.sources = func(p []mirrors.PullSource) []mirrors.PullSource { return p[:min(1, len(p))] }
	return []reading{
		set("the change is not there", func(s *mirrors.Set) { s.Objects = nil }),
		set("tag mirrors are not there", without(mirrors.TagMirrorSetGVK.Kind)),
		set("digest mirrors are not there", without(mirrors.DigestMirrorSetGVK.Kind)),
		set("the lists of image.config are not there", func(s *mirrors.Set) {
			s.Registries.BlockedRegistries, s.Registries.AllowedRegistries, s.Registries.InsecureRegistries = nil, nil, nil
		}),
		onlyTheFirst,
		sources("a block does not count", func(p *mirrors.PullSource) { p.Blocked = false }),
		sources("the source is not asked", func(p *mirrors.PullSource) { p.Blocked = p.Blocked || !p.Mirror }),
		sources("nothing is insecure", func(p *mirrors.PullSource) { p.Insecure = false }),
		fact("there is a way back from a mismatch", func(f *policy.Fact) {
			if f.Presence == policy.Mismatch {
				f.Presence = policy.Absent
			}
		}),
		fact("there is a way back from a copy without layers", func(f *policy.Fact) {
			if f.Presence == policy.Incomplete {
				f.Presence = policy.Absent
			}
		}),
		fact("an index is always complete", func(f *policy.Fact) { f.Missing, f.Lacks = nil, nil }),
		fact("an index need not list an image", func(f *policy.Fact) {
			if strings.Contains(f.Detail, "lists no images") {
				f.Presence = policy.Present
			}
		}),
		fact("whoever wants credentials gets them", func(f *policy.Fact) {
			if f.Presence == policy.Denied {
				f.Presence = policy.Present
			}
		}),
		fact("whoever does not answer has it", func(f *policy.Fact) {
			if f.Presence == policy.Unreachable {
				f.Presence = policy.Present
			}
		}),
		fact("nobody has it", func(f *policy.Fact) { f.Presence = policy.Absent }),
	}
}

func without(kind string) func(*mirrors.Set) {
	return func(s *mirrors.Set) {
		s.Objects = slices.DeleteFunc(slices.Clone(s.Objects), func(o mirrors.Object) bool { return mirrors.KindOf(o) == kind })
	}
}

// hostOf returns the registry that a reference names.
func hostOf(ref string) string {
	h, _, _ := strings.Cut(ref, "/")
	return h
}
