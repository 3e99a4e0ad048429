//go:build integration

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
)

// TestManySignatures: no more signatures of releases are read than a guard has memory for, and it is said that there are more, in a dump
// as well.
func TestManySignatures(t *testing.T) {
	cfg := fromAPIServer(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := timeout(t)
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: objects.ManagedNamespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().ConfigMaps(objects.ManagedNamespace).DeleteCollection(context.WithoutCancel(ctx), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20 * 9 / 10
	const most = maxSignatureBytes/size + 1
	for i := range most + 1 { // ConfigMaps are there
		if i > 0 {
			cm := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("signatures-%d", i), Labels: map[string]string{objects.SignatureLabel: ""}},
				BinaryData: map[string][]byte{fmt.Sprintf("sha256-%064d-1", i): bytes.Repeat([]byte{1}, size)},
			}
			if _, err := client.CoreV1().ConfigMaps(objects.ManagedNamespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if i > 1 && i < most-2 {
			continue // megabytes are read each time
		}
		u, err := c.UpdateConfig(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if fits := i*(size+100) < maxSignatureBytes; (u.SignaturesUnread == "") != fits || fits && len(u.Signatures) != i || len(u.Signatures)*size > maxSignatureBytes {
			t.Errorf("of %d ConfigMaps, %d were read; more: %q", i, len(u.Signatures), u.SignaturesUnread)
		}
		if i == 1 || i == most {
			if dumped := dumpedUpdateConfig(t, u); dumped.SignaturesUnread != u.SignaturesUnread || len(dumped.Signatures) != len(u.Signatures) {
				t.Errorf("of %d ConfigMaps, a dump has %d; more: %q", i, len(dumped.Signatures), dumped.SignaturesUnread)
			}
		}
	}
}

// TestUpdateConfigDenied: of what the user may not read it is said that it may be there.
func TestUpdateConfigDenied(t *testing.T) {
	cfg := fromAPIServer(t)
	c, err := New(as(t, kubernetes.NewForConfigOrDie(cfg), cfg, "no-configmaps", nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := c.UpdateConfig(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	const not = "not read, as the user may not: "
	if u.SignaturesUnread != not+"ConfigMaps of openshift-config-managed with signatures of releases" {
		t.Errorf("signatures: %s", u.SignaturesUnread)
	}
	if dumped := dumpedUpdateConfig(t, u); dumped.SignaturesUnread != u.SignaturesUnread {
		t.Errorf("a dump says of signatures: %s", dumped.SignaturesUnread)
	}
}

// dumpedUpdateConfig returns what is left of u in a dump.
func dumpedUpdateConfig(t *testing.T, u *objects.UpdateConfig) *objects.UpdateConfig {
	t.Helper()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: a}\nspec: {containers: [{name: a, image: quay.io/a/b:1}]}\n"
	empty, err := snapshot.ReadFrom(strings.NewReader(pod), "pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := snapshot.Write(t.Context(), &dump, updating{empty, u}, empty.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.ReadFrom(&dump, "dump.json")
	if err != nil {
		t.Fatal(err)
	}
	dumped, err := read.UpdateConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dumped
}

// updating is a Snapshot with other ConfigMaps of updates.
type updating struct {
	*snapshot.Snapshot
	config *objects.UpdateConfig
}

func (u updating) UpdateConfig(context.Context) (*objects.UpdateConfig, error) { return u.config, nil }
