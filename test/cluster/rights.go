package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// AwaitRight waits until user may do something. An API server notices a role or a
// binding some time after storing it, and refuses what they grant until then.
// Config is that of an administrator.
func AwaitRight(ctx context.Context, config *rest.Config, user string, right authorizationv1.ResourceAttributes) error {
	return awaitRight(ctx, config, user, right, true)
}

// AwaitRefusal waits until user may no longer do something.
func AwaitRefusal(ctx context.Context, config *rest.Config, user string, right authorizationv1.ResourceAttributes) error {
	return awaitRight(ctx, config, user, right, false)
}

func awaitRight(ctx context.Context, config *rest.Config, user string, right authorizationv1.ResourceAttributes, granted bool) error {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
	err = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == granted, err
	})
	if err != nil {
		return fmt.Errorf("waiting until it is %t that %s may %s %s: %w", granted, user, right.Verb, right.Resource, err)
	}
	return nil
}

// AwaitRights waits for what each of a role's rules grants first. The rules
// of one object take effect together.
func AwaitRights(ctx context.Context, config *rest.Config, user, namespace string, rules []rbacv1.PolicyRule) error {
	for _, rule := range rules {
		right := authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
		}
		if len(rule.ResourceNames) > 0 {
			right.Name = rule.ResourceNames[0]
		}
		if err := AwaitRight(ctx, config, user, right); err != nil {
			return err
		}
	}
	return nil
}

// A Right is one thing that a role lets its account do.
type Right struct{ Namespace, Verb, Group, Resource, Name string }

// RightsOf returns what a role's rules grant.
func RightsOf(namespace string, rules []rbacv1.PolicyRule) []Right {
	var all []Right
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range append(r.ResourceNames, "")[:max(1, len(r.ResourceNames))] {
						all = append(all, Right{namespace, verb, group, resource, name})
					}
				}
			}
		}
	}
	return all
}

// AuditOf returns an audit policy, for WithAudit, that logs what one user asks.
func AuditOf(user string) string {
	return `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: ["` + user + `"], omitStages: [RequestReceived]}
- {level: None}
`
}

// Use returns which of rights nothing that was done uses, by an audit log, and which requests were forbidden. To find out that there is no such thing
// takes the right as well. With streams, a list counts that was streamed as a watch, which API servers can do.
func Use(log string, rights []Right, streams bool) (unused, forbidden []Right, err error) {
	data, err := os.ReadFile(log)
	if err != nil {
		return nil, nil, err
	}
	unused = slices.Clone(rights)
	for line := range strings.Lines(string(data)) {
		var e struct {
			Verb      string
			ObjectRef struct{ Resource, APIGroup, Namespace, Name string }
			Status    struct{ Code int } `json:"responseStatus"`
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // half a line, still being written
		}
		o := e.ObjectRef
		if e.Status.Code == http.StatusForbidden {
			forbidden = append(forbidden, Right{o.Namespace, e.Verb, o.APIGroup, o.Resource, o.Name})
		}
		if e.Status.Code/100 != 2 && e.Status.Code != http.StatusNotFound {
			continue
		}
		unused = slices.DeleteFunc(unused, func(r Right) bool {
			same := r.Verb == e.Verb || streams && r.Verb == "list" && e.Verb == "watch" || streams && r.Verb == "watch" && e.Verb == "list"
			return same && r.Group == o.APIGroup && r.Resource == o.Resource && (r.Namespace == "" || r.Namespace == o.Namespace) && (r.Name == "" || r.Name == o.Name)
		})
	}
	return unused, forbidden, nil
}
