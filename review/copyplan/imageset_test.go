package copyplan

import (
	"os"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// copyOf is a copy of an image that something references.
func copyOf(from, to, kind, name string) Copy {
	return Copy{
		Image: policy.Image{Ref: from, Consumers: []policy.Consumer{{Kind: kind, Name: name}}},
		From:  mirrors.Location{Ref: from}, To: mirrors.Location{Ref: to},
	}
}

const anyDigest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// TestImageSet: what oc-mirror would put elsewhere gets a targetRepo, a release is mirrored as one, and
// what cannot be expressed is said.
func TestImageSet(t *testing.T) {
	desired := configv1.Release{Version: "4.22.3"}
	on := func(architectures ...string) Release {
		var nodes []*corev1.Node
		for _, a := range architectures {
			nodes = append(nodes, &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: a}}})
		}
		return ReleaseOf(&configv1.ClusterVersion{Status: configv1.ClusterVersionStatus{Desired: desired}}, nodes)
	}
	release := on("amd64", "amd64")
	ofRelease := func(r Release) Plan {
		return Plan{Release: r, Copies: []Copy{copyOf("quay.io/openshift-release-dev/ocp-release"+anyDigest, "m.example.com/ocp/openshift/release-images"+anyDigest, "ClusterVersion", "version"), copyOf("quay.io/shop/cart:v1", "m.example.com/ocp/shop/cart:v1", "Deployment", "cart")}}
	}
	arm, mixed := on("arm64"), on("amd64", "arm64")
	desired.Architecture = configv1.ClusterVersionArchitectureMulti
	multi := on("amd64")
	of := func(copies ...Copy) Plan { return Plan{Copies: copies, Release: release} }
	part := ofRelease(release)
	part.Left = []Copy{copyOf("quay.io/openshift-release-dev/ocp-v4.0-art-dev"+anyDigest, "m.example.com/ocp/openshift/release"+anyDigest, "ClusterVersion", "version")}
	old := copyOf("quay.io/openshift-release-dev/ocp-v4.0-art-dev"+anyDigest, "m.example.com/ocp/openshift/release"+anyDigest, "ClusterVersion", "version")
	old.Image.Consumers[0].Use = policy.History
	for _, tt := range []struct {
		reason string
		plan   Plan
		wants  []string
	}{
		{"the path that oc-mirror chooses", of(copyOf("quay.io/shop/cart:v1", "m.example.com:8443/x/y/shop/cart:v1", "Deployment", "cart")), []string{
			"docker://m.example.com:8443/x/y\n", "  - name: quay.io/shop/cart:v1\n",
		}},
		{"another path", of(copyOf("quay.io/shop/cart:v1", "m.example.com/x/cart:v1", "Deployment", "cart")), []string{
			"docker://m.example.com\n", "    targetRepo: x/cart\n",
		}},
		{"a release, with the images of another one", of(
			copyOf("quay.io/openshift-release-dev/ocp-release"+anyDigest, "m.example.com/ocp/openshift/release-images"+anyDigest, "ClusterVersion", "version"),
			copyOf("quay.io/shop/cart:v1", "m.example.com/ocp/shop/cart:v1", "Deployment", "cart"), old,
		), []string{
			"docker://m.example.com/ocp\n", "    - maxVersion: 4.22.3\n      minVersion: 4.22.3\n      name: stable-4.22\n", "# 1 image is that of release 4.22.3 by platform",
			"  - name: quay.io/openshift-release-dev/ocp-v4.0-art-dev" + anyDigest + "\n    targetRepo: openshift/release\n",
		}},
		{"a release for another architecture", ofRelease(arm), []string{"  platform:\n    architectures:\n    - arm64\n    channels:\n"}},
		{"a release for several", ofRelease(multi), []string{"  platform:\n    architectures:\n    - multi\n    channels:\n"}},
		{"a release for which architecture is not known", ofRelease(mixed), []string{
			"# Not expressed: release 4.22.3 by platform, as it is not known for which architecture it is", "  additionalImages:\n  - name: quay.io/openshift-release-dev/ocp-release" + anyDigest + "\n",
		}},
		{"a release of which an image is to be left", part, []string{"mirror:\n  additionalImages:\n  - name: quay.io/openshift-release-dev/ocp-release" + anyDigest + "\n"}},
		{"a release at another place", of(copyOf("quay.io/openshift-release-dev/ocp-release"+anyDigest, "m.example.com/releases"+anyDigest, "ClusterVersion", "version")), []string{
			"    targetRepo: releases\n",
		}},
		{"two registries", of(copyOf("quay.io/a:1", "m.example.com/a:1", "Pod", "a"), copyOf("quay.io/b:1", "m.example.com/b:1", "Pod", "b"), copyOf("quay.io/c:1", "other.example.com/c:1", "Pod", "c")), []string{
			"# Not expressed: other.example.com/c:1, as a run of oc-mirror has one destination",
		}},
		{"nothing", of(), []string{"mirror: {}\n"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var b strings.Builder
			if err := tt.plan.Write(&b, "imageset"); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.wants {
				if !strings.Contains(b.String(), want) {
					t.Errorf("no %q in\n%s", want, b.String())
				}
			}
			for _, mistake := range validateImageSet(t, b.String()) {
				t.Errorf("oc-mirror would refuse it: %s\n%s", mistake, b.String())
			}
		})
	}
	if mistakes := validateImageSet(t, "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror: {additionalImages: [{name: a, target: b}]}\n"); len(mistakes) == 0 {
		t.Error("the schema is not strict")
	}
}

// validateImageSet returns what is wrong with an ImageSetConfiguration by oc-mirror's documented fields.
func validateImageSet(t *testing.T, text string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/imageset-v2alpha1.schema.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var published apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict(data, &published); err != nil {
		t.Fatal(err)
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&published, &schema, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&schema)
	if err != nil {
		t.Fatal(err)
	}
	var object any
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		return []string{err.Error()}
	}
	var mistakes []string
	for _, e := range validation.ValidateCustomResource(nil, object, validator) {
		mistakes = append(mistakes, e.Error())
	}
	return mistakes
}

// TestNamesForAShell: no reference that a shell would read is written, be it the mirror's.
func TestNamesForAShell(t *testing.T) {
	for ref, want := range map[string]bool{
		"quay.io/shop/cart:v1": true, "m.example.com:8443/a/b__c" + anyDigest: true,
		"": false, "a b": false, "a;rm": false, "$(x)": false, "a\nb": false, "a`b": false, "a'b": false, "docker.io/é": false,
	} {
		s := standing{Copy: &policy.Copy{From: []mirrors.Location{{Ref: "quay.io/shop/cart:v1"}}, To: mirrors.Location{Ref: ref}}}
		if isPlain(ref) != want || (s.obstacle() == "") != want {
			t.Errorf("%q is plain: %v, at a mirror %q", ref, !want, s.obstacle())
		}
	}
}

// TestImageSetOfNothing: where nothing can be copied, there is no command without a destination.
func TestImageSetOfNothing(t *testing.T) {
	var b strings.Builder
	plan := Plan{Obstacles: []string{"quay.io/shop/cart:v1: give each source a mirror"}}
	if err := plan.Write(&b, "imageset"); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "oc mirror --v2") || !strings.Contains(got, "There is nothing for oc mirror to do") || !strings.Contains(got, "quay.io/shop/cart:v1: give each source a mirror") {
		t.Errorf("%s", got)
	}
}
