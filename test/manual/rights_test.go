package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

const (
	securityFile = "docs/security.md"
	rightsBegin  = "<!-- rights: made from manifests/base/clusterrole.yaml -->\n"
	rightsEnd    = "<!-- end of rights -->\n"
)

// TestRights: docs/security.md has every right of the guard's ClusterRole, with its reason; -update
// writes them. The reasons are the comments of the manifest.
func TestRights(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(top, "manifests", "base", "clusterrole.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := rightsTable(string(source))
	if err != nil {
		t.Fatal(err)
	}
	golden.Part(t, filepath.Join(top, securityFile), rightsBegin, rightsEnd, "\n"+table+"\n")
}

// rightsTable returns a line for each resource that the role names, by verbs, with the reason: the
// comment beside the resource, or the one above its rule.
func rightsTable(source string) (string, error) {
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(source), &role); err != nil {
		return "", err
	}
	rules := strings.Split(source[strings.Index(source, "\nrules:\n")+len("\nrules:\n"):], "  - apiGroups:")
	if len(rules) != len(role.Rules)+1 {
		return "", fmt.Errorf("%d rules are written, and %d are read", len(rules)-1, len(role.Rules))
	}
	var b strings.Builder
	verbs, before := "", ""
	for i, rule := range role.Rules {
		if may := strings.Join(rule.Verbs, ", "); may != verbs {
			fmt.Fprintf(&b, "\nTo %s:\n", may)
			verbs, before = may, ""
		}
		own := ownReasons(rules[i+1])
		for _, resource := range rule.Resources {
			why := cmp.Or(own[resource], strings.TrimSuffix(commentBefore(rules[i]), "."))
			if why == "" {
				return "", fmt.Errorf("%s has no reason: write it as a comment", resource)
			}
			if why == before {
				why = "likewise"
			} else {
				before = why
			}
			fmt.Fprintf(&b, "- %s: %s\n", nameOf(rule, resource), why)
		}
	}
	return strings.TrimPrefix(strings.ReplaceAll(b.String(), ":\n- ", ":\n\n- "), "\n"), nil
}

// nameOf returns a resource with its group, and the names to which the right is limited.
func nameOf(rule rbacv1.PolicyRule, resource string) string {
	name := "`" + resource + "`"
	if group := rule.APIGroups[0]; group != "" {
		name = "`" + resource + "." + group + "`"
	}
	if len(rule.ResourceNames) > 0 {
		name += " named `" + strings.Join(rule.ResourceNames, "`, `") + "`"
	}
	return name
}

// commentBefore returns the comment at the end of a text.
func commentBefore(text string) string {
	var words []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		comment, ok := strings.CutPrefix(lines[i], "  # ")
		if !ok {
			break
		}
		words = append([]string{comment}, words...)
	}
	return strings.Join(words, " ")
}

// ownReasons returns the comments beside resources in a rule.
func ownReasons(rule string) map[string]string {
	reasons := map[string]string{}
	for line := range strings.SplitSeq(rule, "\n") {
		if name, comment, ok := strings.Cut(line, " # "); ok {
			reasons[strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "- "))] = comment
		}
	}
	return reasons
}

// TestEveryRightNeedsAReason: what TestRights is for.
func TestEveryRightNeedsAReason(t *testing.T) {
	const role = "kind: ClusterRole\nrules:\n  - apiGroups: [apps]\n    resources:\n      - deployments # templates\n      - statefulsets\n    verbs: [list]\n"
	if _, err := rightsTable(role); err == nil || !strings.Contains(err.Error(), "statefulsets has no reason") {
		t.Errorf("got %v", err)
	}
	got, err := rightsTable(strings.Replace(role, "  - apiGroups", "  # What\n  # runs.\n  - apiGroups", 1))
	if err != nil || !strings.Contains(got, "To list:\n\n- `deployments.apps`: templates\n- `statefulsets.apps`: What runs\n") {
		t.Errorf("%s %v", got, err)
	}
}
