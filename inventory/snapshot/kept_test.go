package snapshot

import (
	"slices"
	"strings"
	"testing"

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
