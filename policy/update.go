package policy

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Users as whom CVO changes ClusterVersion: the first until 4.21, the second since (cluster-version-operator,
// install/0000_00_cluster-version-operator_30_deployment.yaml). During an update from one to the other, there are both.
const (
	FormerVersionOperator = "system:serviceaccount:openshift-cluster-version:default"
	VersionOperator       = "system:serviceaccount:openshift-cluster-version:cluster-version-operator"
)

// An Update is a change of the ClusterVersion.
type Update struct {
	// Before is the object in force with its status, and After what is asked for, of which the status does not count.
	Before, After *configv1.ClusterVersion
	// Unread says why the status of Before could not be read; nil if it was.
	Unread error
}

// Asks reports whether u has CVO update the cluster to something that it does not run, and did not run before: nothing
// else of it is to be judged, and whoever forces an update has decided.
func (u Update) Asks(user string) bool {
	d := u.After.Spec.DesiredUpdate
	switch {
	case d == nil || d.Version == "" && d.Image == "":
		return false
	case d.Force, d.Mode == configv1.UpdateModePreflight, user == VersionOperator, user == FormerVersionOperator:
		return false
	case isSameTarget(u.Before.Spec.DesiredUpdate, d):
		return false
	default:
		return !u.isBack()
	}
}

// isSameTarget reports whether two desired updates lead to the same release. Accepted risks and force do not matter.
func isSameTarget(a, b *configv1.Update) bool {
	return a != nil && a.Version == b.Version && a.Image == b.Image && a.Architecture == b.Architecture && a.Mode == b.Mode
}

// isBack reports whether u leads to what the cluster runs, or is being updated to, or ran in full before.
func (u Update) isBack() bool {
	status, d := &u.Before.Status, u.After.Spec.DesiredUpdate
	if u.ChangesArchitecture() {
		return false
	}
	image := d.Image
	if image == "" {
		image = offeredImage(status, d.Version)
	}
	is := func(version, ran string) bool {
		if image != "" {
			return IsSameDigest(image, ran)
		}
		return version == d.Version
	}
	return is(status.Desired.Version, status.Desired.Image) || slices.ContainsFunc(status.History, func(h configv1.UpdateHistory) bool {
		return h.State == configv1.CompletedUpdate && is(h.Version, h.Image)
	})
}

// offeredImage is the release image that CVO takes for a version (findUpdateFromConfigVersion); "" if it is not offered.
func offeredImage(status *configv1.ClusterVersionStatus, version string) string {
	i := slices.IndexFunc(status.AvailableUpdates, func(r configv1.Release) bool { return r.Version == version })
	if i < 0 {
		return ""
	}
	return status.AvailableUpdates[i].Image
}

// IsSameDigest reports whether two references name the same release, which may have several names. It is false for
// references without digests: a tag may stand for something else by now.
func IsSameDigest(a, b string) bool {
	_, digest, found := strings.Cut(a, "@")
	_, other, alsoFound := strings.Cut(b, "@")
	return found && alsoFound && digest == other
}

// ChangesArchitecture reports whether u leads from a single architecture to several. CVO then asks the update service
// for the release of the same version that has them, and offers it from then on (findUpdateFromConfig).
func (u Update) ChangesArchitecture() bool {
	return u.After.Spec.DesiredUpdate.Architecture == configv1.ClusterVersionArchitectureMulti &&
		u.Before.Status.Desired.Architecture != configv1.ClusterVersionArchitectureMulti
}

// Subject returns what messages call u, at the beginning of a sentence.
func (u Update) Subject() string { return "ClusterVersion " + u.After.Name }

// Release returns the one that u leads to, as long as nothing is known of it.
func (u Update) Release() Release {
	name, asked := u.name()
	return Release{Name: name, Asked: asked, Unread: true}
}

// name returns what messages call the release that u leads to, and what check --release takes for it.
func (u Update) name() (name, asked string) {
	d := u.After.Spec.DesiredUpdate
	if d.Image == "" || d.Version != "" && offeredImage(&u.Before.Status, d.Version) == d.Image {
		asked = d.Version
	} else {
		asked = d.Image
	}
	name = d.Version
	if name == "" {
		name = text.ShortDigest(d.Image)
	}
	return shown(name), shown(asked)
}

// maxReleaseName is as much as a reference has.
const maxReleaseName = 300

// shown makes what a user has written safe to be printed, in a command too: neither versions nor references have
// anything else.
func shown(s string) string {
	return text.Cut(strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+:/@", r) {
			return r
		}
		return '?'
	}, s), maxReleaseName)
}
