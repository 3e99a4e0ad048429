package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// The global pull secret: the credentials of the nodes.
const (
	pullSecretNamespace = "openshift-config" //nolint:gosec // a name, not a secret
	pullSecretName      = "pull-secret"
)

// pullSecret returns the source of the global pull secret. It asks for this one secret
// only, which a role can grant by its name. A refusal is an answer, and forgets the secret: registries are then
// asked without credentials, which are not those of nodes, and a note says so.
func pullSecret(kube kubernetes.Interface, tell func([]byte, error), changed func(object string)) *source {
	return &source{
		isSecret: true,
		Source: &follow.Source{
			Name:     "secret " + pullSecretNamespace + "/" + pullSecretName,
			Client:   follow.Builtin(kube.CoreV1().Secrets(pullSecretNamespace), kube),
			Object:   pullSecretName,
			PageSize: 1,
			IsAnswer: apierrors.IsForbidden,
			Forgets:  true,
			Trim:     trimSecret,
			Sink:     follow.One((&secretHistory{tell: tell, changed: changed}).update),
		},
	}
}

// PullSecretRule returns what a role in namespace openshift-config has to allow
// for the global pull secret to be followed.
func PullSecretRule() rbacv1.PolicyRule {
	return rule("", pullSecretName, []string{"list", "watch"}, "secrets")
}

// A secretHistory passes the global pull secret on to Options.OnPullSecret, at first
// and when it has changed, and keeps only what it needs to tell a change.
type secretHistory struct {
	tell    func(dockerconfigjson []byte, err error)
	changed func(object string) // may be nil
	last    string              // what was passed on last, "" for nothing yet
	read    string              // the last of these but a refusal: that it may not be read, and that it may again, is no change of it
}

// secretContent is the trimmed pull secret.
type secretContent struct {
	data []byte
	err  error
}

func trimSecret(o runtime.Object) any {
	data := o.(*corev1.Secret).Data[corev1.DockerConfigJsonKey]
	if len(data) == 0 {
		return secretContent{err: fmt.Errorf("secret %s/%s has no %s",
			pullSecretNamespace, pullSecretName, corev1.DockerConfigJsonKey)}
	}
	return secretContent{data: data}
}

// update is a follow.One.
func (s *secretHistory) update(value any, lacking error) {
	c, there := value.(secretContent)
	if !there && lacking == nil {
		lacking = errors.New("there is no such secret")
	}
	if !there {
		c.err = fmt.Errorf("reading secret %s/%s: %w", pullSecretNamespace, pullSecretName, lacking)
	}
	sum := sha256.Sum256(c.data) // what is forgotten is not kept here
	now := "data " + string(sum[:])
	switch {
	case apierrors.IsForbidden(c.err): // its words name the verb: a watch and a list are refused in turn
		now = "forbidden"
	case c.err != nil:
		now = "error " + c.err.Error()
	}
	if now == s.last {
		return
	}
	s.last = now
	s.tell(c.data, c.err)
	if now == "forbidden" || now == s.read {
		return
	}
	isFirst := s.read == ""
	s.read = now
	if !isFirst && s.changed != nil {
		s.changed("Secret " + pullSecretNamespace + "/" + pullSecretName)
	}
}
