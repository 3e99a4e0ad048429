package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is the kind of an event.
type Kind string

// The kinds.
const (
	Taken      Kind = "taken"       // the daemon begins to work towards another config
	DrainAsked Kind = "drain asked" // the daemon asks the drain controller
	Evicted    Kind = "evicted"     // the API server let a pod go
	Refused    Kind = "refused"     // the API server refused an eviction, for a budget
	Placed     Kind = "placed"      // the scheduler sent a pod to a node
	Runs       Kind = "runs"        // a pod's images were pulled, or were there
	PullFailed Kind = "cannot pull" // they could not be pulled; told once for each pod
	Written    Kind = "written"     // the node has its new files
	Rebooted   Kind = "rebooted"    // the node went down and came back
	Done       Kind = "done"        // the daemon has reported its new config
	Degraded   Kind = "degraded"    // the daemon has given up
	Changed    Kind = "changed"     // the test made a change
	Rendered   Kind = "rendered"    // a pool is to have another config
	Trouble    Kind = "trouble"     // the stage itself failed at something
)

// An Event is something that happened in a rollout.
type Event struct {
	Time time.Time
	Kind Kind
	Node string
	// Pod is "namespace/name" where the event is about one, and App its label app.
	Pod, App string
	// Config is the rendered config that a daemon is at.
	Config string
	// Text says more: the image and the error of a pull.
	Text string
}

// String is for people who read a timeline.
func (e Event) String() string {
	words := []string{string(e.Kind)}
	for _, word := range []string{e.Pod, e.Text} {
		if word != "" {
			words = append(words, word)
		}
	}
	return fmt.Sprintf("%-10s %s", e.Node, strings.Join(words, " "))
}

// A timeline collects events: those of the nodes as they happen, and evictions by the API
// server's audit log. It is safe for concurrent use.
type timeline struct {
	mu     sync.Mutex
	events []Event
	audit  *os.File
	rest   []byte // of the log: a line without its end
}

func (l *timeline) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	l.events = append(l.events, e)
}

// all returns the events by time.
func (l *timeline) all() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := slices.Clone(l.events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return events
}

// auditPolicy is that of a log of evictions, with their outcome.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods/eviction]}]}
- {level: None}
`

// readAudit adds the evictions that have been logged since it was last called. Where says
// of a pod ("namespace/name") on which node it is, and its label app.
func (l *timeline) readAudit(where func(pod string) (node, app string)) error {
	l.mu.Lock()
	data, err := io.ReadAll(l.audit)
	data = append(l.rest, data...)
	end := bytes.LastIndexByte(data, '\n') + 1
	l.rest = slices.Clone(data[end:])
	l.mu.Unlock()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data[:end]) {
		var entry struct {
			ObjectRef      struct{ Namespace, Name string }
			ResponseStatus struct{ Code int }
			StageTimestamp metav1.MicroTime
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return err
		}
		e := Event{Time: entry.StageTimestamp.Time, Pod: entry.ObjectRef.Namespace + "/" + entry.ObjectRef.Name}
		switch entry.ResponseStatus.Code {
		case 201:
			e.Kind = Evicted
		case 429:
			e.Kind = Refused
		default: // the pod was gone
			continue
		}
		e.Node, e.App = where(e.Pod)
		l.add(e)
	}
	return nil
}
