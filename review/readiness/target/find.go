// Package target decides which release a cluster is to be updated to: the one that a person names, that is marked in
// ClusterVersion, or that it offers. It rests on texts and on how references are read, and judges no release.
package target

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// The words that stand for a release.
const (
	Next    = "next"
	Desired = "desired"
)

// A Release is the release that somebody asked about.
type Release struct {
	// Version is "" where only a reference was given.
	Version string
	// Image is the release image, by digest or by tag.
	Image string
	// Why says how it was found.
	Why string
	// Risks are those that the version's graph names for this cluster, a line each.
	Risks []string
	// Forced is set if CVO is told not to verify the release.
	Forced bool
}

// Asked returns what Find finds the same release by: the version, unless v offers another image under it than the one of
// c, as where somebody has asked CVO for an image of the house's own, or it is none: it is printed in commands, which a shell runs.
func (c Release) Asked(v *configv1.ClusterVersion) string {
	switch {
	case !versionText.MatchString(c.Version):
		return c.Image
	case c.Image == "" || v == nil:
		return c.Version
	}
	if same, err := offered(v, c.Version); err == nil && same.Image == c.Image {
		return c.Version
	}
	return c.Image
}

// ErrNoVersion is the error of a cluster without a ClusterVersion.
var ErrNoVersion = errors.New("there is no ClusterVersion: clusters without one (MicroShift, plain Kubernetes) are updated in another way; a dump needs it too")

// Find finds the release that v offers under the name asked: a version, Next, Desired, or the reference of a
// release image.
func Find(v *configv1.ClusterVersion, asked string) (Release, error) {
	if v == nil {
		return Release{}, ErrNoVersion
	}
	c, err := find(v, asked)
	if err != nil {
		return Release{}, err
	}
	if c.Image == "" {
		return Release{}, fmt.Errorf("ClusterVersion names no image for %s; give the reference of the release image", text.Line(c.Version))
	}
	if _, _, ok := mirrors.Canonical(c.Image); !ok {
		return Release{}, fmt.Errorf("the image that ClusterVersion names for it, %q, is no reference", text.Cut(c.Image, maxShown))
	}
	return c, nil
}

// maxShown is how much is shown of what others have written.
const maxShown = 200

