package v1alpha1

// IsOverridden reports whether an override admitted the change.
func (d *Decision) IsOverridden() bool { return d.Override != nil && d.Override.Result == "used" }

// Omit says that something is left out, and why.
func (c *Change) Omit(what string) {
	if c.Omitted != "" {
		what = c.Omitted + "; " + what
	}
	c.Omitted = what
}
