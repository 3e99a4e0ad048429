package cluster

import (
	"context"
	"fmt"
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
