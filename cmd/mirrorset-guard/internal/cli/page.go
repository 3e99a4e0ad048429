package cli

import (
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// Page returns what a page says of the world and of whole, the command that prints all of it.
func (w *WorldFlags) Page(whole string) answer.Page { return PageOf(w.From, &w.cluster, whole) }

// PageOf returns what a page says of a dump, or of a cluster without one.
func PageOf(from string, cluster *ClusterFlags, whole string) answer.Page {
	c := answer.Page{Time: time.Now(), Cluster: from, Version: Version, Whole: whole}
	switch {
	case from == "-":
		c.Cluster = "a dump on standard input"
	case from != "":
		c.Cluster = "dump " + from
	default:
		if config, err := cluster.Config(); err == nil {
			c.Cluster = config.Host
		}
	}
	return c
}

// RequesterText names the requester, "" if it has no name.
func RequesterText(by settings.Requester) string {
	if len(by.Groups) == 0 {
		return by.User
	}
	return strings.TrimSpace(by.User + " (" + strings.Join(by.Groups, ", ") + ")")
}
