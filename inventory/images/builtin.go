package images

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A BuiltinKind is a kind of Kubernetes whose objects name images in pod templates, or are pods.
type BuiltinKind struct {
	Resource schema.GroupResource
	Kind     string
	// extract returns false for objects of another type.
	extract func(runtime.Object) (Holder, bool)
	decode  func([]byte) (Holder, error)
}

// builtinKinds are all of them. Their image fields are the same in every version there has been. Package
// cluster wants a client for each, in builtins.
var builtinKinds = []BuiltinKind{
	builtin("", "pods", "Pod", fromPod),
	builtin("", "replicationcontrollers", "ReplicationController", fromReplicationController),
	builtin("apps", "deployments", "Deployment", func(o *appsv1.Deployment) Holder {
		return fromTemplate("Deployment", o, &o.Spec.Template, attributes{})
	}),
	builtin("apps", "replicasets", "ReplicaSet", func(o *appsv1.ReplicaSet) Holder {
		return fromTemplate("ReplicaSet", o, &o.Spec.Template, attributes{keeper: keeperOf(o, o.Spec.Replicas)})
	}),
	builtin("apps", "statefulsets", "StatefulSet", func(o *appsv1.StatefulSet) Holder {
		return fromTemplate("StatefulSet", o, &o.Spec.Template, attributes{})
	}),
	builtin("apps", "daemonsets", "DaemonSet", func(o *appsv1.DaemonSet) Holder {
		return fromTemplate("DaemonSet", o, &o.Spec.Template, attributes{})
	}),
	builtin("batch", "jobs", "Job", func(o *batchv1.Job) Holder {
		return fromTemplate("Job", o, &o.Spec.Template, attributes{use: jobUse(o)})
	}),
	builtin("batch", "cronjobs", "CronJob", func(o *batchv1.CronJob) Holder {
		return fromTemplate("CronJob", o, &o.Spec.JobTemplate.Spec.Template, attributes{})
	}),
}

// builtin returns the row of a kind whose objects are of type *T.
func builtin[T any, P interface {
	*T
	runtime.Object
}](group, resource, kind string, extract func(P) Holder) BuiltinKind {
	return BuiltinKind{
		Resource: schema.GroupResource{Group: group, Resource: resource},
		Kind:     kind,
		extract: func(o runtime.Object) (Holder, bool) {
			typed, ok := o.(P)
			if !ok {
				return Holder{}, false
			}
			return extract(typed), true
		},
		decode: func(data []byte) (Holder, error) {
			o := P(new(T))
			if err := json.Unmarshal(data, o); err != nil {
				return Holder{}, fmt.Errorf("reading %s: %w", kind, err)
			}
			return extract(o), nil
		},
	}
}

// BuiltinKinds returns the kinds of Kubernetes that name images.
func BuiltinKinds() []BuiltinKind { return slices.Clone(builtinKinds) }

// builtinKindOf returns the row of a kind, nil if it has none.
func builtinKindOf(kind schema.GroupKind) *BuiltinKind {
	for i, b := range builtinKinds {
		if b.Kind == kind.Kind && b.Resource.Group == kind.Group {
			return &builtinKinds[i]
		}
	}
	return nil
}

// ReadsTemplates reports whether the images are those of pod templates.
func (k BuiltinKind) ReadsTemplates() bool { return k.Kind != "Pod" }

// Extract returns the images that a built-in Kubernetes object names. It
// reports false for types that hold none.
func Extract(o runtime.Object) (Holder, bool) {
	for _, b := range builtinKinds {
		if h, ok := b.extract(o); ok {
			return h, true
		}
	}
	return Holder{}, false
}
