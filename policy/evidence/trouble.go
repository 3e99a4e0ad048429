package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// Late says what becomes of answers that come when time is up.
	Late        = "answers that arrive late are kept for the next try"
	verifyAgain = "make the registry answer, then try again; " + Late
	pullSecret  = "Secret openshift-config/pull-secret"
)

// Help returns what does something about f, the fact about a place on the new route: only one that did not answer is to be made to.
func (a *Case) Help(f *policy.Fact, ref string) string {
	var t policy.Trouble
	if f.Trouble != nil {
		t = *f.Trouble
	}
	if t.Server == "" {
		t.Server = mirrors.HostOf(ref)
	}
	switch t.Cause {
	case policy.Silent:
		return unanswered(f, t.Server)
	case policy.Overloaded:
		return fmt.Sprintf("wait until %s is well, then try again; %s", t.Server, Late)
	case policy.Strange:
		return fmt.Sprintf("see to what serves %s: nodes expect the answers of a registry there", t.Server)
	case policy.Nameless:
		return fmt.Sprintf("correct the name %s, or have the DNS resolve it, for nodes and here", t.Server)
	case policy.BehindProxy:
		return fmt.Sprintf("correct the settings of Proxy cluster, or list %s in its noProxy", t.Server)
	case policy.NeverAsked:
		return fmt.Sprintf("have %s resolve to an address that other machines reach", t.Server)
	case policy.Redirecting:
		return fmt.Sprintf("correct where %s redirects to", t.Server)
	case policy.PlainHTTP:
		return a.listInsecure(t.Server)
	case policy.UnknownAuthority:
		return fmt.Sprintf("add its CA to the key %s of the ConfigMap that additionalTrustedCA of Image cluster names", strings.ReplaceAll(t.Server, ":", ".."))
	case policy.BadCertificate:
		return fmt.Sprintf("give %s a certificate that is valid now, names it, and has a key that nodes accept", t.Server)
	case policy.BadHandshake:
		return fmt.Sprintf("have %s offer TLS 1.2 or later, with what nodes accept", t.Server)
	case policy.HelperEntry:
		return fmt.Sprintf("pull it on a node: only nodes can ask the credential helper for %s", t.Server)
	default:
		return CredentialsFor(f, ref)
	}
}

// unanswered is help where no cause is known: if the place answers, the image, or a part of it, is in doubt.
func unanswered(f *policy.Fact, server string) string {
	switch {
	case f.Presence == policy.Unknown, f.Presence == policy.Unreachable:
		return verifyAgain
	case f.Presence == policy.Absent && !f.Recalled:
		return fmt.Sprintf("make sure that %s has it for the pods that use it: it denies that to the guard", server)
	default:
		return "try again; " + Late
	}
}

// listInsecure lets nodes speak HTTP with a registry. The entry of a host without its port does not count for the mirrors at a port
// (EditRegistriesConfig of runtime-utils compares scopes, ports and all).
func (a *Case) listInsecure(server string) string {
	name, _, hasPort := strings.Cut(server, ":")
	if hasPort && a.Site != nil && slices.Contains(a.Site.Insecure, name) {
		return fmt.Sprintf("insecureRegistries of Image cluster lists %s without its port: list %s, or have it speak TLS", name, server)
	}
	return fmt.Sprintf("list %s in insecureRegistries of Image cluster if it is to do without TLS, or have it speak TLS", server)
}

// CredentialsFor returns what gives nodes credentials for a place. An entry that is there may serve others.
func CredentialsFor(f *policy.Fact, ref string) string {
	const only = "nodes use no others for mirrors"
	if f.Trouble != nil {
		switch entry := f.Trouble.Entry; f.Trouble.Cause {
		case policy.EmptyEntry:
			return fmt.Sprintf("give the entry %q of %s credentials; %s", entry, pullSecret, only)
		case policy.BrokenEntry:
			return fmt.Sprintf("repair the entry %q of %s; %s", entry, pullSecret, only)
		case policy.RefusedEntry:
			if longer := longerEntry(policy.Repository(ref), entry); longer != "" {
				return fmt.Sprintf("add an entry %q to %s, beside %q, which stays as it is: the longest that fits is used; %s", longer, pullSecret, entry, only)
			}
			return fmt.Sprintf("renew the entry %q of %s, or widen its rights; %s", entry, pullSecret, only)
		}
	}
	return fmt.Sprintf("add credentials for %s to %s; %s", mirrors.HostOf(ref), pullSecret, only)
}

// VerifyRemedy returns what to do so that the guard can verify the image. Where a place
// denies it access, trying again would not help.
func (a *Case) VerifyRemedy() []string {
	if a.Brief {
		return nil
	}
	for _, at := range a.NewRoute.OpenPlaces() {
		switch found := a.Found.At(at.Location); {
		case found.Never:
			return []string{"copy it first, then check without --assume: what its origin has cannot be asked"}
		case found.Presence != policy.Denied && found.Presence != policy.Absent:
		case !found.AsNodes:
			return []string{giveSecret}
		case found.Presence == policy.Denied:
			return []string{"let the guard see for itself: " + CredentialsFor(found, at.Ref)}
		}
	}
	for _, at := range a.NewRoute.OpenPlaces() {
		if at.Fact.IsUndetermined() {
			return []string{cmp.Or(a.FullName(at.Location), a.Help(a.Found.At(at.Location), at.Ref))}
		}
	}
	return []string{verifyAgain}
}

// giveSecret lets the guard ask as nodes do.
//
//nolint:gosec // it holds no credential
const giveSecret = "let the guard read Secret openshift-config/pull-secret, or give check the secret with --pull-secret FILE; then try again"

// longerEntry returns the next longer key than entry for a repository, "" if there is none.
func longerEntry(repository, entry string) string {
	rest, below := strings.CutPrefix(repository, entry+"/")
	if repository == entry {
		return ""
	}
	if !below { // the key is a URL, or another name of the Docker Hub
		entry, rest, _ = strings.Cut(repository, "/")
	}
	if next, _, _ := strings.Cut(rest, "/"); next != "" {
		return entry + "/" + next
	}
	return ""
}

// FullName is what to write instead of a short name where the trouble is at the places of another candidate than the one that has
// the image: "" where that is not known.
func (a *Case) FullName(trouble mirrors.Location) string {
	candidate := func(is func(k int) bool) int {
		for k := range a.After.Sources {
			if is(k) {
				return a.After.Sources[k].Candidate
			}
		}
		return -1
	}
	has := candidate(func(k int) bool { return a.NewRoute.Facts[k].Presence == policy.Present && a.After.Sources[k].Tried() })
	if has < 0 || has == candidate(func(k int) bool { return a.After.Sources[k].Location == trouble }) {
		return ""
	}
	for _, s := range slices.Backward(a.After.Sources) { // containers/image puts the source last
		if s.Candidate == has {
			return fmt.Sprintf("write the full name in the workload: %s", s.Ref)
		}
	}
	return ""
}
