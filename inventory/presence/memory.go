package presence

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
	// inherited is set for what an earlier process has learned.
	inherited bool
}

func newMemory(most int) *memory {
	return &memory{most: most, facts: map[mirrors.Location]*list.Element{}, byAge: list.New()}
}

// put remembers learned in the place of what was known about its location.
func (m *memory) put(learned memo) {
	if e, ok := m.facts[learned.location]; ok {
		learned.location = e.Value.(*memo).location
		e.Value = &learned
		m.byAge.MoveToBack(e)
		return
	}
	// A reference may be a part of a whole object that it would keep in memory.
	learned.location.Ref = strings.Clone(learned.location.Ref)
	m.facts[learned.location] = m.byAge.PushBack(&learned)
	for m.byAge.Len() > m.most {
		oldest := m.byAge.Remove(m.byAge.Front()).(*memo)
		delete(m.facts, oldest.location)
	}
}

func (m *memory) get(l mirrors.Location) (memo, bool) {
	e, ok := m.facts[l]
	if !ok {
		return memo{}, false
	}
	return *e.Value.(*memo), true
}
