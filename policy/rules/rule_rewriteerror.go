package rules

import (
	"errors"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// RewriteError: the new route cannot be computed, because the reference rewritten for a mirror
// does not parse (a source without a port that covers a host with one, a mirror without dot or
// port, "index.docker.io"). containers/image then gives up the whole pull before it asks
// anything, even the source: PullSourcesFromReference returns an error for all places if one
// cannot be rewritten. The same goes where nodes cannot read the files of registries.d.
func rewriteError(a *evidence.Case) (policy.Finding, bool) {
	if a.After.Err == nil {
		return policy.Finding{}, false
	}
	if unreadable := (*mirrors.UnreadableError)(nil); errors.As(a.After.Err, &unreadable) {
		return policy.Finding{
			Severity: a.UnlessBroken(),
			Reason:   "nodes could not determine where to look for signatures, and could pull no image any more",
			Detail:   []string{unreadable.Error()},
			Remedy:   []string{"configure it in only one file of registries.d; MCO writes " + policyfile.AttachmentsPath + " for image policies"},
		}, true
	}
	if a.After.Entry == "" {
		return policy.Finding{
			Severity: a.UnlessBroken(),
			Reason:   "nodes could not tell where to pull it from",
			Detail:   []string{a.After.Err.Error()},
			Remedy:   []string{"name search registries in containerRuntimeSearchRegistries of Image cluster, or the registry in the reference"},
		}, true
	}
	return policy.Finding{
		Severity: a.UnlessBroken(),
		Reason:   "nodes could not compute where to pull it from, and would not even ask the source",
		Detail:   []string{"entry " + a.After.Entry + ", " + a.After.Err.Error()},
		Remedy:   []string{rewriteRemedy(a)},
	}, true
}

// rewriteRemedy returns what to write instead.
func rewriteRemedy(a *evidence.Case) string {
	if e := (*mirrors.RewriteError)(nil); errors.As(a.After.Err, &e) {
		switch source, mirror := e.Mended(); {
		case mirror == "":
		case source == e.Source:
			return "write the mirror of " + source + " as " + mirror
		default:
			return "write the source with the port: " + source + ", with the mirror " + mirror
		}
	}
	return "write source and mirror with the same ports, and the mirror as host[:port]/path with a dot or a port in the host"
}
