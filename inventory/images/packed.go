package images

import "unique"

// A Packed value is the References of a Holder before they reach an Index. While a cluster
// is read, those of all objects of a kind are in memory at once; as strings of their own,
// the references of 100,000 pods would take 100 MB.
type Packed []packedReference

type packedReference struct {
	image, container, digest, tag unique.Handle[string]
	attributes                    unique.Handle[Reference]
}

// attributesOf returns r without image, container, digest and tag. A cluster has few different ones, so a hundred thousand of them cost
// next to nothing.
func attributesOf(r Reference) unique.Handle[Reference] { return unique.Make(r.to("", "", "", "")) }

// to returns a reference to another image, with all else as in r.
func (r Reference) to(image, container, digest, tag string) Reference {
	r.Image, r.Container, r.Digest, r.Tag = image, container, digest, tag
	return r
}

// Pack packs references.
func Pack(references []Reference) Packed {
	p := make(Packed, len(references))
	for i, r := range references {
		p[i] = packedReference{unique.Make(r.Image), unique.Make(r.Container), unique.Make(r.Digest), unique.Make(r.Tag), attributesOf(r)}
	}
	return p
}

// References unpacks p.
func (p Packed) References() []Reference {
	all := make([]Reference, len(p))
	for i, r := range p {
		all[i] = r.attributes.Value().to(r.image.Value(), r.container.Value(), r.digest.Value(), r.tag.Value())
	}
	return all
}
