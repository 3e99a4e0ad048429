package serve

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// auditFlags name the destination of audit records.
type auditFlags struct {
	path string

	given *pflag.FlagSet
}

func (f *auditFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.path, "audit-log", "-", "where to record decisions: an absolute path, - (standard output) or none")
	f.given = flags
}

func (f *auditFlags) isGiven() bool { return f.given != nil && f.given.Changed("audit-log") }

func (f *auditFlags) validate() error {
	if !f.isGiven() || f.path == "-" || f.path == "none" || filepath.IsAbs(f.path) {
		return nil
	}
	return fmt.Errorf("--audit-log %q: want an absolute path, - or none", f.path)
}

// over returns s with what the flag says, if it was given.
func (f *auditFlags) over(s auditlog.Settings) auditlog.Settings {
	if !f.isGiven() {
		return s
	}
	switch f.path {
	case "none":
		s.To = auditlog.Nowhere
	case "-":
		s.To = auditlog.Stdout
	default:
		s.To, s.File.Path = auditlog.File, f.path
	}
	return s
}

// prepareAudit makes what records decisions, as s says.
func (g *guard) prepareAudit(s auditlog.Settings) (err error) {
	g.audit, err = auditlog.New(auditlog.Options{
		Stdout: g.options.stdout, Guard: auditv1alpha1.Guard{Version: cli.Version, Replica: g.replica}, Metrics: g.registry, Log: g.log.WithName("audit"),
	})
	if err != nil {
		return err
	}
	return g.configureAudit(s)
}

// configureAudit puts s in force. The name of the file has that of the pod in it, which survives
// a restart of the container.
func (g *guard) configureAudit(s auditlog.Settings) error {
	s = g.options.audit.over(s)
	pod, _, _ := strings.Cut(g.replica, "_")
	s.File = s.File.For(pod)
	return g.audit.Configure(s)
}

// recordDecisions writes records until stop is called, which returns when they are written. It is
// to be called when no request is under way any more.
func (g *guard) recordDecisions(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.audit.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
