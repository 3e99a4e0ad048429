package signing

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"
)

// MediaType is that of the layers of an attachment that are signatures. Layers of other types
// are attestations and the like, which do not count.
const MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"

// The annotations of such a layer (containers/image internal/signature/sigstore.go).
const (
	SignatureAnnotation   = "dev.cosignproject.cosign/signature"
	SETAnnotation         = "dev.sigstore.cosign/bundle"
	CertificateAnnotation = "dev.sigstore.cosign/certificate"
	ChainAnnotation       = "dev.sigstore.cosign/chain"
)

// A Signature is one layer of an attachment: the signed payload, and the signer's annotations. Nothing
// in it has been verified.
type Signature struct {
	// MediaType is that of the layer; of layers that are not signatures nothing else is kept.
	MediaType string `json:"mediaType"`
	// Payload is the content of the layer.
	Payload []byte `json:"payload,omitempty"`
	// Annotations hold those of the four above that the layer has.
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (s *Signature) annotation(key string) (string, error) {
	if value, ok := s.Annotations[key]; ok {
		return value, nil
	}
	return "", fmt.Errorf("missing %s annotation", key)
}

// Signatures are those attached to one image at one place, with what was concluded from
// them. They are safe for concurrent use, and must not be changed or copied.
type Signatures struct {
	// All are the layers of the attachment, in order.
	All []Signature
	// Read is when they were read: certificates are verified for that time.
	Read time.Time

	mu     sync.Mutex
	judged map[question]Judgement
}

// A question is the key under which a Judgement is remembered.
type question struct {
	requirements [sha256.Size]byte
	image        Image
}

// maxJudged bounds the judgements that Signatures remember: those for a few policies, before and
// after a few changes.
const maxJudged = 64

// An Image is the image whose signatures are judged.
type Image struct {
	// Reference is the name by which nodes were told to run it, with a tag or a digest. It is
	// not that of the place which served it.
	Reference string
	// Digest is that of the manifest that nodes run: of an index, the one of the instance that
	// they choose.
	Digest string
}

// An Outcome is the verdict of nodes on the signatures of an image.
type Outcome int

const (
	// Undecided means that it could not be determined. It is the zero value.
	Undecided Outcome = iota
	// Accepted means that they do.
	Accepted
	// Missing means that there is no signature.
	Missing
	// Rejected means that they accept none of those that there are.
	Rejected
)

// A Judgement is an Outcome with its reason, in the words of the nodes where it is theirs.
type Judgement struct {
	Outcome Outcome
	Reason  string // "" if Accepted
	// SignedAs is the image that a signature names which nodes would accept but for that; "" if
	// there is none.
	SignedAs string
}

// errUndecided is wrapped by errors which say that nodes may decide otherwise, as they know
// more.
var errUndecided = errors.New("not verified")

// Judge says whether nodes accept an image by s, nil for an image without signatures, if
// policy.json makes these requirements.
func (s *Signatures) Judge(r *Requirements, image Image) Judgement {
	if s == nil {
		return r.judge(nil, image, time.Time{})
	}
	asked := question{r.key, image}
	s.mu.Lock()
	judgement, known := s.judged[asked]
	s.mu.Unlock()
	if known {
		return judgement
	}
	judgement = r.judge(s.All, image, s.Read)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.judged == nil || len(s.judged) >= maxJudged {
		s.judged = map[question]Judgement{}
	}
	s.judged[asked] = judgement
	return judgement
}
