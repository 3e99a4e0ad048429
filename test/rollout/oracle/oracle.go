// Package oracle asks the Machine Config Operator's own code what it would do. The code
// runs as a process (mco/cmd/mco-oracle), since it needs other libraries than the guard.
package oracle

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// An Oracle is a running process. It is safe for concurrent use.
type Oracle struct {
	mu        sync.Mutex
	questions io.WriteCloser
	answers   *json.Decoder
}

// A Question has one of these.
type Question struct {
	Decide *Decide  `json:"decide,omitempty"`
	Update *Update  `json:"update,omitempty"`
	Render *Objects `json:"render,omitempty"`
	// Read has the Ignition configuration of a MachineConfig; Rendered gets its files.
	Read json.RawMessage `json:"read,omitempty"`
}

// Update is Decide for the Ignition configurations of two MachineConfigs.
type Update struct {
	Before json.RawMessage                       `json:"before"`
	After  json.RawMessage                       `json:"after"`
	Policy operatorv1.NodeDisruptionPolicyConfig `json:"policy"`
}

// Decide asks what a node does whose files change, by their paths. Policy is the spec of
// MachineConfiguration cluster.
type Decide struct {
	Before map[string][]byte                     `json:"before"`
	After  map[string][]byte                     `json:"after"`
	Policy operatorv1.NodeDisruptionPolicyConfig `json:"policy"`
}

// Objects asks which files these come to. Release is the release image of the cluster.
type Objects struct {
	Tags              []*configv1.ImageTagMirrorSet                `json:"tags,omitempty"`
	Digests           []*configv1.ImageDigestMirrorSet             `json:"digests,omitempty"`
	Legacy            []*operatorv1alpha1.ImageContentSourcePolicy `json:"legacy,omitempty"`
	ClusterPolicies   []*configv1.ClusterImagePolicy               `json:"clusterPolicies,omitempty"`
	NamespacePolicies []*configv1.ImagePolicy                      `json:"namespacePolicies,omitempty"`
	Image             configv1.Image                               `json:"image"`
	Release           string                                       `json:"release"`
}

// An Answer has what the Question asked for.
type Answer struct {
	Decided *Decided `json:"decided"`
	// Rendered is what the running controller makes of Objects, Bootstrap what the first
	// configuration of a new cluster has of them.
	Rendered  *Files `json:"rendered"`
	Bootstrap *Files `json:"bootstrap"`
}

// Decided is what a node does. Changed and Actions are in no order.
type Decided struct {
	Changed []string                                      `json:"changed"`
	Actions []operatorv1.NodeDisruptionPolicyStatusAction `json:"actions"`
	Drain   bool                                          `json:"drain"`
	Error   string                                        `json:"error"`
}

// Files are those of 99-worker-generated-registries by their paths, or the error for which
// there are none.
type Files struct {
	Files map[string][]byte `json:"files"`
	// DroppedLists says why blockedRegistries and allowedRegistries are not in them, "" if
	// they are. MCO logs it and goes on.
	DroppedLists string `json:"droppedLists"`
	Error        string `json:"error"`
}

// New starts an oracle that ends with the test. The test is skipped where assets has not
// run.
func New(t testing.TB) *Oracle {
	t.Helper()
	dir := filepath.Join(repo.Root(), "bin", "rollout")
	program := filepath.Join(dir, "mco-oracle")
	if _, err := os.Stat(program); err != nil {
		skip.Now(t, "mco-oracle is not in place: run test/rollout/assets (make rollout-assets)")
	}
	cmd := exec.Command(program, "-templates", filepath.Join(dir, "templates"))
	cmd.Stderr = os.Stderr
	questions, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(questions.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return &Oracle{questions: questions, answers: json.NewDecoder(bufio.NewReaderSize(answers, 1<<20))}
}

// Ask returns the answers to the questions, in their order.
func (o *Oracle) Ask(questions ...Question) ([]Answer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var (
		asking sync.WaitGroup
		asked  error
	)
	asking.Go(func() { // while answers are read: a pipe holds few of either
		w := bufio.NewWriterSize(o.questions, 1<<20)
		encoder := json.NewEncoder(w)
		for _, q := range questions {
			if asked = encoder.Encode(q); asked != nil {
				return
			}
		}
		asked = w.Flush()
	})
	answers := make([]Answer, len(questions))
	for i := range answers {
		if err := o.answers.Decode(&answers[i]); err != nil {
			return nil, fmt.Errorf("the oracle's answer: %w", err)
		}
	}
	asking.Wait()
	return answers, asked
}
