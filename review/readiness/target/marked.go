package target

import (
	"errors"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Recommended says that a release was marked by ClusterVersion's recommendation, as Desired does by
// spec.desiredUpdate.
const Recommended = "recommended"

// Marked returns the release that a cluster is to be updated to, and by what it was marked: Desired or, if
// recommendations count, Recommended. "" means that none is. An error means that a release is marked but could not be
// identified; the Release then has what is known of it.
func Marked(v *configv1.ClusterVersion, recommendations bool) (c Release, by string, err error) {
	if v == nil {
		return Release{}, "", ErrNoVersion
	}
	if d := v.Spec.DesiredUpdate; d != nil && d.Version+d.Image != "" && !runs(v, d) {
		c, err = Find(v, Desired)
		if err == nil && isSameDigest(Running(v).Image, c.Image) {
			err = errors.New("it runs already, and spec.desiredUpdate asks for it for other architectures: ClusterVersion names no image for these")
		}
		if err != nil {
			c = Release{Version: text.Line(text.Cut(d.Version, maxShown)), Image: d.Image}
		}
		return c, Desired, err
	}
	if !recommendations || len(v.Status.AvailableUpdates) == 0 {
		return Release{}, "", nil
	}
	c, err = Find(v, Next)
	return c, Recommended, err
}

// runs reports whether an update is to what the cluster runs. It does not while CVO is at work: nodes still pull
// then.
func runs(v *configv1.ClusterVersion, d *configv1.Update) bool {
	now := Running(v)
	switch {
	case now.Version+now.Image == "":
		return false
	case d.Image != "":
		return isSameDigest(now.Image, d.Image)
	default:
		return d.Version == now.Version && (d.Architecture == "" || d.Architecture == v.Status.Desired.Architecture)
	}
}

// Running returns the release that was installed last; none while CVO installs one.
func Running(v *configv1.ClusterVersion) configv1.Release {
	switch {
	case len(v.Status.History) == 0:
		return v.Status.Desired
	case v.Status.History[0].State != configv1.CompletedUpdate:
		return configv1.Release{}
	default:
		return configv1.Release{Version: v.Status.History[0].Version, Image: v.Status.History[0].Image}
	}
}

// isSameDigest reports whether two references name the same release, which may have several names. It is false for
// references without digests: a tag may stand for something else by now.
func isSameDigest(a, b string) bool {
	return DigestOf(a) != "" && DigestOf(a) == DigestOf(b)
}

// DigestOf returns the digest of a reference, "" if it has none.
func DigestOf(ref string) string {
	_, digest, _ := strings.Cut(ref, "@")
	return digest
}
