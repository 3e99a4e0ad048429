package signing

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	configv1 "github.com/openshift/api/config/v1"
)

// The types of identities.
const (
	matchExact             = "matchExact"
	matchRepoDigestOrExact = "matchRepoDigestOrExact"
	matchRepository        = "matchRepository"
	exactReference         = "exactReference"
	exactRepository        = "exactRepository"
	remapIdentity          = "remapIdentity"
)

// An Identity is the image that a signature has to name.
type Identity struct {
	Type             string `json:"type"`
	DockerReference  string `json:"dockerReference,omitempty"`
	DockerRepository string `json:"dockerRepository,omitempty"`
	Prefix           string `json:"prefix,omitempty"`
	SignedPrefix     string `json:"signedPrefix,omitempty"`
}

func identityFromSpec(spec *configv1.PolicyIdentity) (*Identity, error) {
	if spec == nil {
		return &Identity{Type: matchRepoDigestOrExact}, nil
	}
	switch spec.MatchPolicy {
	case configv1.IdentityMatchPolicyMatchRepoDigestOrExact:
		return &Identity{Type: matchRepoDigestOrExact}, nil
	case configv1.IdentityMatchPolicyMatchRepository:
		return &Identity{Type: matchRepository}, nil
	case configv1.IdentityMatchPolicyExactRepository:
		if spec.PolicyMatchExactRepository == nil {
			return nil, errors.New("matchPolicy ExactRepository names no repository")
		}
		repository := string(spec.PolicyMatchExactRepository.Repository)
		if _, err := reference.ParseNormalizedNamed(repository); err != nil {
			return nil, fmt.Errorf("%q of matchPolicy ExactRepository is not a repository: %w", repository, err)
		}
		return &Identity{Type: exactRepository, DockerRepository: repository}, nil
	case configv1.IdentityMatchPolicyRemapIdentity:
		return remapFromSpec(spec.PolicyMatchRemapIdentity)
	default:
		return nil, fmt.Errorf("its matchPolicy %q is unknown", spec.MatchPolicy)
	}
}

func remapFromSpec(spec *configv1.PolicyMatchRemapIdentity) (*Identity, error) {
	if spec == nil {
		return nil, errors.New("matchPolicy RemapIdentity has no prefixes")
	}
	id := &Identity{Type: remapIdentity, Prefix: string(spec.Prefix), SignedPrefix: string(spec.SignedPrefix)}
	for _, prefix := range []string{id.Prefix, id.SignedPrefix} {
		if !isRemapPrefix(prefix) {
			return nil, fmt.Errorf("prefix %q of matchPolicy RemapIdentity is not valid", prefix)
		}
	}
	return id, nil
}

// isRemapPrefix reports whether prefix is a host or a repository with one
// (validateIdentityRemappingPrefix in containers/image signature/policy_config.go).
func isRemapPrefix(prefix string) bool {
	return remapDomain.MatchString(prefix) || remapName.MatchString(prefix) && remapDomainPrefix.MatchString(prefix)
}

var (
	remapDomain       = regexp.MustCompile("^" + reference.DomainRegexp.String() + "$")
	remapDomainPrefix = regexp.MustCompile("^" + reference.DomainRegexp.String() + "/")
	remapName         = regexp.MustCompile("^" + reference.NameRegexp.String() + "$")
)

// matches reports whether a signature that names signed is one for image
// (containers/image signature/policy_reference_match.go).
func (id Identity) matches(image, signed string) bool {
	name, err := reference.ParseNormalizedNamed(signed)
	if err != nil {
		return false
	}
	wanted := image
	switch id.Type {
	case exactReference:
		wanted = id.DockerReference
	case exactRepository:
		wanted = id.DockerRepository
	}
	intended, err := reference.ParseNormalizedNamed(wanted)
	if err != nil {
		return false
	}
	switch id.Type {
	case matchExact, exactReference:
		return !reference.IsNameOnly(intended) && !reference.IsNameOnly(name) && intended.String() == name.String()
	case matchRepository, exactRepository:
		return intended.Name() == name.Name()
	case remapIdentity:
		if intended, err = id.remap(intended); err != nil {
			return false
		}
		return isRepoDigestOrExact(intended, name)
	case matchRepoDigestOrExact:
		return isRepoDigestOrExact(intended, name)
	default:
		return false
	}
}

// isRepoDigestOrExact restates matchRepoDigestOrExactReferenceValues: a signature has to carry
// a tag or a digest. For an image by tag, it has to be the same reference; for one by digest, the
// digest is compared with that of the payload.
func isRepoDigestOrExact(intended, signed reference.Named) bool {
	if reference.IsNameOnly(signed) {
		return false
	}
	switch intended.(type) {
	case reference.NamedTagged:
		return signed.String() == intended.String()
	case reference.Canonical:
		return signed.Name() == intended.Name()
	default:
		return false
	}
}

// remap restates remapReferencePrefix: it replaces the prefix of a name that has it.
func (id Identity) remap(name reference.Named) (reference.Named, error) {
	rest, ok := strings.CutPrefix(name.Name(), id.Prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return name, nil
	}
	return reference.ParseNamed(strings.Replace(name.String(), id.Prefix, id.SignedPrefix, 1))
}

// IdentityFor returns the signedIdentity of an image policy by which nodes accept, for image,
// signatures that name signed: as YAML, in one line; "" if there is none.
func IdentityFor(image, signed string) string {
	named, err := reference.ParseNormalizedNamed(signed)
	if err != nil {
		return ""
	}
	wanted, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	remap := Identity{Type: remapIdentity, Prefix: wanted.Name(), SignedPrefix: named.Name()}
	switch {
	case wanted.Name() == named.Name():
		return "{matchPolicy: MatchRepository}"
	case remap.matches(image, signed):
		return fmt.Sprintf("{matchPolicy: RemapIdentity, remapIdentity: {prefix: %s, signedPrefix: %s}}", remap.Prefix, remap.SignedPrefix)
	default:
		return fmt.Sprintf("{matchPolicy: ExactRepository, exactRepository: {repository: %s}}", named.Name())
	}
}

// String says which image a signature has to name.
func (id Identity) String() string {
	switch id.Type {
	case matchExact:
		return "for exactly the image's reference"
	case matchRepoDigestOrExact:
		return "for the image, with a tag or digest"
	case matchRepository:
		return "for the repository of the image"
	case exactReference:
		return "for " + id.DockerReference
	case exactRepository:
		return "for repository " + id.DockerRepository
	case remapIdentity:
		return fmt.Sprintf("for the image, with %s in the place of %s", id.SignedPrefix, id.Prefix)
	default:
		return "for " + id.Type
	}
}

// An identityError is the error of a valid signature for another image.
type identityError struct{ signed string }

func (e *identityError) Error() string {
	return fmt.Sprintf("Signature for identity %q is not accepted", e.signed)
}
