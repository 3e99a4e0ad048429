package registry

import (
	"cmp"
	"slices"
	"time"
)

// Traffic counts how one registry has answered requests about images.
type Traffic struct {
	// Host is the registry in one spelling ("quay.io", "mirror.example.com:8443").
	Host string
	// Answered are answers, of whatever content; Throttled those that say to ask more slowly (429),
	// Overloaded those of a registry in trouble (5xx, or a connection that was cut), and Unanswered
	// requests without any.
	Answered, Throttled, Overloaded, Unanswered int
	// Usual is how long an answer has taken of late, 0 before the first.
	Usual time.Duration
	// AtOnce is how many requests at once, at most Most, it was found to take.
	AtOnce, Most int
}

// Traffic returns that with the registries that were asked, by host, since the client was made.
func (c *Client) Traffic() []Traffic {
	c.paces.mu.Lock()
	defer c.paces.mu.Unlock()
	var all []Traffic
	for host, p := range c.paces.byHost {
		if t := p.traffic(host); t.Answered+t.Throttled+t.Overloaded+t.Unanswered > 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Traffic) int { return cmp.Compare(a.Host, b.Host) })
	return all
}

func (p *pace) traffic(host string) Traffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Traffic{
		Host: host, Answered: p.counts[fine], Throttled: p.counts[throttled], Overloaded: p.counts[overloaded], Unanswered: p.counts[broken],
		Usual: p.smoothed, AtOnce: max(1, int(p.limit)), Most: p.max,
	}
}
