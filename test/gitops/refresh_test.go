package gitops

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"

	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// applications is how many are refreshed at once.
const applications = 50

// refresh makes n dry runs of one refused set at once, each as Argo CD makes it for an application.
func (s *stage) refresh(t testing.TB, n int) {
	t.Helper()
	config := rest.CopyConfig(s.cluster.Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	var object unstructured.Unstructured
	must(t, yaml.Unmarshal([]byte(refusedSet("shop")), &object.Object))
	var group errgroup.Group
	var start sync.WaitGroup
	start.Add(1)
	for range n {
		group.Go(func() error {
			start.Wait()
			options := metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true, DryRun: []string{metav1.DryRunAll}}
			apply := func() error {
				_, err := client.Resource(configv1.GroupVersion.WithResource("imagetagmirrorsets")).Apply(t.Context(), "shop", &object, options)
				return err
			}
			err := apply()
			for began := time.Now(); err != nil && strings.Contains(err.Error(), "there is no verdict") && time.Since(began) < process.Patience; {
				err = apply()
			}
			if err == nil || !strings.Contains(err.Error(), "could not be pulled safely afterwards") {
				return fmt.Errorf("not the refusal: %w", errors.Join(err, errors.New("or none")))
			}
			return nil
		})
	}
	start.Done()
	must(t, group.Wait())
}

// testRefresh: fifty applications that are refreshed at once, with one refused set in common, cost no
// request to a registry once its facts are known. What is missing is looked up again after a while, once
// for all of them.
func (s *stage) testRefresh(t *testing.T) {
	s.refresh(t, 1)
	one := 0
	for before := s.front.Requests(); one == 0; one = s.front.Requests() - before {
		s.refresh(t, 1)
	}
	if one > len(shopImages) { // there may be fewer, as misses may be of different ages
		t.Errorf("a look at %d misses takes %d requests", len(shopImages), one)
	}
	// One look at each miss is the most, and one more for each time that misses are kept for on a busy machine.
	before, began := s.front.Requests(), time.Now()
	s.refresh(t, applications)
	if got := s.front.Requests() - before; got > len(shopImages)*(1+int(time.Since(began)/webhook.DryRunMisses)) {
		t.Errorf("%d refreshes at once ask registries %d times, for %d misses", applications, got, len(shopImages))
	}
	// A change that is meant is asked about anew.
	before = s.front.Requests()
	out, err := s.cluster.Kubectl(t.Context(), refusedSet("shop"), "apply", "-f", "-")
	if got := s.front.Requests() - before; err == nil || got < len(shopImages) {
		t.Errorf("%d requests: %v\n%s", got, err, out)
	}
}

// BenchmarkRefresh counts the requests to registries of fifty dry runs of one refused set at once.
func BenchmarkRefresh(b *testing.B) {
	s := newStage(b)
	s.serve(b)
	s.refresh(b, 1)
	before := s.front.Requests()
	for b.Loop() {
		s.refresh(b, applications)
	}
	b.ReportMetric(float64(s.front.Requests()-before)/float64(b.N), "requests/op")
}
