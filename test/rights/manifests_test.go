package rights

import (
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// granted returns what the manifests grant to the guard, by roles that are bound to it.
func granted(t *testing.T) []cluster.Right {
	t.Helper()
	bound := map[rbacv1.RoleRef]bool{}
	manifest(t, "*binding.yaml", func(b rbacv1.ClusterRoleBinding) { bound[b.RoleRef] = true })
	var rights []cluster.Right
	manifest(t, "*role.yaml", func(r rbacv1.ClusterRole) {
		if bound[rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: r.Kind, Name: r.Name}] {
			rights = append(rights, cluster.RightsOf(r.Namespace, r.Rules)...)
		}
	})
	return rights
}

// manifest reads the files of the base that match a pattern.
func manifest[T any](t *testing.T, pattern string, take func(T)) {
	t.Helper()
	entries, err := manifests.Base.ReadDir("base")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if ok, err := filepath.Match(pattern, e.Name()); err != nil || !ok {
			continue
		}
		data, err := manifests.Base.ReadFile("base/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var o T
		if err := yaml.Unmarshal(data, &o); err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		take(o)
	}
}
