package images

import (
	"unique"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// attributes hold everything in a Reference but its image, container and digest. A
// cluster has few different ones, so a hundred thousand of them cost next to nothing.
type attributes struct {
	use               policy.Use
	ownPullSecret     bool
	pullSecretUnknown bool
	account, secrets  string
	keeper            schema.GroupKind
	lookup            Lookup
	copied            bool
	guessed           bool
	placement         string
	neverPulls        bool
	ending            bool
	neverRan          bool
}

func attributesOf(r Reference) unique.Handle[attributes] {
	return unique.Make(attributes{
		use: r.Use, ownPullSecret: r.OwnPullSecret, pullSecretUnknown: r.PullSecretUnknown,
		account: r.Account, secrets: r.Secrets, keeper: r.Keeper, lookup: r.Lookup, copied: r.Copied, guessed: r.Guessed,
		placement: r.Placement, neverPulls: r.NeverPulls, ending: r.Ending, neverRan: r.NeverRan,
	})
}

// apply returns r with the attributes t.
func (t attributes) apply(r Reference) Reference {
	r.Use, r.OwnPullSecret, r.PullSecretUnknown = t.use, t.ownPullSecret, t.pullSecretUnknown
	r.Guessed = t.guessed
	r.Placement, r.NeverPulls, r.Ending, r.NeverRan = t.placement, t.neverPulls, t.ending, t.neverRan
	r.Account, r.Secrets, r.Keeper, r.Lookup, r.Copied = t.account, t.secrets, t.keeper, t.lookup, t.copied
	return r
}
