package rights

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// auditPolicy logs every request of the guard, and no others.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: ["` + process.User + `"]}
- {level: None}
`

// An event is the part of a line of the audit log that the test uses.
type event struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  struct {
		Resource  string `json:"resource"`
		APIGroup  string `json:"apiGroup"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"` // 0 if the request has only begun
	} `json:"responseStatus"`
}

func readAudit(t *testing.T, file string) []event {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var events []event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // a line that is still being written
		}
		events = append(events, e)
	}
	return events
}

// A grant is one thing that the manifests let the guard do.
type grant struct{ namespace, verb, group, resource, name string }

func (g grant) String() string {
	return fmt.Sprintf("%s %s.%s %q in namespace %q", g.verb, g.resource, g.group, g.name, g.namespace)
}

// isUsedBy reports whether the API server has done what e asks for, and g covers it. To find out that
// there is no such object takes the right as well.
func (g grant) isUsedBy(e event) bool {
	o := e.ObjectRef
	done := e.ResponseStatus.Code/100 == 2 || e.Verb == "get" && e.ResponseStatus.Code == http.StatusNotFound
	return done && g.verb == e.Verb && g.group == o.APIGroup && g.resource == o.Resource &&
		(g.namespace == "" || g.namespace == o.Namespace) && (g.name == "" || g.name == o.Name)
}

// unused returns the grants that no event uses.
func unused(grants []grant, events []event) []grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g grant) bool { return slices.ContainsFunc(events, g.isUsedBy) })
}

// A role is a Role or a ClusterRole.
type role struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// granted returns what the manifests grant to the guard, by roles that are bound to it.
func granted(t *testing.T) []grant {
	t.Helper()
	bound := map[[2]string]bool{} // by kind and name
	manifest(t, "*binding.yaml", func(b rbacv1.ClusterRoleBinding) { bound[[2]string{b.RoleRef.Kind, b.RoleRef.Name}] = true })
	var grants []grant
	manifest(t, "*role.yaml", func(r role) {
		if !bound[[2]string{r.Kind, r.Metadata.Name}] {
			return
		}
		for _, rule := range r.Rules {
			grants = append(grants, grantsOf(r.Metadata.Namespace, rule)...)
		}
	})
	return grants
}

func grantsOf(namespace string, r rbacv1.PolicyRule) []grant {
	names := r.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var grants []grant
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				for _, name := range names {
					grants = append(grants, grant{namespace, verb, group, resource, name})
				}
			}
		}
	}
	return grants
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
