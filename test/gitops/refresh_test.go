package gitops

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"
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
			_, err := client.Resource(configv1.GroupVersion.WithResource("imagetagmirrorsets")).Apply(t.Context(), "shop", &object, options)
			if err == nil || !strings.Contains(err.Error(), "could not be pulled safely afterwards") {
				return fmt.Errorf("not the refusal: %w", errors.Join(err, errors.New("or none")))
			}
			return nil
		})
	}
	start.Done()
	must(t, group.Wait())
}

// testRefresh: fifty applications that are refreshed at once, with one refused set in common, cost no more
// requests to registries than one does.
func (s *stage) testRefresh(t *testing.T) {
	s.refresh(t, 1)
	// A miss may have been mended, and is looked up again after a while: that is the one look.
	one := 0
	for before := s.front.Requests(); one == 0; one = s.front.Requests() - before {
		s.refresh(t, 1)
	}
	before := s.front.Requests()
	s.refresh(t, applications)
	got := s.front.Requests() - before
	t.Logf("one refresh asks registries %d times, %d at once %d times", one, applications, got)
	if got > 2*one {
		t.Errorf("%d refreshes at once ask registries %d times, one asks %d times", applications, got, one)
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
