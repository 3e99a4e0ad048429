package rollout

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// set makes a mirrors.Set of lines: "idms NAME SOURCE [never] MIRROR...", "itms ...", and
// "blocked|insecure|search REGISTRY...".
func set(t *testing.T, lines string) mirrors.Set {
	t.Helper()
	var s mirrors.Set
	for _, line := range strings.Split(lines, "; ") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "blocked":
			s.Registries.BlockedRegistries = words[1:]
		case "insecure":
			s.Registries.InsecureRegistries = words[1:]
		case "search":
			s.Registries.ContainerRuntimeSearchRegistries = words[1:]
		default:
			s = mirrors.Put(mirrorSet(words[0], words[1], words[2], words[3:])).Apply(s)
		}
	}
	if _, err := mirrors.Resolve(s); err != nil {
		t.Fatalf("%s: MCO rejects it: %v", lines, err)
	}
	return s
}

func mirrorSet(kind, name, source string, locations []string) mirrors.Object {
	policy := configv1.AllowContactingSource
	if len(locations) > 0 && locations[0] == "never" {
		policy, locations = configv1.NeverContactSource, locations[1:]
	}
	list := convert.Each(locations, func(l string) configv1.ImageMirror { return configv1.ImageMirror(l) })
	meta := metav1.ObjectMeta{Name: name}
	if kind == "itms" {
		return &configv1.ImageTagMirrorSet{ObjectMeta: meta, Spec: configv1.ImageTagMirrorSetSpec{
			ImageTagMirrors: []configv1.ImageTagMirrors{{Source: source, Mirrors: list, MirrorSourcePolicy: policy}},
		}}
	}
	return &configv1.ImageDigestMirrorSet{ObjectMeta: meta, Spec: configv1.ImageDigestMirrorSetSpec{
		ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: source, Mirrors: list, MirrorSourcePolicy: policy}},
	}}
}

// TestObjects is what administrators do, by the files that MCO makes of it.
func TestObjects(t *testing.T) {
	const (
		reload = "reloads CRI-O without a drain"
		drain  = "drains and reloads CRI-O"
	)
	for _, tt := range []struct {
		name, before, after string
		want                string
	}{
		{"nothing", "", "", "changes no file"},
		{"no difference but in the order of objects", "idms a quay.io m.io; idms b x.io m.io", "idms b x.io m.io; idms a quay.io m.io", "changes no file"},

		{"the first IDMS", "", "idms a quay.io m.io", reload},
		{"the first IDMS, Never", "", "idms a quay.io never m.io", reload},
		{"the last IDMS", "idms a quay.io m.io", "", drain},
		{"the first ITMS", "", "itms a quay.io m.io", drain},
		{"a second ITMS", "itms a quay.io m.io", "itms a quay.io m.io; itms b x.io m.io", drain},
		{"an IDMS below another", "idms a quay.io m.io", "idms a quay.io m.io; idms b quay.io/x n.io", reload},
		{"an IDMS below an ITMS", "itms a quay.io m.io", "itms a quay.io m.io; idms b quay.io/x n.io", reload},
		{"an entry without mirrors, first of all", "", "idms a quay.io", reload},
		{"an entry without mirrors, beside another", "idms b x.io m.io", "idms b x.io m.io; idms a quay.io", "changes no file"},

		{"a mirror for digests more", "idms a quay.io m.io", "idms a quay.io m.io n.io", reload},
		{"in front", "idms a quay.io m.io", "idms a quay.io n.io m.io", reload},
		{"a mirror for tags more", "itms a quay.io m.io", "itms a quay.io m.io n.io", drain},
		{"a mirror less", "idms a quay.io m.io n.io", "idms a quay.io m.io", drain},
		{"in another order", "itms a quay.io m.io n.io", "itms a quay.io n.io m.io", reload},
		{"an entry moves to another object", "idms a quay.io m.io", "idms b quay.io m.io", "changes no file"},
		{"Allow to Never", "idms a quay.io m.io", "idms a quay.io never m.io", drain},
		{"Never to Allow", "itms a quay.io never m.io", "itms a quay.io m.io", drain},

		{"ITMS to IDMS", "itms a quay.io m.io", "idms a quay.io m.io", reload},
		{"IDMS to ITMS", "idms a quay.io m.io", "itms a quay.io m.io", drain},
		{"an ITMS beside the IDMS of a source, another mirror", "idms a quay.io m.io", "idms a quay.io m.io; itms b quay.io n.io", drain},
		{"the same mirror", "idms a quay.io m.io", "idms a quay.io m.io; itms b quay.io m.io", drain},
		{"that ITMS goes", "idms a quay.io m.io; itms b quay.io m.io", "idms a quay.io m.io", reload},
		{"the IDMS goes", "idms a quay.io m.io; itms b quay.io m.io", "itms b quay.io m.io", drain},
		{"both have the mirror, and one for digests comes", "idms a quay.io m.io; itms b quay.io m.io", "idms a quay.io m.io n.io; itms b quay.io m.io", drain},
		{"both have the mirror, and nothing of the source changes", "idms a quay.io m.io; itms b quay.io m.io", "idms a quay.io m.io; itms b quay.io m.io; idms c x.io m.io", reload},

		{"a block without a mirrored parent", "", "blocked quay.io", drain},
		{"a block below digest mirrors", "idms a quay.io m.io", "idms a quay.io m.io; blocked quay.io/x", reload},
		{"a block below tag mirrors", "itms a quay.io m.io", "itms a quay.io m.io; blocked quay.io/x", drain},
		{"a block on a mirrored source", "idms a quay.io m.io", "idms a quay.io m.io; blocked quay.io", drain},
		{"an insecure registry below digest mirrors", "idms a quay.io m.io", "idms a quay.io m.io; insecure quay.io/x", reload},
		{"an insecure registry that is a source", "idms a quay.io m.io", "idms a quay.io m.io; insecure quay.io", drain},
		{"an insecure registry that is a mirror", "idms a quay.io m.io", "idms a quay.io m.io; insecure m.io", drain}, // an entry of its own
		{"and is below another mirrored source", "idms a quay.io m.io/x; idms b m.io n.io", "idms a quay.io m.io/x; idms b m.io n.io; insecure m.io/x", reload},

		{"search registries", "", "search a.io", "drains and reboots"},
		{"a shorter list of them", "search a.io b.io", "search a.io", "drains and reboots"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := mirrors.Rendered(set(t, tt.before))
			if err != nil {
				t.Fatal(err)
			}
			after, err := mirrors.Rendered(set(t, tt.after))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Decide(before, after, Conditions{})
			if err != nil {
				t.Fatal(err)
			}
			if d.String() != tt.want {
				t.Errorf("got %q, want %q: %v", d, tt.want, d.Reasons)
			}
		})
	}
}
