// Mco-oracle answers questions by calling the Machine Config Operator's own code. Each line
// of its standard input is a question, as JSON; each line of its standard output is the
// answer to one of them, in their order.
//
//	mco-oracle -templates FOLDER
//
// The guard's tests cannot call that code themselves: it needs other versions of the
// libraries that the guard is built with, and it is the guard as it is shipped that is to
// be compared.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	opv1 "github.com/openshift/api/operator/v1"
	"k8s.io/klog/v2"

	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/mco/decision"
)

// A question has one of these.
type question struct {
	Decide *decide           `json:"decide,omitempty"`
	Update *update           `json:"update,omitempty"`
	Render *decision.Objects `json:"render,omitempty"`
	// Read has the Ignition configuration of a MachineConfig; Rendered gets its files.
	Read json.RawMessage `json:"read,omitempty"`
}

// update is decide for the Ignition configurations of two MachineConfigs.
type update struct {
	Before json.RawMessage                 `json:"before"`
	After  json.RawMessage                 `json:"after"`
	Policy opv1.NodeDisruptionPolicyConfig `json:"policy"`
}

// decide asks what a node does whose files change.
type decide struct {
	Before map[string][]byte               `json:"before"`
	After  map[string][]byte               `json:"after"`
	Policy opv1.NodeDisruptionPolicyConfig `json:"policy"`
}

type answer struct {
	Decided  *decided `json:"decided,omitempty"`
	Rendered *files   `json:"rendered,omitempty"`
	// Bootstrap is Rendered by RunImageBootstrap.
	Bootstrap *files `json:"bootstrap,omitempty"`
}

type decided struct {
	Changed []string                                `json:"changed"`
	Actions []opv1.NodeDisruptionPolicyStatusAction `json:"actions"`
	Drain   bool                                    `json:"drain"`
	Error   string                                  `json:"error,omitempty"`
}

type files struct {
	Files        map[string][]byte `json:"files"`
	DroppedLists string            `json:"droppedLists,omitempty"`
	Error        string            `json:"error,omitempty"`
}

func main() {
	templates := flag.String("templates", "", "the folder templates of the Machine Config Operator")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	if err := start(*templates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start copies those templates without which MCO makes no registries.conf and no policy.json: MCO renders
// all there are each time it is asked.
func start(templates string) error {
	few, err := os.MkdirTemp("", "mco-oracle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(few) //nolint:errcheck // it is the system's folder for such
	for _, needed := range []string{
		"common/_base/files/container-storage.yaml",
		"worker/01-worker-container-runtime/_base/files/container-registries.yaml",
		"worker/01-worker-container-runtime/_base/files/policy.yaml",
	} {
		if err := copyFile(filepath.Join(few, needed), filepath.Join(templates, needed)); err != nil {
			return err
		}
	}
	return run(os.Stdin, os.Stdout, few)
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

func run(in io.Reader, out io.Writer, templates string) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	buffered := bufio.NewWriterSize(out, 1<<20)
	answers := json.NewEncoder(buffered)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return buffered.Flush()
		} else if err != nil {
			return err
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		if err := answers.Encode(reply(q, templates)); err != nil {
			return err
		}
		if lines.Buffered() == 0 { // the caller may wait for this answer
			if err := buffered.Flush(); err != nil {
				return err
			}
		}
	}
}

func reply(q question, templates string) answer {
	var a answer
	if q.Decide != nil {
		a.Decided = q.Decide.reply()
	}
	if q.Update != nil {
		a.Decided = q.Update.reply()
	}
	if q.Read != nil {
		a.Rendered = calm(func() (decision.Rendering, error) {
			read, err := decision.Read(q.Read)
			return decision.Rendering{Files: read}, err
		})
	}
	if q.Render != nil {
		a.Rendered = calm(func() (decision.Rendering, error) { return decision.Render(templates, *q.Render) })
		a.Bootstrap = calm(func() (decision.Rendering, error) {
			made, err := decision.Bootstrap(templates, *q.Render)
			return decision.Rendering{Files: made}, err
		})
	}
	return a
}

func (d decide) reply() *decided {
	return decidedBy(decision.Of(decision.Config(d.Before), decision.Config(d.After), d.Policy))
}

func (u update) reply() *decided {
	return decidedBy(decision.OfRaw(u.Before, u.After, u.Policy))
}

func decidedBy(made decision.Decision, err error) *decided {
	return &decided{Changed: made.Changed, Actions: made.Actions, Drain: made.Drain, Error: text(err)}
}

// calm recovers from a panic: MCO would crash there, and start anew.
func calm(render func() (decision.Rendering, error)) (made *files) {
	defer func() {
		if p := recover(); p != nil {
			made = &files{Error: fmt.Sprint("panic: ", p)}
		}
	}()
	r, err := render()
	return &files{Files: r.Files, DroppedLists: r.DroppedLists, Error: text(err)}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