var versionText = regexp.MustCompile(`^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

func find(v *configv1.ClusterVersion, asked string) (Release, error) {
	switch {
	case asked == Next:
		return next(v)
	case asked == Desired:
		return desired(v)
	case versionText.MatchString(asked):
		return offered(v, asked)
	default:
		return given(v, asked)
	}
}

// next chooses the newest version that is recommended.
func next(v *configv1.ClusterVersion) (Release, error) {
	var newest *configv1.Release
	for i := range v.Status.AvailableUpdates {
		r := &v.Status.AvailableUpdates[i]
		if newest == nil || compareVersions(r.Version, newest.Version) > 0 {
			newest = r
		}
	}
	if newest == nil {
		return Release{}, fmt.Errorf("ClusterVersion offers no recommended update%s", others(v))
	}
	names := convert.Each(v.Status.AvailableUpdates, func(r configv1.Release) string { return r.Version })
	why := "the only update that ClusterVersion recommends"
	if len(names) > 1 {
		slices.SortFunc(names, compareVersions)
		why = fmt.Sprintf("the newest of the %d updates that ClusterVersion recommends (%s)", len(names), text.Names(names, MaxNamed))
	}
	return Release{Version: newest.Version, Image: newest.Image, Why: why}, nil
}

// MaxNamed is how many versions are named.
const MaxNamed = 8

// compareVersions puts invalid versions first.
func compareVersions(a, b string) int {
	x, wrong := version.ParseSemantic(a)
	_, bad := version.ParseSemantic(b)
	switch {
	case wrong != nil && bad == nil:
		return -1
	case wrong == nil && bad != nil:
		return 1
	case wrong != nil:
		return strings.Compare(a, b)
	}
	c, _ := x.Compare(b) // it is valid
	return c
}

// others says what else can be asked for.
func others(v *configv1.ClusterVersion) string {
	versions := convert.Each(v.Status.AvailableUpdates, func(r configv1.Release) string { return r.Version })
	for _, u := range v.Status.ConditionalUpdates {
		if !slices.Contains(versions, u.Release.Version) {
			versions = append(versions, u.Release.Version)
		}
	}
	if len(versions) > 0 {
		slices.SortFunc(versions, compareVersions)
		return "; it offers " + text.Names(versions, MaxNamed)
	}
	for _, c := range v.Status.Conditions {
		if c.Type == configv1.RetrievedUpdates && c.Status != configv1.ConditionTrue {
			return fmt.Sprintf(", as it could not retrieve any (RetrievedUpdates: %s); without an update service, give the reference of the release image", text.Line(c.Reason))
		}
	}
	return "; without an update service, give the reference of the release image"
}

// desired is the update that somebody has asked CVO for.
func desired(v *configv1.ClusterVersion) (Release, error) {
	d := v.Spec.DesiredUpdate
	switch {
	case d == nil || d.Version == "" && d.Image == "":
		return Release{}, errors.New("spec.desiredUpdate of ClusterVersion names no release: no update was chosen")
	case d.Image != "":
		c := Release{Version: d.Version, Image: d.Image, Why: "spec.desiredUpdate of ClusterVersion", Forced: d.Force}
		c.Risks = risksOf(v, func(r configv1.Release) bool { return r.Image == d.Image })
		return c, nil
	default:
		c, err := offered(v, d.Version)
		c.Why, c.Forced = "spec.desiredUpdate of ClusterVersion; "+c.Why, d.Force
		return c, err
	}
}

// offered looks for a version among those that CVO would find.
func offered(v *configv1.ClusterVersion, wanted string) (Release, error) {
	is := func(r configv1.Release) bool { return r.Version == wanted }
	if i := slices.IndexFunc(v.Status.AvailableUpdates, is); i >= 0 {
		return Release{Version: wanted, Image: v.Status.AvailableUpdates[i].Image, Why: "recommended by ClusterVersion (availableUpdates)"}, nil
	}
	for _, u := range v.Status.ConditionalUpdates {
		if is(u.Release) {
			return Release{Version: wanted, Image: u.Release.Image, Why: "offered by ClusterVersion with conditions (conditionalUpdates)", Risks: risksOf(v, is)}, nil
		}
	}
	if d := v.Spec.DesiredUpdate; d != nil && d.Version == wanted && d.Image != "" {
		return Release{Version: wanted, Image: d.Image, Why: "spec.desiredUpdate of ClusterVersion", Forced: d.Force}, nil
	}
	if is(v.Status.Desired) {
		return Release{Version: wanted, Image: v.Status.Desired.Image, Why: "what the cluster runs, or is being updated to (status.desired)"}, nil
	}
	return Release{}, fmt.Errorf("ClusterVersion does not offer this version%s", others(v))
}

// risksOf returns the risks of a release that is offered with conditions only.
func risksOf(v *configv1.ClusterVersion, is func(configv1.Release) bool) []string {
	if slices.ContainsFunc(v.Status.AvailableUpdates, is) {
		return nil
	}
	var risks []string
	for _, u := range v.Status.ConditionalUpdates {
		if !is(u.Release) {
			continue
		}
		for _, r := range u.Risks {
			risks = append(risks, text.Line(text.Cut(r.Name+": "+r.Message, maxShown)))
		}
	}
	return risks
}

// given takes the reference of a release image.
func given(v *configv1.ClusterVersion, ref string) (Release, error) {
	if _, _, ok := mirrors.Canonical(ref); !ok || !strings.Contains(ref, "/") {
		return Release{}, fmt.Errorf("want a version such as 4.21.3, %s, %s, or the reference of a release image", Next, Desired)
	}
	c := Release{Image: ref, Why: "given by reference"}
	c.Risks = risksOf(v, func(r configv1.Release) bool { return r.Image == ref })
	if d := v.Spec.DesiredUpdate; d != nil && d.Image == ref {
		c.Forced = d.Force
	}
	return c, nil
}

// releasesOf returns the releases that CVO knows.
func releasesOf(v *configv1.ClusterVersion) []configv1.Release {
	releases := append(slices.Clone(v.Status.AvailableUpdates), v.Status.Desired)
	for _, u := range v.Status.ConditionalUpdates {
		releases = append(releases, u.Release)
	}
	return releases
}

// AlsoOffered returns the reference under which v offers the release image with a digest, "" if it is ref
// itself or none.
func AlsoOffered(v *configv1.ClusterVersion, ref string) string {
	for _, r := range releasesOf(v) {
		if isSameDigest(r.Image, ref) && r.Image != ref {
			return r.Image
		}
	}
	return ""
}
