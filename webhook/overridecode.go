package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A boundChange is what the code of an override is computed from, so that an annotation
// that stays on an object does not cover its next change:
//
//   - An update is bound to the generation that it replaces, which counts the changes of the
//     spec (metadata.generation). So the same spec, reverted and applied again, is another
//     change. What only alters metadata, such as adding the annotation, leaves the generation
//     as it is.
//   - A creation has no generation to replace, and no uid before it is admitted: the same
//     object, deleted and created once more with the annotation, has the same code.
//   - A deletion is bound to the object and the spec that goes with it. It has the same code as
//     the removal of the last finalizer, which completes it; deleting counts as a generation.
//
// The findings are not part of it, save one: answers of registries come and go, and a code
// that went with them could not be used on the day that it is for. Whether MCO would reject
// the configuration depends on the objects alone, and is a danger of another kind.
type boundChange struct {
	// Format keeps codes of another way of computing them apart.
	Format                             int
	Operation                          string
	Group, Resource, Namespace, Object string
	UID                                string
	Generation                         int64
	Spec                               any
	Rejected                           bool
}

// A partialObject is what a code and an override need of an object.
type partialObject struct {
	Metadata struct {
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Generation  int64             `json:"generation"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec any `json:"spec"`
}

// readPartial reads raw as far as it can: what a deletion overrides need not be an object that
// can be read in full.
func readPartial(raw []byte) (o partialObject) {
	_ = utiljson.Unmarshal(raw, &o) // what is not read is not there
	return o
}

// boundChangeOf returns what req changes, as far as it can be read, without Rejected.
func boundChangeOf(req admissionv1.AdmissionRequest, name string) boundChange {
	b := boundChange{
		Format: 1, Operation: string(req.Operation),
		Group: req.Resource.Group, Resource: req.Resource.Resource, Namespace: req.Namespace, Object: name,
	}
	object, old := readPartial(req.Object.Raw), readPartial(req.OldObject.Raw)
	switch {
	case isRemoval(req):
		b.Operation, b.UID, b.Spec = string(admissionv1.Delete), old.Metadata.UID, old.Spec
	case req.Operation == admissionv1.Update:
		b.UID, b.Generation, b.Spec = old.Metadata.UID, old.Metadata.Generation, object.Spec
	default:
		b.Spec = object.Spec
	}
	return b
}

// isRemoval reports whether req takes an object out of force.
func isRemoval(req admissionv1.AdmissionRequest) bool {
	return req.Operation == admissionv1.Delete || takesAway(req)
}

// code returns the code that an override of b has to state: as short as a person copies, and
// long enough for two changes of one object not to have the same by chance. It keeps no
// secret; who may override is for the API server to say.
func (b boundChange) code(rejected bool) string {
	b.Rejected = rejected
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // it was JSON before
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:codeBytes])
}

const codeBytes = 4

// isCode reports whether s looks like a code.
func isCode(s string) bool {
	data, err := hex.DecodeString(s)
	return err == nil && len(data) == codeBytes
}

// isRejected reports whether r denies because MCO would reject the configuration.
func isRejected(r review.Record) bool {
	return slices.ContainsFunc(r.Verdict.Findings, func(f policy.Finding) bool {
		return f.Rule == policy.RejectedByMCO && f.Severity == policy.Deny
	})
}
