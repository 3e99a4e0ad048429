package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A boundChange is the input of the code of an override, so that an annotation
// that stays on an object does not cover its next change:
//
//   - An update is bound to the generation that it replaces, which counts the changes of the
//     spec (metadata.generation). So the same spec, reverted and applied again, is another
//     change. A change of metadata alone, such as adding the annotation, leaves the generation as it
//     is.
//   - A creation has no generation to replace, and no uid before it is admitted. It is bound to the
//     time: the same object, deleted and created once more with the annotation, has the same code for
//     a day at most.
//   - A deletion is bound to the object and the spec that goes with it. It has the same code as
//     the removal of the last finalizer, which completes it; deleting counts as a generation.
//
// All are bound to the user who was refused. The annotation of a deletion is on the stored object:
// another user who deletes it, perhaps with all others, has not read it.
//
// The findings are not part of it, except for one: answers of registries change, and a code
// that changed with them could not be used on the day that it is for. Whether MCO would reject
// the configuration depends on the objects alone, and is a danger of another kind.
type boundChange struct {
	request *request
	name    string
	// sum is the part that both codes share, once it has been computed.
	sum []byte
}

// hashed returns the sum of the parts of b that can be read. A spec counts as it is
// written, which one API server always does in the same way.
func (b *boundChange) hashed() []byte {
	if b.sum != nil {
		return b.sum
	}
	r, operation := b.request, string(b.request.Operation)
	uid, generation, spec := "", int64(0), r.put.spec
	switch {
	case r.isRemoval():
		operation, uid, spec = string(admissionv1.Delete), string(r.old.uid), r.old.spec
	case r.Operation == admissionv1.Update:
		uid, generation = string(r.old.uid), r.old.generation
	}
	sum := sha256.New()
	// The number keeps codes of another way of computing them apart.
	fmt.Fprintf(sum, "3 %q %q %q %q %q %q %q %d ", r.UserInfo.Username, operation, r.Resource.Group, r.Resource.Resource, r.Namespace, b.name, uid, generation)
	_ = rawjson.Compact(sum, spec) // a hash takes everything
	b.sum = sum.Sum(nil)
	return b.sum
}

// code returns the code that an override of b has to state: short enough to be copied by a person, and
// long enough for two changes of one object not to have the same by chance. It is not a
// secret; the API server decides who may override.
func (b *boundChange) code(rejected bool) string { return b.codeIn(b.period(), rejected) }

// hasCode reports whether code is the one of b, printed now or some time ago.
func (b *boundChange) hasCode(code string, rejected bool) bool {
	now := b.period()
	return code == b.codeIn(now, rejected) || now > 0 && code == b.codeIn(now-1, rejected)
}

// creationPeriod is how long the code of a creation stays the same. It counts for as long again, which
// leaves time to read a refusal and to have a pipeline's change approved.
const creationPeriod = 12 * time.Hour

// period returns in which period b is made, 0 where that does not matter.
func (b *boundChange) period() int64 {
	if b.request.isRemoval() || b.request.Operation != admissionv1.Create {
		return 0
	}
	return time.Now().Unix() / int64(creationPeriod/time.Second)
}

func (b *boundChange) codeIn(period int64, rejected bool) string {
	sum := sha256.New()
	sum.Write(b.hashed())
	fmt.Fprintf(sum, " %d %t", period, rejected)
	return hex.EncodeToString(sum.Sum(nil)[:codeBytes])
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
