package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// A watching is `mirrorset-guard rollout watch --wait-for`, under way.
type watching struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   output
	err   bytes.Buffer // to be read after it has ended
	ended chan error
}

// output is the output of a program so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	some chan struct{} // closed once there is something
}

// Write takes what the program writes.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() == 0 {
		close(o.some)
	}
	return o.text.Write(text)
}

// startWatch waits for the objects of a manifest, which need not be in the cluster yet. It returns
// once the watch has told which pools there are: of what happens from then on it misses nothing. A
// race in it is an end with another exit code than 0.
func startWatch(ctx context.Context, t *testing.T, guard, kubeconfig, manifest string) *watching {
	t.Helper()
	w := &watching{t: t, out: output{some: make(chan struct{})}, ended: make(chan error, 1)}
	w.cmd = exec.CommandContext(ctx, guard, "rollout", "watch", "--wait-for", "-", "-o", "json", "--kubeconfig", kubeconfig)
	w.cmd.Env = append(w.cmd.Environ(), "GORACE="+cluster.GORACE)
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = strings.NewReader(manifest), &w.out, &w.err
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- w.cmd.Wait() }()
	select {
	case <-w.out.some:
	case err := <-w.ended:
		t.Fatalf("rollout watch: %v\n%s", err, w.err.String())
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return w
}

// end waits for its end, which is to be a good one, and returns what it told.
func (w *watching) end(ctx context.Context) []progress.Event {
	w.t.Helper()
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Fatalf("rollout watch: %v\n%s%s", err, w.out.text.String(), w.err.String())
		}
	case <-ctx.Done():
		w.t.Fatal(ctx.Err())
	}
	return w.soFar()
}

// soFar returns what it has told.
func (w *watching) soFar() []progress.Event {
	w.t.Helper()
	w.out.mu.Lock()
	text := bytes.Clone(w.out.text.Bytes())
	w.out.mu.Unlock()
	var told []progress.Event
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		var e v1alpha1.RolloutEvent
		if err := lines.Decode(&e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // it writes the next one
			return told
		} else if err != nil {
			w.t.Fatal(err)
		}
		counts := progress.Counts{}
		for stage, n := range e.Nodes {
			counts[progress.Stage(stage)] = n
		}
		told = append(told, progress.Event{
			Time: e.Time, Type: progress.Type(e.Type), Pool: e.Pool, Node: e.Node, Message: e.Message, Config: e.Config, Objects: e.Objects,
			Counts: counts, Seconds: e.Seconds,
		})
	}
}
