package readiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// resolve sets Image. A tag is looked up along its own route, which may be another than that of digests.
func (j *judging) resolve(ctx context.Context) error {
	repository, version, _ := mirrors.Canonical(j.Choice.Image)
	if mirrors.ByDigest(j.Choice.Image) {
		j.Image = repository + version
		return nil
	}
	at, fact, ok := j.served(ctx, j.Choice.Image)
	if !ok || fact.Digest == "" {
		return fmt.Errorf("--release %s: it could not be found out which digest the tag stands for: %s", j.Choice.Image, j.whyNot(ctx, j.Choice.Image))
	}
	j.Image = repository + "@" + fact.Digest
	j.Notes = append(j.Notes, fmt.Sprintf("the tag %s stands for %s at %s", j.Choice.Image, fact.Digest, at.Ref))
	return nil
}

// route plans the pull of the release image under a reference, and looks its places up.
func (j *judging) route(ctx context.Context, ref string) (*policy.Reroute, policy.Facts) {
	i := Image{Image: release.Image{Ref: ref}, IsRelease: true}
	plan := j.Reviewer.PlanPulls(j.pulls, policy.NewImages(j.asImage(&i)), mirrors.Edit{})
	facts, _ := j.Reviewer.LookUp(ctx, lookups([]policy.Plan{plan}))
	for k := range plan.Reroutes {
		if r := &plan.Reroutes[k]; len(r.Pools) == 0 || slices.Contains(r.Pools, "master") {
			return r, facts
		}
	}
	return nil, facts
}

// served returns the place from which a node of the control plane would take the release image, and what is
// known of it there.
func (j *judging) served(ctx context.Context, ref string) (mirrors.Location, *policy.Fact, bool) {
	r, facts := j.route(ctx, ref)
	if r == nil {
		return mirrors.Location{}, nil, false
	}
	return policy.Served(r.After, facts)
}

// whyNot says what the places of a route answered.
func (j *judging) whyNot(ctx context.Context, ref string) string {
	r, facts := j.route(ctx, ref)
	if r == nil {
		return "nodes have no route for it"
	}
	var answers []string
	for k := range r.After.Sources {
		if s := &r.After.Sources[k]; s.Tried() {
			f := facts.At(s.Location)
			answers = append(answers, s.Ref+": "+text.Line(strings.TrimSpace(f.Presence.String()+" "+f.Detail)))
		}
	}
	if len(answers) == 0 {
		return "nodes have no route for it"
	}
	return strings.Join(answers, "; ")
}

// read reads the payload from where nodes of the control plane would take the release image; nil if there is no such
// place, or if what it has is not whole: the verdict says so.
func (j *judging) read(ctx context.Context) (*release.Payload, error) {
	at, fact, ok := j.served(ctx, j.Image)
	if !ok {
		return nil, nil
	}
	instance, platform, ok := j.instance(fact)
	if !ok {
		j.Problems = append(j.Problems, Problem{NotReady, "the release image has no part for the control plane", []string{at.Ref + " lacks " + text.Names(j.controlPlanePlatforms(), 3)}})
		return nil, nil
	}
	j.ReadAt, j.Platform = mirrors.Location{Ref: at.Ref, Insecure: at.Insecure}, platform
	payload, err := j.fetch(ctx, at, instance)
	switch {
	case err == nil:
		return payload, nil
	case registry.IsTemporary(err) || ctx.Err() != nil:
		j.Problems = append(j.Problems, Problem{Unknown, "the payload could not be read", []string{at.Ref + ": " + reasonOf(err)}})
		return nil, nil
	default:
		return nil, fmt.Errorf("--release: %s: %s", at.Ref, reasonOf(err))
	}
}

// reasonOf keeps what the guard itself says of an image, and shortens what a registry does.
func reasonOf(err error) string {
	if answer := new(transport.Error); errors.As(err, &answer) || registry.IsTemporary(err) {
		return registry.Reason(err)
	}
	return text.Line(text.Cut(err.Error(), maxReason))
}

const maxReason = 500

// instance returns the digest of the manifest that the control plane runs of what was found, and its platform
// where there is a choice.
func (j *judging) instance(f *policy.Fact) (digest, platform string, ok bool) {
	instances, known := f.Runs()
	platforms := j.controlPlanePlatforms()
	if !known || len(instances) == 0 {
		return "", "", false
	}
	if len(platforms) == 0 {
		return instances[0].Digest, instances[0].Platform, true
	}
	for _, i := range instances {
		if i.Platform == "" || i.Platform == platforms[0] {
			return i.Digest, i.Platform, true
		}
	}
	return "", "", false
}

// fetch reads the payload of a manifest at the repository of a place, with the requests, credentials and trust that
// lookups have.
func (j *judging) fetch(ctx context.Context, at mirrors.Location, digest string) (*release.Payload, error) {
	repository, _, _ := mirrors.Canonical(at.Ref)
	ref, err := imagename.NewDigest(repository + "@" + digest)
	if err != nil {
		return nil, fmt.Errorf("the reference cannot be read: %w", err)
	}
	carrier, err := j.Carrier.Transfer(at, false)
	if err != nil {
		return nil, err
	}
	wrapped, err := transport.NewWithContext(ctx, ref.Context().Registry, authn.Anonymous, carrier, nil)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref, remote.WithTransport(wrapped), remote.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	return release.Read(ctx, img, j.Image)
}
