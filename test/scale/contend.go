package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
)

// A report is what a contender measures of itself.
type report struct {
	Role   string
	Ready  time.Duration // from its start until it knows all objects
	Images int           // 0 if they are not counted
	Heap   uint64        // bytes in use after a collection
	RSS    uint64        // at the end
	Peak   uint64        // the largest resident set since its start
	Delay  time.Duration // from the creation of a pod until its image is known
	// Churned is the heap after many pods have come and gone.
	Churned uint64
}

// spawn measures a contender in its own process.
func spawn(ctx context.Context, role, kubeconfig string, errs io.Writer) (report, error) {
	self, err := os.Executable()
	if err != nil {
		return report{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", role, "-kubeconfig", kubeconfig)
	cmd.Stderr = errs
	out, err := cmd.Output()
	if err != nil {
		return report{}, err
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		return report{}, fmt.Errorf("its report: %w", err)
	}
	r.Role = role
	return r, nil
}

// contend runs in a contender's process, and prints a report.
func (o options) contend(ctx context.Context, out, _ io.Writer) error {
	log.SetLogger(logr.Discard()) // otherwise controller-runtime complains that it was not called
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, 0
	contenders := map[string]func(context.Context, *rest.Config) (report, error){
		"list": bareList, "guard": guardInventory, "cache": plainCache,
	}
	do, ok := contenders[o.role]
	if !ok {
		return fmt.Errorf("-role %q: want list, guard or cache", o.role)
	}
	r, err := do(ctx, config)
	if err != nil {
		return err
	}
	if r.RSS, r.Peak, err = resident(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// bareList reads the objects as fast as possible and keeps none.
func bareList(ctx context.Context, config *rest.Config) (report, error) {
	kube, err := unlimitedClient(config)
	if err != nil {
		return report{}, err
	}
	const all = metav1.NamespaceAll
	start := time.Now()
	for _, list := range []func(metav1.ListOptions) (metav1.ListInterface, error){
		func(o metav1.ListOptions) (metav1.ListInterface, error) { return kube.CoreV1().Pods(all).List(ctx, o) },
		func(o metav1.ListOptions) (metav1.ListInterface, error) {
			return kube.CoreV1().ReplicationControllers(all).List(ctx, o)
		},
		func(o metav1.ListOptions) (metav1.ListInterface, error) {
			return kube.AppsV1().Deployments(all).List(ctx, o)
		},
		func(o metav1.ListOptions) (metav1.ListInterface, error) {
			return kube.AppsV1().ReplicaSets(all).List(ctx, o)
		},
		func(o metav1.ListOptions) (metav1.ListInterface, error) {
			return kube.AppsV1().StatefulSets(all).List(ctx, o)
		},
		func(o metav1.ListOptions) (metav1.ListInterface, error) {
			return kube.AppsV1().DaemonSets(all).List(ctx, o)
		},
		func(o metav1.ListOptions) (metav1.ListInterface, error) { return kube.BatchV1().Jobs(all).List(ctx, o) },
		func(o metav1.ListOptions) (metav1.ListInterface, error) {
			return kube.BatchV1().CronJobs(all).List(ctx, o)
		},
	} {
		options := metav1.ListOptions{Limit: 500}
		for {
			page, err := list(options)
			if err != nil {
				return report{}, err
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				break
			}
		}
	}
	return report{Ready: time.Since(start), Heap: heap()}, nil
}

// guardInventory is the inventory of the guard.
func guardInventory(ctx context.Context, config *rest.Config) (report, error) {
	kube, err := unlimitedClient(config)
	if err != nil {
		return report{}, err
	}
	start := time.Now()
	c, err := cluster.New(config, cluster.Options{})
	if err != nil {
		return report{}, err
	}
	go c.Run(ctx)          //nolint:errcheck // it returns nil
	debug.SetGCPercent(50) // as serve does
	if err := c.WaitReady(ctx); err != nil {
		return report{}, err
	}
	r := report{Ready: time.Since(start)}
	if r.Images, err = count(ctx, c); err != nil {
		return report{}, err
	}
	r.Heap = heap()
	knows := func(ref string) (bool, error) {
		images, err := c.Images(ctx)
		for img := range images.All() {
			if img.Ref == ref {
				return true, err
			}
		}
		return false, err
	}
	if r.Delay, err = delay(ctx, kube, knows); err != nil {
		return report{}, err
	}
	if err := churn(ctx, kube, knows); err != nil {
		return report{}, err
	}
	r.Churned = heap()
	runtime.KeepAlive(c)
	return r, nil
}

func count(ctx context.Context, c *cluster.Inventory) (int, error) {
	images, err := c.Images(ctx)
	return images.Len(), err
}

// delay creates a pod and waits until its image is known.
func delay(ctx context.Context, kube kubernetes.Interface, knows func(string) (bool, error)) (time.Duration, error) {
	start := time.Now()
	pod := onePod("late", "registry.example.com/late:1")
	if _, err := kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := until(ctx, true, "registry.example.com/late:1", knows); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, atOnce()) // the next contender creates it again
}

// atOnce returns options that delete a pod without waiting for a kubelet.
func atOnce() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

func onePod(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(0), Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

// until waits until ref is known, or no longer known.
func until(ctx context.Context, known bool, ref string, knows func(string) (bool, error)) error {
	ticker := time.NewTicker(10 * time.Millisecond) // there is no event to wait for here
	defer ticker.Stop()
	for {
		if now, err := knows(ref); err != nil || now == known {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// churn creates and deletes pods in one namespace, each with its own image.
func churn(ctx context.Context, kube kubernetes.Interface, knows func(string) (bool, error)) error {
	const rounds, pods = 5, 1000
	f := &filler{kube: kube}
	image := func(round, i int) string { return fmt.Sprintf("registry.example.com/churn-%d-%d:1", round, i) }
	for round := range rounds {
		err := f.each(ctx, pods, func(ctx context.Context, i int) error {
			pod := onePod(fmt.Sprint("churn-", i), image(round, i))
			if _, err := kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return err
			}
			return kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, atOnce())
		})
		if err != nil {
			return err
		}
	}
	last := onePod("churn-last", "registry.example.com/churn-last:1")
	if _, err := kube.CoreV1().Pods(last.Namespace).Create(ctx, last, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := until(ctx, true, "registry.example.com/churn-last:1", knows); err != nil { // so everything before it has been seen
		return err
	}
	if err := kube.CoreV1().Pods(last.Namespace).Delete(ctx, last.Name, atOnce()); err != nil {
		return err
	}
	return until(ctx, false, "registry.example.com/churn-last:1", knows)
}

// plainCache is controller-runtime's cache of the same objects, as they are.
func plainCache(ctx context.Context, config *rest.Config) (report, error) {
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return report{}, err
		}
	}
	start := time.Now()
	c, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return report{}, err
	}
	go c.Start(ctx) //nolint:errcheck // WaitForCacheSync says what matters
	for _, o := range []client.Object{
		&corev1.Pod{}, &corev1.ReplicationController{}, &corev1.Node{}, &policyv1.PodDisruptionBudget{}, &batchv1.Job{}, &batchv1.CronJob{},
		&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{},
	} {
		if _, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return report{}, err
		}
	}
	if !c.WaitForCacheSync(ctx) {
		return report{}, fmt.Errorf("the cache did not sync: %w", context.Cause(ctx))
	}
	r := report{Ready: time.Since(start), Heap: heap()}
	runtime.KeepAlive(c)
	return r, nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what finalizers held on to
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// resident returns the resident set of this process, now and at its largest, in
// bytes (proc(5), VmRSS and VmHWM, in kB).
func resident() (now, peak uint64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kB, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kB << 10
		case "VmHWM":
			peak = kB << 10
		}
	}
	return now, peak, nil
}
