package causes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// degraded is about a node whose daemon gave up. Its words say why.
func (d *diagnosis) degraded(p *status.Pool, n *status.Node) bool {
	if n.State != status.NodeDegraded {
		return false
	}
	h := HoldUp{
		Cause: NodeGaveUp, Pool: p.Name, Node: n.Name, Chain: chain(fmt.Sprintf("node %s is degraded", n.Name)),
		Remedies: []Remedy{daemonPod(n.Name)}, subject: sameWords(n.Reason, n.Name),
	}
	if n.Reason == "" {
		h.Cause, h.subject = Unknown, "silent"
		h.because("its daemon does not say why")
		d.add(h)
		return true
	}
	h.because(n.Reason)
	switch {
	case mismatchedFile.MatchString(n.Reason) || validatedBy.MatchString(n.Reason) && !strings.Contains(n.Reason, "osImageURL"):
		d.fileChanged(n, &h)
	case mentions(n.Reason, "failed to update OS", "rpm-ostree", "bootc", "osImageURL", "pivot", "kernel arguments", "finalize-staged"):
		// updateLayeredOS and its callers in MCO's pkg/daemon/update.go
		d.systemNotUpdated(p, n, &h)
	default:
		h.Unexplained = true
	}
	if d.NodeOf[n.Name] != nil && d.NodeOf[n.Name].Annotations[sshAccess] != "" {
		h.because("somebody has logged into the node by ssh")
	}
	d.add(h)
	return true
}

// The words of MCO's daemon about a node's files (checkFileContentsAndMode and
// validateOnDiskState in its pkg/daemon/on_disk_validation.go and daemon.go).
var (
	mismatchedFile = regexp.MustCompile(`(?:content mismatch for file|mode mismatch for file:|could not stat file|could not read file|couldn't decode file) "([^"]+)"`)
	validatedBy    = regexp.MustCompile(`unexpected on-disk state validating against ([^\s:]+)`)
)

// fileChanged is about a file that is not what MCO wrote: which, and how to see both.
func (d *diagnosis) fileChanged(n *status.Node, h *HoldUp) {
	h.Cause = FileChanged
	h.because("a file on the node is not what its rendered config says: something other than MCO has changed it")
	config := n.Current
	if m := validatedBy.FindStringSubmatch(n.Reason); m != nil && strings.HasPrefix(m[1], "rendered-") {
		config = m[1]
	}
	if m := mismatchedFile.FindStringSubmatch(n.Reason); m != nil {
		path := m[1]
		h.because(d.expectedLink(config, path))
		show, expected := fmt.Sprintf("oc debug node/%s -- chroot /host ", text.Argument(n.Name)), expectedCommand(config, path)
		read, piped, said, quiet := "cat ", "", "", ""
		if secretPath.MatchString(path) {
			read, piped, said, quiet = "sha256sum ", " | sha256sum", ", as a checksum: the file may hold a secret", " > /dev/null"
		}
		h.Remedies = append(h.Remedies,
			look(show+read+text.Argument(path), "shows what the node has"+said),
			look(expected+piped, "shows what MCO expects"+said),
		)
		if strings.Contains(n.Reason, "content mismatch") {
			// In a file first: a pipe would empty the one on the node where there is nothing to write.
			h.Remedies = append(h.Remedies, act(fmt.Sprintf(`f=$(mktemp) && %s > "$f" && oc debug -i node/%s -- chroot /host tee %s < "$f"%s`, expected, text.Argument(n.Name), text.Argument(path), quiet),
				"puts back what MCO expects, and the node goes on by itself. If the change is wanted, put it into "+originOf(path)+" instead"))
		}
	}
	h.Remedies = append(h.Remedies, act(forceCommand(n.Name), "last resort: overwrites whatever was changed on the node, drains it and reboots it"))
}

// expectedCommand writes the content of a file as a rendered config has it: a data URL, which may be of
// gzip's output.
func expectedCommand(config, path string) string {
	return fmt.Sprintf(`oc get machineconfig %s -o jsonpath='{range .spec.config.storage.files[?(@.path=="%s")]}{.contents.compression} {.contents.source}{end}'`, text.Argument(config), pathArg(path)) +
		` | python3 -c 'import sys, gzip, urllib.request as u; c, _, s = sys.stdin.read().partition(" "); d = u.urlopen(s).read(); sys.stdout.buffer.write(gzip.decompress(d) if c == "gzip" else d)'`
}

// pathArg returns a path to stand in quotes in a command. One with other characters than usual
// is left out.
func pathArg(path string) string {
	if text.Argument(path) == path {
		return path
	}
	return "FILE"
}

// expectedLink says what MCO expects of a file.
func (d *diagnosis) expectedLink(config, path string) string {
	r := d.Rendered[config]
	switch {
	case r == nil:
		return fmt.Sprintf("MCO expects %s as it is in rendered config %s", path, config)
	case r.Files[path] == nil:
		return fmt.Sprintf("rendered config %s has no file %s", config, path)
	default:
		return fmt.Sprintf("MCO expects %s as it is in rendered config %s, which has it", path, config)
	}
}

// mentions reports whether one of words is in a reason.
func mentions(reason string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(reason, word) })
}

// systemNotUpdated is about an operating system that could not be updated, most often as its
// image could not be pulled.
func (d *diagnosis) systemNotUpdated(p *status.Pool, n *status.Node, h *HoldUp) {
	h.Cause = SystemNotUpdated
	h.because("the operating system of the node could not be updated; MCO tries again every few minutes")
	config := d.Rendered[n.Desired]
	if config != nil && config.OSImage != "" && isPullTrouble(n.Reason) {
		route, unknown := d.RouteBy(n.Desired, "", config.OSImage) // its files are written first (update in MCO's pkg/daemon/update.go)
		why := d.pullOf(config.OSImage, n.Name, route, unknown)
		h.explain(why)
	}
	debug := fmt.Sprintf("oc debug node/%s -- chroot /host ", text.Argument(n.Name))
	h.Remedies = append(h.Remedies, look(debug+"rpm-ostree status", "shows what is booted and what is staged"))
	if strings.Contains(n.Reason, "No space left") || strings.Contains(n.Reason, "no space left") {
		h.Remedies = append(h.Remedies, look(debug+"df -h / /boot /var", "shows which disk is full"))
	}
	h.Remedies = append(h.Remedies,
		act(debug+"systemctl restart rpm-ostreed", "aborts the current rpm-ostree operation, so that MCO can start again"),
		act(debug+"rpm-ostree cleanup -p", "throws away what is staged for the next boot, which MCO then stages again"),
	)
}

// isPullTrouble reports whether an update failed for the image of the operating system.
func isPullTrouble(reason string) bool {
	return mentions(reason, "manifest", "pull", "registry", "unauthorized", "x509", "timeout", "no such host", "connection refused",
		"invalid status", "Creating importer", "ostree-unverified", "docker://")
}

// sameWords returns the words of a daemon without the name of its node, so that those of
// several can be compared.
func sameWords(words, node string) string {
	return text.Line(regexp.MustCompile(`\b`+regexp.QuoteMeta(node)+`\b`).ReplaceAllString(words, "NODE"))
}
