package stage

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// faults are the defects of a node.
type faults struct {
	// files are those that somebody has changed, by path.
	files map[string][]byte
	// forced is set where the daemon is to write all files anew.
	forced bool
	// held keeps the daemon from beginning.
	held bool
	// silent keeps the kubelet from saying or doing anything; request is the
	// CertificateSigningRequest that it waits for, "" for none.
	silent  bool
	request string
	// sick keeps pods that start there from being ready.
	sick bool
	// drainTimeout is how long the daemon waits for a drain, 0 for ever. Upstream it is an hour.
	drainTimeout time.Duration
	// failedAt is when the daemon last gave up.
	failedAt time.Time
}

// CrashLabel is that of pods whose container ends as soon as it is started.
const CrashLabel = "stage/crashes"

// LingerLabel is that of pods that do not end when they are told to, as one that hangs in its volume.
const LingerLabel = "stage/lingers"

// mcoNamespace is that of MCO's pods.
const mcoNamespace = "openshift-machine-config-operator"

// change changes the state of a node.
func (n *Nodes) change(name string, to func(*state)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.nodes[name]
	if s == nil {
		panic("there is no node " + name)
	}
	to(s)
}

// ChangeFile changes a file on a node behind the back of the daemon. Writing the contents of the
// rendered config repairs it.
func (n *Nodes) ChangeFile(name, path string, content []byte) {
	n.change(name, func(s *state) {
		if s.files == nil {
			s.files = map[string][]byte{}
		}
		s.files[path] = content
	})
}

// Force makes the daemon of a node write all files anew, whatever is there.
func (n *Nodes) Force(name string) { n.change(name, func(s *state) { s.forced = true }) }

// Hold keeps the daemon of a node from beginning, or lets it.
func (n *Nodes) Hold(name string, held bool) { n.change(name, func(s *state) { s.held = held }) }

// Silence stops the kubelet of a node, or starts it again.
func (n *Nodes) Silence(name string, silent bool) {
	n.change(name, func(s *state) { s.silent, s.request = silent, "" })
}

// AwaitCertificate stops the kubelet of a node until a CertificateSigningRequest is approved.
func (n *Nodes) AwaitCertificate(name, request string) {
	n.change(name, func(s *state) { s.silent, s.request = true, request })
}

// Impatient makes the daemon of a node give up on a drain after a while, and begin again.
func (n *Nodes) Impatient(name string, drainTimeout time.Duration) {
	n.change(name, func(s *state) { s.drainTimeout = drainTimeout })
}

// Sicken keeps pods that are started on a node from now on from being ready.
func (n *Nodes) Sicken(name string) { n.change(name, func(s *state) { s.sick = true }) }

func (n *Nodes) isSick(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[name].sick
}

// Has reports whether a node has pulled an image.
func (n *Nodes) Has(name, image string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[name] != nil && slices.Contains(n.nodes[name].images, image)
}

// isTired reports whether the daemon of a node has waited for long enough.
func (n *Nodes) isTired(name string, since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	drainTimeout := n.nodes[name].drainTimeout
	return drainTimeout > 0 && time.Since(since) > drainTimeout
}

func (n *Nodes) diskOf(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[name].disk
}

// isSilent reports whether the kubelet of a node does nothing. It looks for the certificate that
// it waits for.
func (n *Nodes) isSilent(ctx context.Context, name string) bool {
	n.mu.Lock()
	s := n.nodes[name]
	silent, request := s != nil && s.silent, ""
	if silent {
		request = s.request
	}
	n.mu.Unlock()
	if request == "" {
		return silent
	}
	var r certificatesv1.CertificateSigningRequest
	err := n.stage.Client.Get(ctx, client.ObjectKey{Name: request}, &r)
	approved := func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	}
	if err != nil || !slices.ContainsFunc(r.Status.Conditions, approved) {
		return true
	}
	n.Silence(name, false)
	return false
}

