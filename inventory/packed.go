package inventory

import (
	"unique"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A packed is the References of a Holder on their way to an Index. All objects of a kind
// are on that way at once while a cluster is read; as strings of their own, the
// references of 100,000 pods would take 100 MB.
type packed []packedReference

type packedReference struct {
	image, container, digest, tag unique.Handle[string]
	use                           int8
	ownSecret, guessed            bool
}

func pack(references []Reference) packed {
	p := make(packed, len(references))
	for i, r := range references {
		p[i] = packedReference{
			image: unique.Make(r.Image), container: unique.Make(r.Container), digest: unique.Make(r.Digest), tag: unique.Make(r.Tag),
			use: int8(r.Use), ownSecret: r.OwnPullSecret, guessed: r.Guessed, //nolint:gosec // there are three Uses
		}
	}
	return p
}

func (p packed) references() []Reference {
	all := make([]Reference, len(p))
	for i, r := range p {
		all[i] = Reference{
			Image: r.image.Value(), Container: r.container.Value(), Digest: r.digest.Value(),
			Use: policy.Use(r.use), OwnPullSecret: r.ownSecret, Guessed: r.guessed, Tag: r.tag.Value(),
		}
	}
	return all
}
