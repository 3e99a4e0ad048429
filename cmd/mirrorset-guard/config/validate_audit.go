package config

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
)

// The bounds of the values of Audit; the comments on the types name them.
const (
	maxAuditFacts = 10_000
	minAuditMiB   = 10 // more than the longest record has
	maxAuditMiB   = 10_240
	maxAuditFiles = 10_000
	maxAuditDays  = 3650
)

func (v *validator) audit(path *field.Path, a v1alpha1.Audit) {
	if v.wrong[path.String()] {
		return
	}
	oneOf(v, path.Child("destination"), a.Destination)
	v.within(path.Child("facts"), a.Facts, 0, maxAuditFacts)
	file := path.Child("file")
	if v.wrong[file.String()] {
		return
	}
	switch {
	case a.Destination == "file" && a.File.Path == "":
		v.add(field.Required(file.Child("path"), "where the records go"))
	case a.Destination != "file" && a.File.Path != "":
		v.add(field.Invalid(file.Child("path"), a.File.Path, "the destination is not file: nothing would be written there"))
	case a.File.Path != "" && !filepath.IsAbs(a.File.Path):
		v.add(field.Invalid(file.Child("path"), a.File.Path, "want a path that begins with /"))
	}
	v.within(file.Child("maxSizeMiB"), a.File.MaxSizeMiB, minAuditMiB, maxAuditMiB)
	v.within(file.Child("maxFiles"), a.File.MaxFiles, 0, maxAuditFiles)
	v.within(file.Child("maxAgeDays"), a.File.MaxAgeDays, 0, maxAuditDays)
}

func (v *validator) within(path *field.Path, n, least, most int) {
	if n < least || n > most {
		v.add(field.Invalid(path, n, fmt.Sprintf("want from %d to %d", least, most)))
	}
}
