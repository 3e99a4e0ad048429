// Package follow keeps up with the objects of an API server, and knows how far its
// knowledge of them can be trusted.
//
//	source := &follow.Source{
//		Name:   "pods",
//		Client: follow.Builtin(kube.CoreV1().Pods(""), kube),
//		Trim:   func(o runtime.Object) any { return o.(*corev1.Pod).Spec.NodeName },
//		Sink:   sink,
//	}
//	go source.Run(ctx, logger)
//	source.Status()
//
// A Source follows one resource, or one object of it. Objects are listed (list.go), watched
// (watch.go), trimmed as they come in (store.go), and passed on to a Sink. The Status (status.go) says
// whether the source has been read, whether the cluster serves it and lets it be read, and since when
// it has not been heard from.
//
// client-go does most of the work. This package makes up for what it leaves out: it takes
// a connection that is closed before an answer for a watch that ended, lets a watch last for up to ten
// minutes during which the other end may be dead, asks a minute after the API server has
// come back, and lists 100,000 objects in one piece.
//
// EachObject (listing.go) is for objects that are read now and then, not followed.
package follow
