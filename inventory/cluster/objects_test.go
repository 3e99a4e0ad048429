package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

var poolResource = resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigpools")

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// containers returns the spec of a pod with a container for each image, called a, b, ...
func containers(images ...string) corev1.PodSpec {
	var spec corev1.PodSpec
	for i, image := range images {
		spec.Containers = append(spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	return spec
}

// atEnd stops the API server, if there is one.
var atEnd = func() error { return nil }

func TestMain(m *testing.M) {
	// One of the handlers sleeps until a millisecond after the last error, seen by
	// a clock that synctest's bubbles do not share: there it sleeps for decades.
	utilruntime.ErrorHandlers = nil
	code := m.Run()
	if err := atEnd(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = 1
	}
	os.Exit(code)
}

// maxWait is how long a test waits for what must happen soon.
const maxWait = 90 * time.Second

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	t.Cleanup(cancel)
	return ctx
}

// next waits for what comes from c.
func next[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-timeout(t).Done():
		t.Fatalf("still not after %s: %s", maxWait, what)
		panic("unreachable")
	}
}

func run(t *testing.T, c *Inventory) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// eventually waits until ok is true. What it waits for comes over a watch whose
// other end is not ours to hook into, so it looks again and again.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for ctx := timeout(t); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatalf("still not after %s: %s", maxWait, what)
		case <-ticker.C:
		}
	}
}

// consumersOf returns the users of an image in c, of namespace only.
func consumersOf(t *testing.T, c *Inventory, namespace, ref string) []policy.Consumer {
	t.Helper()
	images, err := c.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var users []policy.Consumer
	for img := range images.All() {
		for _, u := range img.Consumers {
			if img.Ref == ref && u.Namespace == namespace {
				users = append(users, u)
			}
		}
	}
	return users
}
