package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
)

// completionLimit is how long a user waits for completions at most: what was found by then is offered.
const completionLimit = 2 * time.Second

// pageSize is how many objects are listed at once, so that something is there before the limit.
const pageSize = 250

// candidates collects what an argument may be. It is safe for concurrent use.
type candidates struct {
	ctx   context.Context // ends with the limit
	begun string

	mu    sync.Mutex
	found map[string]bool
}

// add offers those of values that begin as what the user has begun. One with a line feed or the like
// would be another one in the shell.
func (c *candidates) add(values ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range values {
		if v != "" && strings.HasPrefix(v, c.begun) && !strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
			c.found[v] = true
		}
	}
}

func (c *candidates) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.found))
}

// listed returns what list finds within the limit. It goes on alone if nothing ends it, such as a file
// system that does not answer; the process ends soon.
func listed(cmd *cobra.Command, list lister, begun string) []string {
	klog.SetLogger(logr.Discard()) // client-go's complaints would be in the middle of what the user types
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	c := &candidates{ctx: ctx, begun: begun, found: map[string]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		list(cmd, c)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return c.sorted()
}

// clusterOf returns how to reach the cluster that the flags of cmd name; nil if there is none.
func clusterOf(cmd *cobra.Command) *rest.Config {
	flags := ClusterFlags{Kubeconfig: valueOf(cmd, "kubeconfig"), context: valueOf(cmd, "context")}
	config, err := flags.Config()
	if err != nil {
		return nil
	}
	config.Timeout = completionLimit
	config.WarningHandler = rest.NoWarnings{}
	if config.ExecProvider != nil {
		config.ExecProvider.StdinUnavailable = true // the user is typing
	}
	return config
}

// dumpOf returns the dump that the flags of cmd name. Standard input is not read: the user is typing.
func dumpOf(cmd *cobra.Command) (dump *snapshot.Snapshot, named bool) {
	from := valueOf(cmd, "from")
	if from == "" || from == "-" {
		return nil, from != ""
	}
	dump, err := snapshot.Read(from)
	if err != nil {
		return nil, true
	}
	return dump, true
}

// valueOf returns the value of a flag, "" if there is none.
func valueOf(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

func contexts(cmd *cobra.Command, into *candidates) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = valueOf(cmd, "kubeconfig")
	if config, err := rules.Load(); err == nil {
		into.add(slices.Collect(maps.Keys(config.Contexts))...)
	}
}

func namespaces(cmd *cobra.Command, into *candidates) {
	dump, named := dumpOf(cmd)
	switch {
	case dump != nil:
		for _, namespace := range dump.RolloutObjects().Namespaces {
			into.add(namespace.Name)
		}
		all, err := dump.Images(into.ctx)
		if err != nil {
			return
		}
		for img := range all.All() {
			for _, c := range img.Consumers {
				into.add(c.Namespace)
			}
		}
	case !named:
		into.addNames(cmd, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	}
}

func pools(cmd *cobra.Command, into *candidates) {
	dump, named := dumpOf(cmd)
	switch {
	case dump != nil:
		for _, pool := range dump.RolloutObjects().Pools {
			into.add(pool.Name)
		}
	case !named:
		into.addNames(cmd, mcfgv1.GroupVersion.WithResource("machineconfigpools"))
	}
}

func registries(cmd *cobra.Command, into *candidates) {
	all := &candidates{ctx: into.ctx, found: map[string]bool{}}
	imagesInUse(cmd, all)
	for _, image := range all.sorted() {
		if host, _, ok := strings.Cut(image, "/"); ok && strings.ContainsAny(host, ".:") {
			into.add(host)
		}
	}
}

func imagesInUse(cmd *cobra.Command, into *candidates) {
	dump, named := dumpOf(cmd)
	switch {
	case dump != nil:
		if all, err := dump.Images(into.ctx); err == nil {
			for img := range all.All() {
				into.add(img.Ref)
			}
		}
	case !named:
		into.addImages(cmd)
	}
}

// addNames adds the names of all objects of a resource.
func (c *candidates) addNames(cmd *cobra.Command, of schema.GroupVersionResource) {
	config := clusterOf(cmd)
	if config == nil {
		return
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return
	}
	c.pages(func(o metav1.ListOptions) (next string, err error) {
		list, err := client.Resource(of).List(c.ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			c.add(list.Items[i].Name)
		}
		return list.Continue, nil
	})
}

// addImages adds what pods and workloads name: all that the cluster may pull takes longer to read than a
// user waits.
func (c *candidates) addImages(cmd *cobra.Command) {
	config := clusterOf(cmd)
	if config == nil {
		return
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return
	}
	namespace := valueOf(cmd, "namespace")
	apps := client.AppsV1()
	var all sync.WaitGroup
	for _, list := range []func(metav1.ListOptions) (runtime.Object, error){
		func(o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).List(c.ctx, o)
		},
		func(o metav1.ListOptions) (runtime.Object, error) { return apps.Deployments(namespace).List(c.ctx, o) },
		func(o metav1.ListOptions) (runtime.Object, error) { return apps.DaemonSets(namespace).List(c.ctx, o) },
		func(o metav1.ListOptions) (runtime.Object, error) { return apps.StatefulSets(namespace).List(c.ctx, o) },
		func(o metav1.ListOptions) (runtime.Object, error) {
			return client.BatchV1().CronJobs(namespace).List(c.ctx, o)
		},
	} {
		all.Go(func() {
			c.pages(func(o metav1.ListOptions) (next string, err error) {
				page, err := list(o)
				if err != nil {
					return "", err
				}
				return c.addPage(page)
			})
		})
	}
	all.Wait()
}

func (c *candidates) addPage(page runtime.Object) (next string, err error) {
	err = meta.EachListItem(page, func(o runtime.Object) error {
		holder, _ := images.Extract(o)
		for _, r := range holder.References {
			c.add(r.Image)
		}
		return nil
	})
	if list, ok := page.(metav1.ListInterface); ok {
		next = list.GetContinue()
	}
	return next, err
}

// pages calls list for each page of a list, until an error ends it.
func (c *candidates) pages(list func(metav1.ListOptions) (next string, err error)) {
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		next, err := list(o)
		if err != nil || next == "" {
			return
		}
		o.Continue = next
	}
}
