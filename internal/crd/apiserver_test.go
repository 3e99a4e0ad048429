//go:build integration

package crd

import (
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// TestAPIServer: a kube-apiserver with the same definitions accepts what Validate accepts,
// and refuses what it refuses.
func TestAPIServer(t *testing.T) {
	c := cluster.New(t)
	for gvk, name := range files {
		text, err := manifests.ReadFile(embedded(name))
		if err != nil {
			t.Fatal(err)
		}
		// Most exist already.
		if out, err := c.Kubectl(t.Context(), string(text), "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
			t.Fatalf("%s: %v\n%s", gvk.Kind, err, out)
		}
		waitForKind(t, c, strings.ToLower(gvk.Kind)+"."+gvk.Group)
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			out, err := c.Kubectl(t.Context(), tc.object, "create", "--dry-run=server", "--validate=strict", "-f", "-")
			if taken := err == nil; taken != (tc.want == nil) {
				t.Errorf("the API server says: %v\n%s", err, out)
			}
			decoded := !strings.Contains(out, "strict decoding error") // otherwise it says nothing else
			for _, want := range tc.want {
				field, _, _ := strings.Cut(want, ":")
				if !strings.Contains(out, field) && (decoded || strings.Contains(want, "unknown field")) {
					t.Errorf("the API server does not speak of %s:\n%s", field, out)
				}
			}
		})
	}
}

// waitForKind waits until the API server serves a kind.
func waitForKind(t *testing.T, c *cluster.Cluster, kind string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		out, err := c.Kubectl(t.Context(), "", "get", kind)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not served: %s", kind, out)
		}
		time.Sleep(50 * time.Millisecond) // discovery has no event
	}
}