// validate does what the daemon does before an update (runPreflightConfigDriftCheck in MCO's
// pkg/daemon/daemon.go), in its words.
func (n *Nodes) validate(ctx context.Context, name, config string) error {
	n.mu.Lock()
	s := n.nodes[name]
	files, forced, disk := maps.Clone(s.files), s.forced, s.disk
	if forced {
		s.files, s.forced = nil, false
	}
	n.mu.Unlock()
	if forced {
		return nil
	}
	mismatch := func(path string) error {
		return fmt.Errorf("unexpected on-disk state validating against %s: content mismatch for file %q", config, path)
	}
	var mc mcfgv1.MachineConfig
	for path, content := range files {
		if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: config}, &mc); err != nil {
			return err
		}
		answers, err := n.oracle.Ask(oracle.Question{Read: mc.Spec.Config.Raw})
		if err != nil {
			return err
		}
		if string(answers[0].Rendered.Files[path]) != string(content) {
			return mismatch(path)
		}
		n.change(name, func(s *state) { delete(s.files, path) }) // it was put back
	}
	if n.stage.setup.Retry > 0 && disk != config {
		return mismatch("/etc/containers/registries.conf")
	}
	return nil
}

// updateSystem pulls the image of another operating system as rpm-ostree does, by the files that
// are written already.
func (n *Nodes) updateSystem(ctx context.Context, d decision, to string) error {
	if d.system == "" {
		return nil
	}
	if err := n.registries.pull(ctx, filepath.Join(n.dir, to), d.system); err != nil {
		return fmt.Errorf("failed to update OS to %s: error running rpm-ostree rebase --experimental ostree-unverified-registry:%[1]s: error: remote error: %w: exit status 1", d.system, err)
	}
	return nil
}

// crash makes the status of a pod that of one whose container ends again and again.
func crash(pod *corev1.Pod) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		s.Ready, s.RestartCount = false, 4
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 1m20s restarting failed container"}}
		s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status = corev1.ConditionFalse
		}
	}
}

// unready makes the status of a pod that of one whose probe fails.
func unready(pod *corev1.Pod) {
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status = corev1.ConditionFalse
		}
	}
}

// FollowPods ties daemons to the pods of DaemonSet machine-config-daemon: one does nothing
// where no pod of it runs. The controllers of MCO run while one of Deployment
// machine-config-controller does, on a stage with Setup.ControllerPod.
func (n *Nodes) FollowPods() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.daemons = map[string]bool{}
}

// followPods looks which pods of MCO run.
func (n *Nodes) followPods(pods []corev1.Pod) error {
	n.mu.Lock()
	follows := n.daemons != nil
	n.mu.Unlock()
	if !follows {
		return nil
	}
	daemons, controller := map[string]bool{}, false
	for i := range pods {
		pod := &pods[i]
		if pod.Namespace != mcoNamespace || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		switch pod.Labels["k8s-app"] {
		case "machine-config-daemon":
			daemons[pod.Spec.NodeName] = true
		case "machine-config-controller":
			controller = true
		}
	}
	n.mu.Lock()
	n.daemons = daemons
	n.mu.Unlock()
	if !n.stage.setup.ControllerPod {
		return nil
	}
	err := n.stage.runControllers(controller)
	n.mu.Lock()
	n.controlled = controller && err == nil
	n.mu.Unlock()
	return err
}

// AwaitControllers waits until the controllers of MCO have been started, or have ended.
func (n *Nodes) AwaitControllers(ctx context.Context, run bool) {
	n.stage.t.Helper()
	n.stage.Wait(ctx, fmt.Sprintf("the controllers to run: %t", run), func() (bool, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.controlled == run, nil
	})
}

// runControllers starts or stops the controllers of MCO. Only the loop of the kubelets calls it
// while there is one.
func (s *Stage) runControllers(run bool) error {
	running := s.controllers != nil
	switch {
	case run && !running:
		p, err := Begin(s.logs, exec.Command(program(s.t, "mco-controllers"), s.controllerArgs()...))
		if err != nil {
			return err
		}
		s.controllers = p
	case !run && running:
		s.controllers.Stop()
		s.controllers = nil
	}
	return nil
}
