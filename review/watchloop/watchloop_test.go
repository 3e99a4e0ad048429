package watchloop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
)

func tagSet(name string) *configv1.ImageTagMirrorSet {
	return &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name)}}
}

// newsOf has a piece of news about each of n objects, and notes in done which were passed on.
func newsOf(n int, done map[int]bool) iter.Seq[News] {
	return func(yield func(News) bool) {
		for i := range n {
			r := Report{Object: tagSet(fmt.Sprint("set-", i)), Reason: "Lost", Message: "Lost it", Note: "line\nbreak", Images: i}
			if !yield(News{Report: r, Done: func() { done[i] = true }}) {
				return
			}
		}
	}
}

// TestPass: what is passed on is done and logged, once; what fails, comes too early or is too much is
// neither, and what fails is named.
func TestPass(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	fails := func(_ context.Context, r Report) error {
		if strings.HasSuffix(r.Name(), "set-1") {
			return errors.New("no")
		}
		return nil
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	spent := NewBudget()
	for spent.Allow(tagSet("set-0")) { // another has reported
	}
	for _, tt := range []struct {
		why    string
		ctx    context.Context
		outlet Outlet
		n      int
		done   int
		err    string
	}{
		{"no Reporter: the log is told", t.Context(), Outlet{Log: log}, 3, 3, ""},
		{"a Reporter that fails for one", t.Context(), Outlet{Reporter: fails, Log: log}, 3, 2, "Lost of ImageTagMirrorSet set-1: no"},
		{"too much", t.Context(), Outlet{Log: log}, MaxAtOnce + 1, MaxAtOnce, ""},
		{"a budget that is spent", t.Context(), Outlet{Budget: spent, Log: log}, 3, 2, ""},
		{"another is the leader", ended, Outlet{Log: log}, 3, 0, "context canceled"},
	} {
		lines = nil
		done := map[int]bool{}
		err := tt.outlet.Pass(tt.ctx, newsOf(tt.n, done))
		if text := fmt.Sprint(err); len(done) != tt.done || len(lines) != tt.done || (err != nil) != (tt.err != "") || err != nil && text != tt.err {
			t.Errorf("%s: %d done, %d lines, %v; want %d and %q", tt.why, len(done), len(lines), err, tt.done, tt.err)
		}
	}
}

// TestEvents: an Event is about the object, else about what stands for all of them, else there is none.
func TestEvents(t *testing.T) {
	author := events.Author{Part: "test", Instance: "guard-0", Action: "Testing"}
	guard := &corev1.ObjectReference{Kind: "ValidatingWebhookConfiguration", Name: "guard"}
	for _, tt := range []struct {
		report    Report
		otherwise *corev1.ObjectReference
		want      string
	}{
		{Report{Object: tagSet("apps"), Reason: "Lost", Warning: true, Note: "a\nb"}, guard, `Warning Lost ImageTagMirrorSet/apps "a b" by mirrorset-guard.io/test`},
		{Report{Reason: "Back"}, guard, `Normal Back ValidatingWebhookConfiguration/guard "" by mirrorset-guard.io/test`},
		{Report{Reason: "Back"}, nil, ""},
	} {
		client := fake.NewClientset()
		if err := Events(client.EventsV1(), author, tt.otherwise)(t.Context(), tt.report); err != nil {
			t.Fatal(err)
		}
		written, err := client.EventsV1().Events(events.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range written.Items {
			got += fmt.Sprintf("%s %s %s/%s %q by %s", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Note, e.ReportingController)
		}
		if got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}
