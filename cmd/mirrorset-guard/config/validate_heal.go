package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
)

// The bounds of the values of Heal; the comments on the type name them.
const (
	maxHealMiB      = 10 << 20
	minHealRequests = 100 // more than most images take
	maxHealRequests = 1_000_000
)

func (v *validator) heal(path *field.Path, h v1alpha1.Heal) {
	if v.wrong[path.String()] {
		return
	}
	secret := path.Child("pushSecret")
	if h.PushSecret == "" {
		v.add(field.Required(secret, "the name of a Secret"))
	} else if wrong := validation.IsDNS1123Subdomain(h.PushSecret); len(wrong) > 0 {
		v.add(field.Invalid(secret, h.PushSecret, "not the name of a Secret: "+strings.Join(wrong, "; ")))
	}
	v.within(path.Child("miBPerHour"), h.MiBPerHour, 1, maxHealMiB)
	v.within(path.Child("requestsPerHour"), h.RequestsPerHour, minHealRequests, maxHealRequests)
}
