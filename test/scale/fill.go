package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	namespaces = 500
	// writers is enough to keep kube-apiserver and etcd busy.
	writers = 64
)

// fill creates the objects of a cluster as controllers and kubelets would: pods of
// about 10 kB with three containers and their status.
func fill(ctx context.Context, config *rest.Config, s size, progress io.Writer) error {
	kube, err := unlimitedClient(config)
	if err != nil {
		return err
	}
	f := &filler{kube: kube, size: s}
	if err := f.each(ctx, namespaces, f.namespace); err != nil {
		return err
	}
	stop := f.tell(progress)
	defer stop()
	if err := f.each(ctx, s.workloads, f.workload); err != nil {
		return err
	}
	return f.each(ctx, s.pods, f.pod)
}

// unlimitedClient returns a client that speaks protobuf, as fast as the server answers.
func unlimitedClient(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return kubernetes.NewForConfig(config)
}

type filler struct {
	kube kubernetes.Interface
	size size
	made atomic.Int64
}

// tell prints the filler's progress until it is stopped.
func (f *filler) tell(progress io.Writer) (stop func()) {
	ticker := time.NewTicker(15 * time.Second)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(progress, "%d objects of %d ...\n", f.made.Load(), f.size.pods+f.size.workloads)
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

func (f *filler) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			defer f.made.Add(1)
			return do(ctx, i)
		})
	}
	return group.Wait()
}

func (f *filler) namespace(ctx context.Context, i int) error {
	_, err := f.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}, metav1.CreateOptions{})
	f.made.Add(-1) // not counted
	return err
}

func namespaceOf(i int) string { return fmt.Sprint("team-", i%namespaces) }

// image returns one of the images; pods of one workload have the same.
func (f *filler) image(i, container int) string {
	return fmt.Sprintf("registry.example.com/team-%d/application-%d:1.2.3", i%namespaces, (i*3+container)%f.size.images)
}

// pod creates pod i. Its status is a second request, as it is for the kubelet.
func (f *filler) pod(ctx context.Context, i int) error {
	application := i / 10 // ten pods of each
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(application), Name: fmt.Sprintf("application-%d-6d8f7c9b5d-x%04d", application, i%10),
			Labels: map[string]string{"app": fmt.Sprint("application-", application), "pod-template-hash": "6d8f7c9b5d"},
		},
		Spec: f.podSpec(application),
	}
	pods := f.kube.CoreV1().Pods(pod.Namespace)
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Phase = corev1.PodRunning
	for k, c := range made.Spec.Containers {
		made.Status.ContainerStatuses = append(made.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: strings.TrimSuffix(c.Image, ":1.2.3") + fmt.Sprintf("@sha256:%064d", (application*3+k)%f.size.images),
		})
	}
	_, err = pods.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

func (f *filler) podSpec(i int) corev1.PodSpec {
	var spec corev1.PodSpec
	for k := range 3 {
		c := corev1.Container{Name: fmt.Sprint("container-", k), Image: f.image(i, k)}
		for e := range 35 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SOME_VARIABLE_", e), Value: "with a value of some length"})
		}
		spec.Containers = append(spec.Containers, c)
	}
	return spec
}

// workload creates object i, cycling through the kinds.
func (f *filler) workload(ctx context.Context, i int) error {
	meta := metav1.ObjectMeta{Namespace: namespaceOf(i), Name: fmt.Sprint("application-", i)}
	labels := map[string]string{"app": meta.Name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: f.podSpec(i)}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	var err error
	switch create := (metav1.CreateOptions{}); i % 6 {
	case 0:
		_, err = f.kube.AppsV1().StatefulSets(meta.Namespace).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}, create)
	case 1:
		_, err = f.kube.AppsV1().DaemonSets(meta.Namespace).Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, create)
	case 2:
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := batchv1.JobSpec{Template: template}
		_, err = f.kube.BatchV1().CronJobs(meta.Namespace).Create(ctx, &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}, create)
	case 3:
		_, err = f.kube.AppsV1().ReplicaSets(meta.Namespace).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, create)
	default:
		_, err = f.kube.AppsV1().Deployments(meta.Namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, create)
	}
	return err
}
