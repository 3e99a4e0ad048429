package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// testFinalizers shows what an API server asks about an object with finalizers: its DELETE,
// which only marks it, and each UPDATE of the finalizers. The last of these removes it, and
// nothing more is asked.
func testFinalizers(t *testing.T, w *world) {
	for _, tt := range []struct {
		name    string
		holds   []string // the finalizers before the deletion
		cascade string
		steps   []string // the values that the finalizers are set to, one after the other
		want    []string // the requests
	}{
		{"of somebody", []string{finalizer}, "background", []string{"null"}, []string{"DELETE", "UPDATE", "UPDATE"}},
		{"two", []string{finalizer, "example.com/other"}, "background", []string{`["example.com/other"]`, "null"}, []string{"DELETE", "UPDATE", "UPDATE", "UPDATE"}},
		{"of a deletion in the foreground", nil, "foreground", []string{"null"}, []string{"DELETE", "UPDATE", "UPDATE"}},
		{"of one that leaves orphans", nil, "orphan", []string{"null"}, []string{"DELETE", "UPDATE", "UPDATE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, "127_last_finalizer_of_a_bad_set")
			s.Finalize = false
			s.States = map[string]registries.Behaviour{"mirror.example.com/shop/cart:v1": registries.Honest, "quay.io/shop/cart:v1": registries.Honest}
			w.arrange(t, &s)
			var store atomic.Pointer[presence.Store]
			look := func(state registries.Behaviour) { // and forget earlier facts
				w.front.Set("quay.io/shop/cart:v1", state)
				store.Store(w.newStore(t, &s))
			}
			look(registries.Honest)
			asked := w.recordRequests(t, webhook.ReviewerFunc(func(ctx context.Context, edit mirrors.Edit) (review.Record, error) {
				r := review.Reviewer{Inventory: w.images, Registries: store.Load()}
				return r.Review(ctx, edit, settings.Requester{})
			}))
			const set = "imagetagmirrorsets/shop"
			kubectl := func(args ...string) (string, error) { return w.cluster.Kubectl(t.Context(), "", args...) }
			mustDo := func(args ...string) {
				t.Helper()
				if out, err := kubectl(args...); err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
			}
			release := func(to string) (string, error) {
				return kubectl("patch", set, "--type=merge", "-p", `{"metadata": {"finalizers": `+to+`}}`)
			}
			if len(tt.holds) > 0 {
				list, err := json.Marshal(tt.holds)
				if err != nil {
					t.Fatal(err)
				}
				w.stage.patch(t.Context(), t, s.Change, `{"metadata": {"finalizers": `+string(list)+`}}`)
			}

			mustDo("delete", set, "--wait=false", "--cascade="+tt.cascade)
			mustDo("get", set) // nodes still have it

			look(registries.Absent)
			for _, to := range tt.steps[:len(tt.steps)-1] {
				if out, err := release(to); err != nil {
					t.Fatalf("a finalizer that is not the last: %v\n%s", err, out)
				}
			}
			last := tt.steps[len(tt.steps)-1]
			if out, err := release(last); err == nil || !strings.Contains(out, "Deleting ImageTagMirrorSet shop is refused") {
				t.Fatalf("the last finalizer of a mirror that images depend on: %v\n%s", err, out)
			}
			mustDo("get", set)

			look(registries.Honest)
			if out, err := release(last); err != nil {
				t.Fatalf("the source is back: %v\n%s", err, out)
			}
			if out, err := kubectl("get", set); err == nil {
				t.Fatalf("it is there still:\n%s", out)
			}
			if diff := cmp.Diff(tt.want, asked()); diff != "" {
				t.Errorf("requests -want +got:\n%s", diff)
			}
		})
	}
}

// recordRequests puts reviewer behind the webhook and returns the operations that it
// receives from now on.
func (w *world) recordRequests(t *testing.T, reviewer webhook.Reviewer) (asked func() []string) {
	var mu sync.Mutex
	var operations []string
	guard := newMux(t, reviewer)
	recorder := http.NewServeMux()
	recorder.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			t.Errorf("%s: %v", body, err)
			return
		}
		mu.Lock()
		operations = append(operations, string(review.Request.Operation))
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		guard.ServeHTTP(rw, r)
	})
	w.guard.Store(recorder)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return operations
	}
}
