package images

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinKinds are the kinds of Kubernetes whose objects name images in pod templates, or are pods. Their image fields are the same in
// every version there has been. Package cluster wants a client for each, in imageSources.
var builtinKinds = []Kind{
	builtin("", "pods", "Pod", fromPod),
	builtin("", "replicationcontrollers", "ReplicationController", fromReplicationController, "spec.template"),
	builtin("apps", "deployments", "Deployment", func(o *appsv1.Deployment) Holder {
		return fromTemplate("Deployment", o, &o.Spec.Template, Reference{})
	}, "spec.template"),
	builtin("apps", "replicasets", "ReplicaSet", func(o *appsv1.ReplicaSet) Holder {
		return fromTemplate("ReplicaSet", o, &o.Spec.Template, Reference{Keeper: keeperOf(o, o.Spec.Replicas)})
	}, "spec.template"),
	builtin("apps", "statefulsets", "StatefulSet", func(o *appsv1.StatefulSet) Holder {
		return fromTemplate("StatefulSet", o, &o.Spec.Template, Reference{})
	}, "spec.template"),
	builtin("apps", "daemonsets", "DaemonSet", func(o *appsv1.DaemonSet) Holder {
		return fromTemplate("DaemonSet", o, &o.Spec.Template, Reference{})
	}, "spec.template"),
	builtin("batch", "jobs", "Job", func(o *batchv1.Job) Holder {
		return fromTemplate("Job", o, &o.Spec.Template, Reference{Use: jobUse(o)})
	}, "spec.template"),
	builtin("batch", "cronjobs", "CronJob", func(o *batchv1.CronJob) Holder {
		return fromTemplate("CronJob", o, &o.Spec.JobTemplate.Spec.Template, Reference{})
	}, "spec.jobTemplate.spec.template"),
}

// builtin returns the row of a kind whose objects are of type *T.
func builtin[T any, P interface {
	*T
	runtime.Object
}](group, resource, kind string, extract func(P) Holder, templates ...string,
) Kind {
	return Kind{
		Resource: resourceOf(group, "v1", resource), Kind: kind, templates: templates,
		empty: func() runtime.Object { return P(new(T)) }, typed: func(o runtime.Object) Holder { return extract(o.(P)) },
	}
}

// Known returns the kinds that are known to name images: those of Kubernetes, then others.
func Known() []Kind { return slices.Concat(builtinKinds, customKinds) }

// KindOf finds a kind among them.
func KindOf(kind schema.GroupKind) (Kind, bool) {
	for _, all := range [][]Kind{builtinKinds, customKinds} {
		for _, k := range all {
			if k.Kind == kind.Kind && k.Resource.Group == kind.Group {
				return k, true
			}
		}
	}
	return Kind{}, false
}

// IsBuiltin reports whether the kind is one of Kubernetes, and has a Go type here.
func (k Kind) IsBuiltin() bool { return k.typed != nil }
