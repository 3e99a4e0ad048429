package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
)

// resolve sets Image. A tag is looked up along its own route, which may be another than that of digests.
func (j *judging) resolve(ctx context.Context) error {
	repository, version, _ := mirrors.Canonical(j.Choice.Image)
	if mirrors.ByDigest(j.Choice.Image) {
		j.Image = repository + version
		return nil
	}
	r := j.route(ctx, releaseImage(j.Choice.Image))
	at, fact, ok := r.served()
	if !ok || fact.Digest == "" {
		return fmt.Errorf("it could not be found out which digest the tag stands for: %s", r.whyNot())
	}
	j.Image = repository + "@" + fact.Digest
	j.Notes = append(j.Notes, fmt.Sprintf("the tag %s stands for %s at %s", j.Choice.Image, fact.Digest, at.Ref))
	return nil
}

func releaseImage(ref string) *readiness.Image {
	return &readiness.Image{Image: release.Image{Name: "release", Ref: ref, Level: release.NoLevel}, IsRelease: true}
}

// A route is that of one image for a node of the control plane, with what its places answered.
type route struct {
	*evidence.Reroute // nil if nodes have none
	facts             policy.Facts
}

// route plans the pull of an image, and looks its places up.
func (j *judging) route(ctx context.Context, i *readiness.Image) route {
	plan := j.Reviewer.PlanPulls(j.state, policy.NewImages(j.asImage(i)), mirrors.Edit{})
	facts, _ := j.Reviewer.LookUp(ctx, plan.Lookups)
	for k := range plan.Reroutes {
		if r := &plan.Reroutes[k]; len(r.Pools) == 0 || slices.Contains(r.Pools, "master") {
			return route{r, facts}
		}
	}
	return route{}
}

// served returns the place from which the node would take the image, and the fact about it there.
func (r route) served() (mirrors.Location, *policy.Fact, bool) {
	if r.Reroute == nil {
		return mirrors.Location{}, nil, false
	}
	return evidence.Served(r.After, r.facts)
}

// whyNot says what the places answered.
func (r route) whyNot() string {
	var answers []string
	for k := 0; r.Reroute != nil && k < len(r.After.Sources); k++ {
		if s := &r.After.Sources[k]; s.Tried() {
			f := r.facts.At(s.Location)
			answers = append(answers, s.Ref+": "+text.Line(strings.TrimSpace(f.Presence.String()+" "+f.Detail)))
		}
	}
	if len(answers) == 0 {
		return "nodes have no route for it"
	}
	return strings.Join(answers, "; ")
}

// read reads the payload from where nodes of the control plane would take the release image; nil if there is no such
// place, or if it lacks a part of the image: the verdict says so.
func (j *judging) read(ctx context.Context) (*release.Payload, error) {
	at, fact, ok := j.route(ctx, releaseImage(j.Image)).served()
	if !ok {
		return nil, nil
	}
	instance, platform, ok := instanceFor(fact, j.controlPlanePlatforms())
	if !ok {
		j.Problems = append(j.Problems, readiness.Problem{About: readiness.AboutImage, State: readiness.NotReady, Reason: "the release image has no part for the control plane", Detail: []string{at.Ref + " lacks " + text.Names(j.controlPlanePlatforms(), 3)}})
		return nil, nil
	}
	j.otherPlatforms(at, fact)
	j.ReadAt, j.Platform = mirrors.Location{Ref: at.Ref, Insecure: at.Insecure}, platform
	payload, err := j.Payloads.get(ctx, payloadKey{j.Image, instance}, func(ctx context.Context) (*release.Payload, error) {
		image, err := j.fetch(ctx, at, instance)
		if err != nil {
			return nil, err
		}
		return release.Read(ctx, image, j.Image)
	})
	switch {
	case err == nil:
		return payload, nil
	case transfer.IsTemporary(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || ctx.Err() != nil:
		j.Problems = append(j.Problems, readiness.Problem{About: readiness.AboutImage, State: readiness.Unknown, Reason: "the payload could not be read", Detail: []string{at.Ref + ": " + reasonOf(err)}})
		return nil, nil
	default:
		return nil, fmt.Errorf("%s: %s", at.Ref, reasonOf(err))
	}
}

// reasonOf keeps what the guard itself says of an image, and shortens what a registry does.
func reasonOf(err error) string {
	if answer := new(transport.Error); errors.As(err, &answer) || transfer.IsTemporary(err) {
		return transfer.Reason(err)
	}
	return text.Line(text.Cut(err.Error(), maxReason))
}

const maxReason = 500

// otherPlatforms names what the release image lacks for nodes of the control plane that are of another platform than the
// one for which it is read: CVO may be moved to them.
func (j *judging) otherPlatforms(at mirrors.Location, f *policy.Fact) {
	lacking := slices.DeleteFunc(j.controlPlanePlatforms(), func(p string) bool {
		_, _, ok := instanceFor(f, []string{p})
		return ok
	})
	if len(lacking) > 0 {
		j.Problems = append(j.Problems, readiness.Problem{About: readiness.AboutImage, State: readiness.NotReady, Reason: "the release image has no part for some nodes of the control plane", Detail: []string{at.Ref + " lacks " + text.Names(lacking, 3)}})
	}
}

// instanceFor returns the digest of the manifest that the first of platforms runs, by the fact, and its
// platform where there is a choice.
func instanceFor(f *policy.Fact, platforms []string) (digest, platform string, ok bool) {
	instances, known := f.Runs()
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

// fetch returns the image of a manifest at the repository of a place, read with the requests, credentials and trust
// that lookups have.
func (j *judging) fetch(ctx context.Context, at mirrors.Location, digest string) (v1.Image, error) {
	repository, _, _ := mirrors.Canonical(at.Ref)
	ref, err := imagename.NewDigest(repository + "@" + digest)
	if err != nil {
		return nil, fmt.Errorf("the reference cannot be read: %w", err)
	}
	carrier, err := transfer.New(j.Client, at, false)
	if err != nil {
		return nil, err
	}
	wrapped, err := transport.NewWithContext(ctx, ref.Context().Registry, authn.Anonymous, carrier, nil)
	if err != nil {
		return nil, err
	}
	return remote.Image(ref, remote.WithTransport(wrapped), remote.WithContext(ctx))
}
