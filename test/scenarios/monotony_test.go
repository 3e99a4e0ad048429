package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// A loss takes away what is known in a story: it changes the answers of registries, or the cluster.
type loss struct {
	name   string
	answer func(l mirrors.Location, f policy.Fact) policy.Fact
	known  func(*plan.Cluster)
}

func lossesOf(s *Scenario) []loss {
	all := []loss{
		{"the pull secret of the nodes", func(_ mirrors.Location, f policy.Fact) policy.Fact {
			f.AsNodes = false
			return f
		}, nil},
		{"all time", func(mirrors.Location, policy.Fact) policy.Fact { return policy.Fact{Detail: "no answer yet"} }, nil},
		{"how fresh misses are", func(_ mirrors.Location, f policy.Fact) policy.Fact {
			f.Recalled = f.Presence == policy.Absent
			return f
		}, nil},
		{"all nodes", nil, func(c *plan.Cluster) { c.Nodes = nil }},
		{"the rendered configs", nil, func(c *plan.Cluster) {
			c.Current = slices.Clone(c.Current)
			for i := range c.Current {
				c.Current[i].Routes = nil
			}
		}},
		{"whether all pods are known", nil, func(c *plan.Cluster) { c.PodsListed = nil }},
		{"which namespaces end", nil, func(c *plan.Cluster) { c.EndingNamespaces = nil }},
		{"where pods may run, whether they pull, and what their nodes say", nil, func(c *plan.Cluster) {
			var images []policy.Image
			for img := range c.Images.All() {
				img.Consumers = slices.Clone(img.Consumers)
				for i := range img.Consumers {
					u := &img.Consumers[i]
					u.Placement, u.NeverPulls, u.Ending, u.NeverRan = nil, false, false, false
				}
				images = append(images, img)
			}
			c.Images = policy.NewImages(images...)
		}},
	}
	for _, host := range s.Hosts() {
		for name, instead := range map[string]policy.Fact{
			"is out of reach": {Presence: policy.Unreachable, AsNodes: true}, "shows a page": {Presence: policy.Mismatch, AsNodes: true, Detail: "a page"},
			"denies strangers": {Presence: policy.Denied}, "hides from strangers": {Presence: policy.Absent}, "is late": {Detail: "no answer yet"},
			"hides a part": {Presence: policy.Inconclusive, AsNodes: true},
		} {
			all = append(all, loss{host + " " + name, func(l mirrors.Location, f policy.Fact) policy.Fact {
				if strings.HasPrefix(l.Ref, host+"/") {
					return instead
				}
				return f
			}, nil})
		}
	}
	return all
}

// judge returns the pure policy's verdict on the images of a story, with what a loss leaves.
func (s *told) judge(l loss) policy.Verdict {
	known := s.known
	if l.known != nil {
		l.known(&known)
	}
	plan := plan.NewOutline(s.change, known, s.Settings.For(s.As)).Plan()
	facts := policy.Facts{}
	for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
		for _, at := range lookups {
			facts[at] = s.at(at)
			if l.answer != nil {
				facts[at] = new(l.answer(at, *facts[at]))
			}
		}
	}
	return rules.Decide(plan, facts)
}

// TestLessKnownInStories: in no story is a denied change admitted by what is taken away of what is known,
// but for the exceptions in docs/truth.md.
func TestLessKnownInStories(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	asked, denied, excepted := 0, 0, map[string]int{}
	for _, s := range all {
		if _, invalid := s.Invalid(); invalid {
			continue
		}
		story := tell(t, &s)
		full := story.judge(loss{})
		if full.Allowed || !slices.ContainsFunc(full.Findings, func(f policy.Finding) bool { return f.Severity == policy.Deny && f.Image.Ref != "" }) {
			continue // or refused whatever is known of images
		}
		denied++
		for _, l := range lossesOf(&s) {
			asked++
			less := story.judge(l)
			if !less.Allowed {
				continue
			}
			if name := exceptionIn(less); name != "" {
				excepted[name]++
				continue
			}
			t.Errorf("%s: admitted without %s\n%s\n%s", s.Name, l.name, words.Answer(full, "X"), words.Answer(less, "X"))
		}
	}
	t.Logf("%d stories are denied, asked %d times with less known; exceptions: %v", denied, asked, excepted)
}

func exceptionIn(less policy.Verdict) string {
	for _, f := range less.Findings {
		switch {
		case f.Rule == policy.UnverifiedInFront:
			return "a place in front that could not be asked"
		case f.Rule == policy.PlatformMissing && f.Severity == policy.Warn && !(settings.Settings{}).IsProtected(f.Image):
			return "the source itself is the image"
		}
	}
	return ""
}
