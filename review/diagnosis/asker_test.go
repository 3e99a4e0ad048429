package diagnosis

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// An apiServer answers by path, with 403 for what it has no answer to, and notes what was asked.
type apiServer struct {
	mu      sync.Mutex
	answers map[string]any // an error for one of the API server's
	asked   []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	answer, ok := s.answers[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	switch message, failed := answer.(string); {
	case !ok:
		w.WriteHeader(http.StatusForbidden)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403, Message: `User "x" cannot do so`}
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 500, Message: message}
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may leave
}

func ask(t *testing.T, answers map[string]any, asks status.Asks) (*asker, []string) {
	t.Helper()
	s := &apiServer{answers: answers}
	server := httptest.NewServer(s)
	defer server.Close()
	r := &environment.Rollout{Config: &rest.Config{Host: server.URL}}
	a, err := newAsker(r, Options{World: func() (environment.Options, error) { return environment.Options{}, errors.New("no CA") }})
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.all(t.Context(), asks)
	return a, s.asked
}

// TestAsksAPIServer: what is asked about pods and their controllers, and what becomes of each answer. No question is left
// open, so that none is asked twice.
func TestAsksAPIServer(t *testing.T) {
	const pods, sets, stateful = "/api/v1/namespaces/shop/pods/", "/apis/apps/v1/namespaces/shop/replicasets/", "/apis/apps/v1/namespaces/shop/statefulsets/"
	replicaSet := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3))}, Status: appsv1.ReplicaSetStatus{Replicas: 1, Conditions: []appsv1.ReplicaSetCondition{
		{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded\nquota"}, {Type: "Other", Status: corev1.ConditionTrue, Message: "not this"},
	}}}
	event := func(message string, minute int) corev1.Event {
		return corev1.Event{Message: message, LastTimestamp: metav1.NewTime(time.Unix(int64(60*minute), 0))}
	}
	owner := func(kind, name string) status.OwnerName {
		return status.OwnerName{Namespace: "shop", Owner: rollout.Owner{Kind: kind, Name: name}}
	}
	asks := status.Asks{
		Evictions: []status.PodName{{Namespace: "shop", Name: "goes"}, {Namespace: "shop", Name: "odd"}},
		Owners:    []status.OwnerName{owner("ReplicaSet", "web"), owner("ReplicaSet", "gone"), owner("StatefulSet", "db"), owner("StatefulSet", "whole")},
		Requests:  true, Configs: true,
	}
	a, asked := ask(t, map[string]any{
		pods + "goes/eviction": metav1.Status{Status: "Success"}, pods + "odd/eviction": "etcd is away",
		sets + "web": replicaSet, stateful + "db": &appsv1.StatefulSet{}, stateful + "whole": &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{Replicas: 1}},
		"/api/v1/namespaces/shop/events":                            corev1.EventList{Items: []corev1.Event{event("first", 1), event("last", 3), event("second", 2)}},
		"/apis/machineconfiguration.openshift.io/v1/machineconfigs": metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: []metav1.PartialObjectMetadata{{TypeMeta: metav1.TypeMeta{APIVersion: "machineconfiguration.openshift.io/v1", Kind: "MachineConfig"}, ObjectMeta: metav1.ObjectMeta{Name: "99-own"}}}},
	}, asks)
	e := a.evidence
	if got := e.Evictions[asks.Evictions[0]]; !got.Allowed || len(e.Evictions) != 1 {
		t.Errorf("evictions %+v", e.Evictions)
	}
	for o, want := range map[status.OwnerName]status.Made{
		asks.Owners[0]: {Wanted: 3, Made: 1, Refused: "exceeded quota"}, asks.Owners[1]: {}, asks.Owners[2]: {Wanted: 1, Refused: "last"}, asks.Owners[3]: {Wanted: 1, Made: 1},
	} {
		if got, ok := e.Owners[o]; !ok || got != want {
			t.Errorf("%+v: %+v, want %+v", o, got, want)
		}
	}
	if len(e.Configs) != 1 || e.Configs[0].Name != "99-own" || e.Requests == nil || len(e.Requests) != 0 {
		t.Errorf("configs %+v, requests %+v", e.Configs, e.Requests)
	}
	for _, part := range []string{"shop/odd", "ReplicaSet gone", "certificatesigningrequests"} {
		if !slices.ContainsFunc(e.Notes, func(n string) bool { return strings.Contains(n, part) }) {
			t.Errorf("no note of %s: %q", part, e.Notes)
		}
	}
	if again := asks.Without(e); len(again.Owners) > 0 || again.Requests || again.Configs || len(e.Notes) != 3 {
		t.Errorf("asked %q; open %+v, notes %q", asked, again, e.Notes)
	}
}

// TestMayNotAsk: where dry runs of evictions are forbidden, one of a namespace is enough to learn that, and each namespace is named once. Registries that
// cannot be asked are noted.
func TestMayNotAsk(t *testing.T) {
	var asks status.Asks
	for range 40 {
		asks.Evictions = append(asks.Evictions, status.PodName{Namespace: "shop", Name: "a"})
	}
	asks.Evictions = append(asks.Evictions, status.PodName{Namespace: "crm", Name: "a"})
	asks.Places = []status.PlaceAsked{{}}
	a, asked := ask(t, nil, asks)
	if len(a.evidence.Evictions) > 0 || len(a.evidence.Places) > 0 || len(asked) > askAtOnce+1 {
		t.Errorf("%d questions, evidence %+v", len(asked), a.evidence)
	}
	if notes := a.evidence.Notes; len(notes) != 2 || !strings.Contains(notes[0], "crm, shop") || !strings.Contains(notes[1], "no CA") {
		t.Errorf("notes %q", notes)
	}
}

// TestCredentials: those of the nodes, which may be given; nothing of them is in an error.
func TestCredentials(t *testing.T) {
	a, _ := ask(t, nil, status.Asks{})
	if got, err := a.credentials(t.Context()); len(got) > 0 || err == nil {
		t.Errorf("%q, %v, of an API server that does not let them be read", got, err)
	}
	a.options.PullSecret = func() ([]byte, error) { return []byte("{}"), nil }
	if got, err := a.credentials(t.Context()); string(got) != "{}" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
