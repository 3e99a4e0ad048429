package policy

// MalformedReference: no node can parse the reference, so none can pull the image, whatever the
// mirrors. It only warns, as no change of the mirror configuration can make that worse.
func malformedReference(p Plan, _ Facts) []Finding {
	var findings []Finding
	for _, img := range p.Malformed {
		findings = append(findings, Finding{
			Severity: Warn, Image: img,
			Reason: "no node can parse the reference", Remedy: []string{"correct the reference where it is used"},
		})
	}
	return findings
}
