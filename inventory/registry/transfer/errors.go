package transfer

import (
	"errors"
	"net/http"
	"slices"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/connection"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// IsTemporary reports whether err, from a library over what New returns, may pass if the same is tried again.
func IsTemporary(err error) bool {
	if f, ok := errors.AsType[*wire.Failure](err); ok {
		return f.IsTemporary()
	}
	return connection.IsReset(err)
}

// IsAbsent reports whether err says that a registry does not have what it was asked for.
func IsAbsent(err error) bool {
	var f *wire.Failure
	var answer *ggcr.Error
	return errors.As(err, &f) && f.Presence == policy.Absent || errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// SaysNoRepository reports whether err, from a library over what New returns, is the answer that there is no such repository.
func SaysNoRepository(err error) bool {
	answer, ok := errors.AsType[*ggcr.Error](err)
	return ok && answer.StatusCode == http.StatusNotFound && len(answer.Errors) > 0 && answer.Errors[0].Code == ggcr.NameUnknownErrorCode
}

// Status returns the status of the answer behind err, which a library over what New returns returned; 0 if there is none.
func Status(err error) int {
	if f, ok := errors.AsType[*wire.Failure](err); ok {
		return f.Status
	}
	return 0
}

// Reason says in one short line, and in words that may be shown, what err from a library over what New returns means.
func Reason(err error) string {
	var f *wire.Failure
	var answer *ggcr.Error
	switch {
	case errors.As(err, &f):
		return text.OneLine(f.Detail, wire.MaxDetail)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		said := slices.IndexFunc(answer.Errors, func(d ggcr.Diagnostic) bool { return d.Message != "" })
		if said < 0 {
			return "it is not there (404)"
		}
		return text.OneLine("it is not there (404), saying "+wire.Quote(answer.Errors[said].Message), wire.MaxDetail)
	default:
		return text.OneLine(connection.Innermost(err).Error(), wire.MaxDetail)
	}
}
