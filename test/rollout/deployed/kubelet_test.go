package deployed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// A kubelet plays those of all nodes, for the guard's pods: it runs each as a process, probes it,
// reports whether it is ready, and ends it as its manifest says.
type kubelet struct {
	t   *testing.T
	on  *installation
	ctx context.Context

	running sync.WaitGroup
	mu      sync.Mutex
	pods    map[types.UID]*pod
}

// A pod is one that has a node.
type pod struct {
	*corev1.Pod                // as it was when it got the node
	ip, loopback string        // its address, and where that really is
	dir          string        // of its files
	deleted      chan struct{} // closed when it is to end
}

// isDeleted reports whether it is to end.
func (p *pod) isDeleted() bool {
	select {
	case <-p.deleted:
		return true
	default:
		return false
	}
}

func newKubelet(t *testing.T, on *installation) *kubelet {
	ctx, stop := context.WithCancel(context.Background())
	k := &kubelet{t: t, on: on, ctx: ctx, pods: map[types.UID]*pod{}}
	t.Cleanup(func() {
		stop()
		k.running.Wait()
	})
	return k
}

// see does what has to be done about a pod.
func (k *kubelet) see(o *corev1.Pod) {
	if o.Spec.NodeName == "" || k.ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[o.UID]
	if p == nil {
		p = &pod{Pod: o.DeepCopy(), deleted: make(chan struct{})}
		p.ip, p.loopback = k.on.network.newPod()
		k.pods[o.UID] = p
		k.running.Go(func() { k.run(p) })
	}
	if o.DeletionTimestamp != nil && !p.isDeleted() {
		close(p.deleted)
	}
}

// ended are the pods that have been deleted.
func (k *kubelet) ended() []*pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ended []*pod
	for _, p := range k.pods {
		if p.isDeleted() {
			ended = append(ended, p)
		}
	}
	return ended
}

// run runs a pod to its end.
func (k *kubelet) run(p *pod) {
	command, err := k.prepare(p)
	var process *stage.Process
	if err == nil {
		process, err = stage.Begin(p.dir, command)
	}
	if err == nil {
		err = k.serve(p, process)
		process.Kill()
	}
	if err != nil && k.ctx.Err() == nil {
		k.t.Errorf("pod %s: %v", p.Name, err)
	}
	if k.t.Failed() && process != nil {
		k.t.Logf("pod %s:\n%s", p.Name, process.Tail())
	}
}

// serve sees to the pod of a process until that has ended, or the test ends.
func (k *kubelet) serve(p *pod, process *stage.Process) error {
	if err := k.report(p, false); err != nil {
		return err
	}
	ctx, stopProbes := context.WithCancel(k.ctx)
	var probes sync.WaitGroup
	defer probes.Wait() // nothing is said of a pod that is gone
	defer stopProbes()
	container := p.Spec.Containers[0]
	probes.Go(func() { k.probe(ctx, p, container.ReadinessProbe, k.report) })
	probes.Go(func() { k.probe(ctx, p, container.LivenessProbe, wantLive) })
	select {
	case <-p.deleted:
	case <-process.Ended:
		return fmt.Errorf("its process ended by itself: %w", process.Err)
	case <-k.ctx.Done():
		return nil
	}
	process.Terminate()
	grace := time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	select {
	case <-process.Ended:
		if process.Err != nil {
			return fmt.Errorf("its process ended: %w", process.Err)
		}
	case <-time.After(grace):
		return fmt.Errorf("it had to be killed after %s", grace)
	case <-k.ctx.Done():
		return nil
	}
	stopProbes()
	probes.Wait()
	return k.on.kube.CoreV1().Pods(p.Namespace).Delete(k.ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
	})
}

// prepare mounts the volumes of a pod, and returns the command of its container.
func (k *kubelet) prepare(p *pod) (*exec.Cmd, error) {
	p.dir = filepath.Join(k.on.dir, p.Name)
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	kubeconfig, err := guard.WriteKubeconfig(k.ctx, k.on.Cluster, p.dir, "--bound-object-kind", "Pod", "--bound-object-name", p.Name)
	if err != nil {
		return nil, err
	}
	volumes := map[string]string{}
	for _, v := range p.Spec.Volumes {
		if volumes[v.Name], err = k.mount(p, v); err != nil {
			return nil, fmt.Errorf("mounting %s: %w", v.Name, err)
		}
	}
	container := p.Spec.Containers[0]
	if container.Lifecycle != nil || container.StartupProbe != nil || len(p.Spec.Containers) > 1 || len(p.Spec.InitContainers) > 0 {
		return nil, errors.New("it has what is not played")
	}
	places := []string{"=:", "=" + p.loopback + ":"} // as each pod has ports of its own
	for _, m := range container.VolumeMounts {
		places = append(places, "="+m.MountPath, "="+volumes[m.Name])
	}
	var args []string
	for _, arg := range container.Args {
		args = append(args, strings.NewReplacer(places...).Replace(arg))
	}
	command := exec.Command(k.on.binary, append(args, k.on.registryArgs(kubeconfig)...)...)
	command.Stdout = io.Discard // its records of decisions
	command.Env = os.Environ()
	for _, e := range container.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	return command, nil
}

// mount returns the folder that a volume is.
func (k *kubelet) mount(p *pod, v corev1.Volume) (string, error) {
	if v.Secret != nil {
		return k.on.secret.Dir, nil // there is but one
	}
	dir := filepath.Join(p.dir, v.Name)
	if err := os.Mkdir(dir, 0o700); err != nil || v.ConfigMap == nil {
		return dir, err
	}
	config, err := k.on.kube.CoreV1().ConfigMaps(p.Namespace).Get(k.ctx, v.ConfigMap.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for name, text := range config.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// probe asks a pod as its probe says until ctx ends, and tells when the answer has become another
// one. At first it is no.
func (k *kubelet) probe(ctx context.Context, p *pod, probe *corev1.Probe, tell func(p *pod, yes bool) error) {
	var port int32
	for _, c := range p.Spec.Containers[0].Ports {
		if c.Name == probe.HTTPGet.Port.StrVal {
			port = c.ContainerPort
		}
	}
	url := fmt.Sprintf("http://%s:%d%s", p.loopback, port, probe.HTTPGet.Path)
	client := http.Client{Timeout: time.Duration(probe.TimeoutSeconds) * time.Second}
	ticker := time.NewTicker(time.Duration(probe.PeriodSeconds) * time.Second)
	defer ticker.Stop()
	threshold := map[bool]int32{true: probe.SuccessThreshold, false: probe.FailureThreshold}
	told, others := false, int32(0) // how many answers in a row are not what was told
	for {
		answer := isOK(ctx, &client, url)
		if answer == told {
			others = 0
		} else if others++; others >= threshold[answer] {
			told, others = answer, 0
			if err := tell(p, answer); err != nil && ctx.Err() == nil {
				k.t.Errorf("pod %s: %v", p.Name, err)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func isOK(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// wantLive is told whether a pod is alive. A real kubelet would start it again.
func wantLive(p *pod, is bool) error {
	if !is && !p.isDeleted() {
		return errors.New("it does not answer its liveness probe")
	}
	return nil
}

// report says that a pod runs, and whether it is ready.
func (k *kubelet) report(p *pod, isReady bool) error {
	now, ready := metav1.Now(), corev1.ConditionFalse
	if isReady {
		ready = corev1.ConditionTrue
	}
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}}
	for kind, is := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: now})
	}
	container := p.Spec.Containers[0]
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, Ready: isReady, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = k.on.kube.CoreV1().Pods(p.Namespace).Patch(k.ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
