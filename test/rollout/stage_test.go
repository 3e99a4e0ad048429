package rollout

import (
	"encoding/json"
	"testing"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// TestStageRenders shows that the stage works: MCO's controllers make the files that the
// guard expects of an ITMS, render them into the pool's configuration, and do so again when
// it goes.
func TestStageRenders(t *testing.T) {
	s, ctx := stage.New(t, stage.Setup{}), t.Context()
	first := s.Rendered(ctx, "worker", "")

	tags := &configv1.ImageTagMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: "apps"},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: "quay.io/app", Mirrors: []configv1.ImageMirror{"mirror.example.com/app"}},
		}},
	}
	if err := s.Client.Create(ctx, tags); err != nil {
		t.Fatal(err)
	}
	second := s.Rendered(ctx, "worker", first)
	want, err := mirrors.Resolve(mirrors.Set{Objects: []mirrors.Object{tags}, Payload: stage.ReleaseImage})
	if err != nil {
		t.Fatal(err)
	}
	if got := resolveRendered(t, s, second); !got.Has("quay.io/app") {
		t.Error("the rendered config has no entry for quay.io/app")
	} else if diff := gocmp.Diff(want.Config(), got.Config(), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(sysregistriesv2.V2RegistriesConf{})); diff != "" {
		t.Errorf("the guard's configuration with -, that of %s with +:\n%s", second, diff)
	}

	if err := s.Client.Delete(ctx, tags); err != nil {
		t.Fatal(err)
	}
	if third := s.Rendered(ctx, "worker", second); resolveRendered(t, s, third).Has("quay.io/app") {
		t.Errorf("%s still has the entry for quay.io/app", third)
	}
}

// resolveRendered reads a rendered config as the guard reads the generated one.
func resolveRendered(t *testing.T, s *stage.Stage, name string) *mirrors.Table {
	t.Helper()
	var rendered mcfgv1.MachineConfig
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, &rendered); err != nil {
		t.Fatal(err)
	}
	rendered.Name = mirrors.GeneratedRegistries
	data, err := json.Marshal(rendered)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := objects.DecodeApplied(data)
	if err != nil {
		t.Fatal(err)
	}
	table, err := mirrors.ResolveApplied(mirrors.Set{Applied: applied})
	if err != nil {
		t.Fatal(err)
	}
	return table
}
