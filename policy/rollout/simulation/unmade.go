package simulation

// unmade says why no other pod may be made instead of p once it is evicted, or of one that is
// waited for; "" if one is.
func (w *world) unmade(p *pod, v view) string {
	switch {
	case v.hopeful:
		return ""
	case p.before != nil && v.keeps(*p.before):
		return "is made again when the one before has ended, which is being deleted and " + p.before.why
	case p.node < 0: // it is there
		return ""
	case p.Owner.Kind == "StatefulSet" && p.Finalizers != "" && !v.works:
		return "is made again when the one before has ended, which keeps " + p.Finalizers + " (finalizers)"
	default:
		return ""
	}
}

// withheld says why a pod that waits for a node is not there yet, "" if it is.
func (r *run) withheld(pod int32) string { return r.w.unmade(&r.w.pods[pod], r.view) }
