package policy

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NoEffect: an entry that the change adds does nothing, or can never match. The generator
// drops an entry without mirrors, or with no mirror but its own source, and its policy with
// it. Nodes look entries up by the normalised name of an image (nginx is
// docker.io/library/nginx), and case matters.
func noEffect(p Plan, _ Facts) []Finding {
	findings := idlePolicies(p)
	for _, e := range p.Added {
		why, remedy := idle(e)
		if host(e.Source) == hubAPI && p.coverage(e).images == 0 {
			why, remedy = "no image in use names this registry; it is the API of docker.io, and nodes go by the name in the image", "write docker.io"
		}
		if why == "" {
			continue
		}
		findings = append(findings, Finding{
			Severity: Warn, Statement: statementOf(e),
			Reason: fmt.Sprintf("the entry for %s does nothing: %s", e.Source, why),
			Detail: []string{mirrors.NameOf(e.Object)},
			Remedy: []string{remedy},
		})
	}
	return findings
}

// hubAPI is where docker.io has its API. Images may be named by it, and hardly ever are.
const hubAPI = "registry-1.docker.io"

// idle says why nodes would not notice an entry, "" if they may.
func idle(e mirrors.Entry) (why, remedy string) {
	h := host(e.Source)
	switch {
	case !e.HasMirror() && len(e.Mirrors) > 0:
		return "its only mirror is the source itself, so that the generator drops it, and its mirrorSourcePolicy too", "name another place as the mirror, or remove the entry"
	case !e.HasMirror():
		return "without a mirror the generator drops it, and its mirrorSourcePolicy too", "name a mirror, or remove the entry"
	case h == "index.docker.io":
		return "nodes know this registry as docker.io", "write docker.io"
	case e.Source == "docker.io" || strings.HasPrefix(e.Source, "*."):
		return "", ""
	case !strings.ContainsAny(h, ".:") && h != "localhost":
		return "nodes take " + h + " for a repository on docker.io", "write docker.io/library/" + e.Source + ", or the host with its domain"
	case h == "docker.io" && strings.Count(e.Source, "/") == 1 && !strings.HasSuffix(e.Source, "/library"):
		return "", "" // a namespace on Docker Hub; whether "docker.io/nginx" was meant as a repository cannot be told
	case h != strings.ToLower(h):
		return "images name the host in lower case", "write " + strings.ToLower(h)
	default:
		return "", ""
	}
}
