package rollout

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// TestKnownDifferences shows each known difference (README.md) by the smallest set that has
// it. A row fails once the guard does what MCO does: then it goes, with what TestFiles makes
// of it.
func TestKnownDifferences(t *testing.T) {
	o := oracle.New(t)
	mirror := func(source, mirror string) mirrors.Object {
		return &configv1.ImageDigestMirrorSet{
			ObjectMeta: metav1.ObjectMeta{Name: "mirror"},
			Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{
				{Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(mirror)}},
			}},
		}
	}
	for _, tt := range []struct {
		name     string
		mirror   mirrors.Object
		lists    configv1.RegistrySources
		rejects  bool // MCO does
		drops    bool // MCO drops the lists
		accepted bool // the guard sees no reason against the set
	}{
		{
			name: "the release image blocked, with a mirror whose host is a single word", mirror: mirror("quay.io/openshift-release-dev", "mirror/release"),
			lists: configv1.RegistrySources{BlockedRegistries: []string{"quay.io", "docker.io"}}, drops: true, accepted: true,
		},
		{
			name:  "the release image blocked, and an entry that nobody can read",
			lists: configv1.RegistrySources{BlockedRegistries: []string{"quay.io", "*.example.com/x"}}, drops: true, accepted: false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := mirrors.Set{Registries: tt.lists, Payload: releaseImages + "@" + digest}
			if tt.mirror != nil {
				s.Objects = append(s.Objects, tt.mirror)
			}
			answers, err := o.Ask(oracle.Question{Render: objectsOf(s)})
			if err != nil {
				t.Fatal(err)
			}
			mco := answers[0].Rendered
			t.Logf("MCO: %s%s", mco.Error, mco.DroppedLists)
			if rejects, drops := mco.Error != "", mco.DroppedLists != ""; rejects != tt.rejects || drops != tt.drops {
				t.Errorf("MCO rejects: %t, drops the lists: %t; want %t, %t", rejects, drops, tt.rejects, tt.drops)
			}
			if _, err := mirrors.Resolve(s); (err == nil) != tt.accepted {
				t.Errorf("the guard says: %v", err)
			}
		})
	}
}
