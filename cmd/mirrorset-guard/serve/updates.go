package serve

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/election"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// prepareUpdates makes what judges the release that the cluster is to be updated to, once the configuration asks for
// it.
func (g *guard) prepareUpdates(reviewer review.Reviewer, s nextrelease.Setting) error {
	g.payload = readiness.NewLastPayload()
	elsewhere := "another replica judges it: the one that holds Lease " + webhook.Namespace + "/" + election.LeaseName
	if g.options.standing.every == 0 {
		elsewhere = "it is not judged, as nothing is verified (--verify-every 0)"
	}
	log := g.log.WithName("updates")
	var err error
	g.updates, err = nextrelease.New(nextrelease.Options{
		Cluster:   g.cluster,
		Reviewer:  reviewer,
		Store:     g.registries,
		Carrier:   g.registries.Client,
		Payload:   g.payload,
		Outlet:    watchloop.Outlet{Reporter: g.tellOfUpdate, Log: log},
		Every:     g.options.standing.every,
		Elsewhere: elsewhere,
		Log:       log,
		Metrics:   g.registry,
	})
	if err == nil {
		g.updates.Configure(s)
	}
	return err
}

// nextRelease returns the document about the release that the cluster is to be updated to.
func (g *guard) nextRelease() *v1alpha1.NextRelease { return g.updates.Document() }

// tellOfUpdate writes an Event about the ClusterVersion.
func (g *guard) tellOfUpdate(ctx context.Context, r watchloop.Report) error {
	about := corev1.ObjectReference{APIVersion: configv1.GroupVersion.String(), Kind: "ClusterVersion", Name: "version"}
	if v := g.cluster.ProgressObjects().Version; v != nil {
		about.UID = v.UID // by which kubectl describe finds it
	}
	return events.Write(ctx, g.kube.EventsV1(), nextrelease.Author(g.replica).Event(about, r.Reason, r.Note, r.Warning))
}
