package serve

import (
	"strings"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// prepareAudit makes what records decisions in a place.
func (g *guard) prepareAudit(to string) (err error) {
	g.audit, err = auditlog.New(auditlog.Options{
		Stdout: g.options.stdout, Guard: auditv1alpha1.Guard{Version: cli.Version, Replica: g.replica}, Metrics: g.registry, Log: g.log.WithName("audit"),
	})
	if err != nil {
		return err
	}
	return g.configureAudit(to)
}

// configureAudit directs records to a place. The name of a file may have that of the pod in it, which
// survives a restart of the container.
func (g *guard) configureAudit(to string) error {
	pod, _, _ := strings.Cut(g.replica, "_")
	return g.audit.Configure(strings.ReplaceAll(to, "{replica}", pod))
}
