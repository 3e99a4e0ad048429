package registry

import (
	"container/list"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A memory holds a bounded number of facts; the oldest go first. It is not safe for
// concurrent use.
type memory struct {
	most  int
	facts map[mirrors.Location]*list.Element
	byAge *list.List // of *memo, the oldest in front
}

// A memo is a fact that is remembered.
type memo struct {
	location   mirrors.Location
	fact       policy.Fact
	learned    time.Time
	generation uint64
}

func newMemory(most int) *memory {
	return &memory{most: most, facts: map[mirrors.Location]*list.Element{}, byAge: list.New()}
}

// put remembers m in the place of what was known about its location.
func (s *memory) put(m memo) {
	if e, ok := s.facts[m.location]; ok {
		m.location = e.Value.(*memo).location
		e.Value = &m
		s.byAge.MoveToBack(e)
		return
	}
	// A reference may be a part of a whole object that it would keep in memory.
	m.location.Ref = strings.Clone(m.location.Ref)
	s.facts[m.location] = s.byAge.PushBack(&m)
	for s.byAge.Len() > s.most {
		oldest := s.byAge.Remove(s.byAge.Front()).(*memo)
		delete(s.facts, oldest.location)
	}
}

func (s *memory) get(l mirrors.Location) (memo, bool) {
	e, ok := s.facts[l]
	if !ok {
		return memo{}, false
	}
	return *e.Value.(*memo), true
}
