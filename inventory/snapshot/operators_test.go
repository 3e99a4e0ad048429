package snapshot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// TestOperators: a dump of a dump has the same operators, and says so where there are none. A dump that was made in
// another way may just lack them.
func TestOperators(t *testing.T) {
	const installed = `---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: quay, namespace: quay, annotations: {note: canary}}
spec: {name: quay-operator, channel: stable-3.12, source: redhat-operators, sourceNamespace: openshift-marketplace, config: {env: [{name: TOKEN, value: canary}]}}
status: {installedCSV: quay-operator.v3.12.1, currentCSV: canary}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: argocd, labels: {note: canary}}
spec: {namespace: argocd, serviceAccount: {name: canary}, source: {sourceType: Catalog, catalog: {packageName: argocd-operator, channels: [alpha], version: ">=0.6.0"}}}
status: {install: {bundle: {name: argocd-operator.v0.6.0, version: 0.6.0}}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: other, namespace: quay}
spec: {channel: {name: x}}
`
	operators := func(dump string) *objects.Operators {
		t.Helper()
		s, err := ReadFrom(strings.NewReader(dump), "dump.yaml")
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Operators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	again := func(dump string) string {
		t.Helper()
		s, err := ReadFrom(strings.NewReader(dump), "dump.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(t.Context(), &b, s, s.TrustSettings()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const whole = `---
{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"operators":true}
`
	got := operators(podYAML + installed + whole)
	if len(got.Subscriptions) != 1 || len(got.Extensions) != 1 || got.Unread != "" || got.Extensions[0].Installed().Version != "0.6.0" || got.Extensions[0].Spec.Source.Catalog.Package != "argocd-operator" {
		t.Errorf("got %+v", got)
	}
	written := again(podYAML + installed + whole)
	if strings.Contains(written, "canary") {
		t.Errorf("the dump has what no answer depends on:\n%s", written)
	}
	if diff := cmp.Diff(got, operators(written)); diff != "" {
		t.Error(diff)
	}
	const some = "the dump does not say that it has all Subscriptions and ClusterExtensions, as one by mirrorset-guard snapshot does"
	if got := operators(podYAML + installed); len(got.Subscriptions) != 1 || got.Unread != some {
		t.Errorf("another tool has not written all: %+v", got)
	}
	if got := operators(again(podYAML + installed)); len(got.Subscriptions) != 1 || got.Unread != some {
		t.Errorf("what the first dump does not tell, the second does: %+v", got)
	}
	const denied = `---
{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"operatorsUnread":"ClusterExtensions were not read,\nas the user may not"}
`
	for _, dump := range []string{podYAML + installed + denied, again(podYAML + installed + denied)} {
		if got := operators(dump); len(got.Subscriptions) != 1 || got.Unread != "ClusterExtensions were not read, as the user may not" {
			t.Errorf("got %+v", got)
		}
	}
	if got := operators(podYAML); got.Unread != "the dump has no Subscription and no ClusterExtension" {
		t.Errorf("got %+v", got)
	}
	if got := operators(again(podYAML)); got.Unread == "" {
		t.Errorf("what the first dump does not tell, the second does: %+v", got)
	}
	if got := operators(podYAML + strings.Replace(installed, "installedCSV: quay-operator.v3.12.1", "installedCSV: [1]", 1) + whole); !strings.HasPrefix(got.Unread, "an object in the dump cannot be read: ") {
		t.Errorf("got %+v", got)
	}
	none := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"operators":true}]}`
	if got := operators(none); got.Unread != "" || len(got.Subscriptions)+len(got.Extensions) != 0 {
		t.Errorf("got %+v", got)
	}
}
