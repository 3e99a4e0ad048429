package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Kind is one of the API that operators provide.
type Kind struct{ Group, Version, Kind string }

// String returns "Kafka of kafka.strimzi.io/v1".
func (k Kind) String() string { return shown(k.Kind + " of " + k.Group + "/" + k.Version) }

// A Requirement is something that a bundle needs of another operator, which OLM would install for it: one of the three.
type Requirement struct {
	// Package is that of which a version in Range is needed.
	Package, Range string
	// Kind is provided by whichever operator is needed.
	Kind Kind
	// Other is a property whose meaning is not known here, as the catalog has it.
	Other string
}

// String says what is required.
func (r Requirement) String() string {
	switch {
	case r.Package != "":
		return strings.TrimSpace(fmt.Sprintf("the package %s %s", shown(r.Package), shown(r.Range)))
	case r.Other != "":
		return "what is not understood here: " + text.Line(text.Cut(r.Other, maxShown))
	default:
		return r.Kind.String()
	}
}

// The types of properties that are read (operator-registry, alpha/property). OLM ignores what it does not know.
const (
	kindProperty            = "olm.gvk"
	kindRequiredProperty    = "olm.gvk.required"
	packageRequiredProperty = "olm.package.required"
	labelRequiredProperty   = "olm.label.required"
	constraintProperty      = "olm.constraint"
)

// A requiredPackage is the value of olm.package.required.
type requiredPackage struct{ PackageName, VersionRange string }

// A constraint is the value of olm.constraint, as far as it is understood.
type constraint struct {
	FailureMessage string
	Package        *requiredPackage
	GVK            *Kind
}

// requirement reads a property. It reports whether that is a requirement.
func (p *property) requirement() (Requirement, bool) {
	var r Requirement
	known := false
	switch p.Type {
	case packageRequiredProperty:
		var of requiredPackage
		known = json.Unmarshal(p.Value, &of) == nil
		r.Package, r.Range = of.PackageName, of.VersionRange
	case kindRequiredProperty:
		known = json.Unmarshal(p.Value, &r.Kind) == nil
	case constraintProperty:
		r, known = constrained(p.Value)
	case labelRequiredProperty:
	default:
		return r, false
	}
	if !known || r == (Requirement{}) || r.Package == "" && r.Range != "" {
		r = Requirement{Other: p.Type + " " + string(p.Value)}
	}
	return r, true
}

// constrained reads a constraint that asks for nothing but a package or a kind. Compound ones and such in CEL are not
// understood.
func constrained(value []byte) (Requirement, bool) {
	var c constraint
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	switch err := d.Decode(&c); {
	case err != nil:
		return Requirement{}, false
	case c.GVK != nil: // which is looked at first
		return Requirement{Kind: *c.GVK}, true
	case c.Package != nil:
		return Requirement{Package: c.Package.PackageName, Range: c.Package.VersionRange}, true
	default:
		return Requirement{}, false
	}
}
