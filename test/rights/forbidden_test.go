package rights

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	inventory "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// TestForbidden: what may not be read is not taken for what is not there. For each kind that names images, or says what nodes do, a user
// who may list all others learns what is missing, and so does whoever reads the dump that this user makes.
func TestForbidden(t *testing.T) {
	t.Parallel()
	s := newForbidding(t)
	all := s.as(t, schema.GroupResource{})
	dump := filepath.Join(t.TempDir(), "all.json")
	for _, q := range slices.Concat([][]string{{"snapshot", "-f", dump}}, s.questions) {
		if got := s.ask(t.Context(), append(q, all...)); got.Code != 0 {
			t.Fatalf("%q by a user who may read all: %+v", q, got)
		}
	}
	kinds := []schema.GroupResource{{Resource: "nodes"}, {Group: "machineconfiguration.openshift.io", Resource: "machineconfigpools"}}
	for _, k := range images.Known() {
		kinds = append(kinds, k.Resource.GroupResource())
	}
	live := []string{"nodes", "pods", "clusterserviceversions", "machineconfigs", "pinnedimagesets"} // of which each question is asked without a dump, too
	var asking errgroup.Group
	asking.SetLimit(8)
	for _, kind := range kinds {
		user, dump := s.as(t, kind), filepath.Join(t.TempDir(), kind.Resource+".json")
		asking.Go(func() error {
			got := s.ask(t.Context(), append([]string{"snapshot", "-f", dump}, user...))
			if got.Code != 2 || !strings.Contains(got.Err, kind.String()) {
				t.Errorf("snapshot without %s: %+v", kind, got)
			}
			if kind.Resource == "clusterversions" { // it decides about mirrors: there is no dump without it
				return nil
			}
			from := [][]string{{"--from", dump}}
			if slices.Contains(live, kind.Resource) {
				from = append(from, user)
			}
			for _, world := range from {
				for _, q := range s.questions {
					got := s.ask(t.Context(), append(q, world...))
					if refused := q[0] == "deletion" && got.Code == 1; !refused && got.Code != 2 || !strings.Contains(got.Out+got.Err, kind.String()) {
						t.Errorf("%q without %s, %s: %+v", q, kind, world[0], got)
					}
					if q[0] == "keep" && got.Out != "" {
						t.Errorf("a list without %s, %s: %s", kind, world[0], got.Out)
					}
				}
			}
			return nil
		})
	}
	_ = asking.Wait()
}

// A forbidding is a cluster whose users may not list one kind each.
type forbidding struct {
	*cluster.Cluster
	rules     []rbacv1.PolicyRule
	questions [][]string
}

func newForbidding(t *testing.T) *forbidding {
	s := &forbidding{Cluster: cluster.New(t)}
	if err := cluster.InstallCRDs(s.Config, envtest.CRDInstallOptions{CRDs: looseCRDs()}); err != nil {
		t.Fatal(err)
	}
	everything, err := inventory.New(s.Config, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.rules = everything.Rules()
	front := registries.Start(t)
	front.PushImage(t, "example.com/shop/cart:v1", "cart")
	s.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"+clitest.CartDeployment+"\n---\n"+clitest.ShopMirror)
	flags := []string{"--allow-loopback", "--registry-ca", clitest.Written(t, "ca.pem", string(front.CA)), "--resolve", "example.com=" + front.Addr("example.com")}
	s.questions = [][]string{
		append([]string{"keep", "example.com", "-o", "refs"}, flags...),
		append([]string{"deletion", "example.com/shop/other:v1"}, flags...),
		append([]string{"sync", "--dry-run"}, flags...),
	}
	return s
}

// as returns the flags of a user who may read all but a kind.
func (s *forbidding) as(t *testing.T, kind schema.GroupResource) []string {
	t.Helper()
	name := "all-but-" + kind.Resource + "." + kind.Group
	var rules []rbacv1.PolicyRule
	for _, r := range s.rules {
		if r.APIGroups[0] == kind.Group {
			r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(resource string) bool { return resource == kind.Resource })
		}
		if len(r.Resources) > 0 {
			rules = append(rules, r)
		}
	}
	roles := kubernetes.NewForConfigOrDie(s.Config).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := roles.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if _, err := roles.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitRights(t.Context(), s.Config, name, "", rules); err != nil {
		t.Fatal(err)
	}
	return []string{"--kubeconfig", s.KubeconfigAs(t, name)}
}

// ask runs a command, which is to be done long before all that it could wait for is given up.
func (s *forbidding) ask(ctx context.Context, args []string) clitest.Outcome {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var out, err bytes.Buffer
	code := app.Run(ctx, append([]string{"mirrorset-guard"}, args...), strings.NewReader(""), &out, &err)
	return clitest.Outcome{Out: out.String(), Err: err.String(), Code: code}
}
