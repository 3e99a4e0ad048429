package policy

// assumption says why the image counts as found on the new route, if it was found only on the evidence
// of a mirroring that has not been done: at the place that serves it, or of its signatures there.
func (a *assessment) assumption() string {
	at, ok := a.newRoute.served()
	if !ok {
		return ""
	}
	if at.fact.Assumed != "" {
		return at.fact.Assumed
	}
	for _, s := range at.signatures {
		if f := a.found.At(s.at); f.Assumed != "" {
			return f.Assumed
		}
	}
	return ""
}

// Assumption says on what evidence the image of r counts as found on its new route, if that is a
// mirroring that has not been done; "" where it was found, or was not.
func (p Plan) Assumption(r *Reroute, facts Facts) string {
	return p.settings.assess(r, facts).assumption()
}
