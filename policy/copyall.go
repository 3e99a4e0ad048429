package policy

// AllCopies returns what Copies does, and after it what the mirrors have already: all that a mirror has to
// be given for the images of the change to be there. Open are the references of images about which it
// could not be determined whether the mirrors have them; they are among those that are not missing.
func (p Plan) AllCopies(v Verdict, facts Facts) (all []Copy, missing int, open []string) {
	all = v.Copies()
	missing = len(all)
	seen := map[string]bool{}
	for i := range all {
		seen[all[i].To.Ref] = true
	}
	for _, i := range p.ranking() {
		a := p.settings.assess(&p.Reroutes[i], facts)
		places := a.newRoute.mirrors()
		if a.After.Err != nil || len(places) == 0 || seen[places[0].Ref] {
			continue
		}
		at := places[0]
		if served, ok := a.newRoute.served(); ok && served.Mirror {
			at = served
		}
		if seen[at.Ref] {
			continue
		}
		seen[at.Ref] = true
		if a.mirrors == Unsure {
			open = append(open, a.Image.Ref)
		}
		all = append(all, *a.copyTo(at.Location))
	}
	return all, missing, open
}

// LooksForSignatures reports whether nodes look for signatures of the images of c at its place.
func (p Plan) LooksForSignatures(c *Copy) bool {
	for i := range p.Reroutes {
		r := &p.Reroutes[i]
		for k := range r.After.Sources {
			if s := &r.After.Sources[k]; s.Ref == c.To.Ref && s.WantsSignatures() {
				return true
			}
		}
	}
	return false
}
