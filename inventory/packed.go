package inventory

import "unique"

// A packed is the References of a Holder on their way to an Index. All objects of a kind
// are on that way at once while a cluster is read; as strings of their own, the
// references of 100,000 pods would take 100 MB.
type packed []packedReference

type packedReference struct {
	image, container, digest, tag unique.Handle[string]
	terms                         unique.Handle[terms]
}

func pack(references []Reference) packed {
	p := make(packed, len(references))
	for i, r := range references {
		p[i] = packedReference{unique.Make(r.Image), unique.Make(r.Container), unique.Make(r.Digest), unique.Make(r.Tag), termsOf(r)}
	}
	return p
}

func (p packed) references() []Reference {
	all := make([]Reference, len(p))
	for i, r := range p {
		all[i] = r.terms.Value().in(Reference{Image: r.image.Value(), Container: r.container.Value(), Digest: r.digest.Value(), Tag: r.tag.Value()})
	}
	return all
}
