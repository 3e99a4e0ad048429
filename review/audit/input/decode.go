package input

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

var (
	// marker is in every line that is about the guard: in the version of its own records, and in
	// the names of its webhooks.
	marker = []byte("mirrorset-guard.io")
	// own is how the guard's records begin, and group the versions of their schema.
	own   = []byte(`{"apiVersion":"` + auditv1alpha1.APIVersion + `","kind":"` + auditv1alpha1.Kind + `",`)
	group = auditv1alpha1.APIVersion[:strings.IndexByte(auditv1alpha1.APIVersion, '/')+1]
)

// A head is the type of a line.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// decode returns the record in line; nil if it holds something else.
func (r Reader) decode(line []byte) (*Record, error) {
	if !bytes.Contains(line, marker) {
		return nil, nil
	}
	if bytes.HasPrefix(line, own) {
		return r.decodeDecision(line)
	}
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, notReadable(err)
	}
	switch {
	case h.Kind == "Event" && strings.HasPrefix(h.APIVersion, eventGroup):
		return r.decodeEvent(line, h)
	case !strings.HasPrefix(h.APIVersion, group):
		return nil, nil
	case h.APIVersion != auditv1alpha1.APIVersion:
		return nil, fmt.Errorf("a record of %s, which this version does not know: it reads %s", text.Cut(h.APIVersion, audit.MaxName), auditv1alpha1.APIVersion)
	case h.Kind == auditv1alpha1.Kind:
		return r.decodeDecision(line)
	case h.Kind == auditv1alpha1.LossKind:
		return decodeLoss(line)
	case h.Kind == auditv1alpha1.ConfirmationKind:
		return decodeConfirmation(line)
	default:
		return nil, fmt.Errorf("a record of the kind %q, which this version does not know", text.Cut(h.Kind, audit.MaxName))
	}
}

func notReadable(err error) error { return fmt.Errorf("the line cannot be read: %w", err) }

// lean is a Decision without its large parts.
type lean struct {
	auditv1alpha1.Decision
	Facts  skip `json:"facts"`
	Change skip `json:"change"`
}

type skip struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skip) UnmarshalJSON([]byte) error { return nil }

func (r Reader) decodeDecision(line []byte) (*Record, error) {
	record := &Record{Line: line}
	var err error
	if r.Full {
		err = json.Unmarshal(line, &record.Decision)
	} else {
		var l lean
		err = json.Unmarshal(line, &l)
		record.Decision = l.Decision
	}
	d := &record.Decision
	switch {
	case err != nil:
		return nil, notReadable(err)
	case d.Time.IsZero() || d.Verdict == "":
		return nil, fmt.Errorf("the record lacks its time or its verdict")
	}
	record.key = d.UID
	return record, nil
}

func decodeConfirmation(line []byte) (*Record, error) {
	var c auditv1alpha1.Confirmation
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, notReadable(err)
	}
	d := auditv1alpha1.Decision{Time: c.Time, UID: c.UID, Verdict: "unconfirmed", User: c.User, Object: c.Object}
	if c.Confirmed {
		d.Verdict = "confirmed"
	}
	return &Record{Decision: d, Confirmation: &c, Line: line, key: c.UID + " confirmation"}, nil
}

func decodeLoss(line []byte) (*Record, error) {
	var loss auditv1alpha1.Loss
	if err := json.Unmarshal(line, &loss); err != nil {
		return nil, notReadable(err)
	}
	return &Record{Decision: auditv1alpha1.Decision{Time: loss.Time}, Loss: &loss, Line: line}, nil
}
