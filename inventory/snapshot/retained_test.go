package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestKeptBesideItsOwner: an old ReplicaSet is history where the dump has its very owner,
// wherever in the dump, and may be all there is of a template where it does not.
func TestKeptBesideItsOwner(t *testing.T) {
	deployment := func(name string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: shop, name: " + name + "}\nspec: {template: {spec: {containers: [{name: app, image: quay.io/new:1}]}}}\n"
	}
	old := "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {namespace: shop, name: cart-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: cart, uid: '1', controller: true}]}\n" +
		"spec: {replicas: 0, template: {spec: {containers: [{name: app, image: quay.io/old:1}]}}}\n"
	for _, tc := range []struct {
		name string
		dump []string
		want policy.Use
	}{
		{"the owner before it", []string{deployment("cart"), old}, policy.History},
		{"the owner after it", []string{old, deployment("cart")}, policy.History},
		{"another Deployment alone", []string{deployment("web"), old}, policy.Referenced},
		{"no Deployment", []string{old}, policy.Referenced},
	} {
		s, err := ReadFrom(strings.NewReader(strings.Join(tc.dump, "---\n")), "dump")
		if err != nil {
			t.Fatal(err)
		}
		images, err := s.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list := images.ByReference()
		i := slices.IndexFunc(list, func(img policy.Image) bool { return img.Ref == "quay.io/old:1" })
		if i < 0 || len(list[i].Consumers) != 1 || list[i].Consumers[0].Use != tc.want {
			t.Errorf("%s: %+v, want %v", tc.name, list, tc.want)
		}
	}
}

// TestFormerGroups: objects of API groups that kinds were in before are read like those of today,
// and keep what they keep.
func TestFormerGroups(t *testing.T) {
	const dump = `
apiVersion: extensions/v1beta1
kind: DeploymentList
items:
- metadata: {namespace: shop, name: cart}
  spec: {template: {spec: {containers: [{name: app, image: "quay.io/cart:2"}]}}}
---
apiVersion: extensions/v1beta1
kind: ReplicaSet
metadata: {namespace: shop, name: cart-1, ownerReferences: [{apiVersion: extensions/v1beta1, kind: Deployment, name: cart, uid: "1", controller: true}]}
spec: {replicas: 0, template: {spec: {containers: [{name: app, image: "quay.io/cart:1"}]}}}
---
apiVersion: extensions/v1beta1
kind: DaemonSet
metadata: {namespace: shop, name: agent}
spec: {template: {spec: {containers: [{name: app, image: "quay.io/agent:1"}]}}}
---
apiVersion: v1
kind: DeploymentConfig
metadata: {namespace: shop, name: web}
spec: {template: {spec: {containers: [{name: app, image: "quay.io/web:1"}]}}}
---
apiVersion: v1
kind: BuildConfig
metadata: {namespace: shop, name: web}
spec: {strategy: {dockerStrategy: {from: {kind: DockerImage, name: "quay.io/ubi:9"}}}}
`
	s, err := ReadFrom(strings.NewReader(dump), "dump")
	if err != nil {
		t.Fatal(err)
	}
	images, err := s.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, img := range images.ByReference() {
		for _, c := range img.Consumers {
			got = append(got, fmt.Sprintf("%s %s %t %t", img.Ref, c, c.Guessed, c.Use == policy.History))
		}
	}
	want := []string{
		"quay.io/agent:1 DaemonSet shop/agent (app) false false",
		"quay.io/cart:1 ReplicaSet shop/cart-1 (app) false true",
		"quay.io/cart:2 Deployment shop/cart (app) false false",
		"quay.io/ubi:9 BuildConfig shop/web (spec.strategy.dockerStrategy.from) false false",
		"quay.io/web:1 DeploymentConfig shop/web (app) false false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
