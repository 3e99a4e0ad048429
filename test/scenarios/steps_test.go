package scenarios

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// testSteps: what check says of a change that an API server gets object by object is what comes of it.
func testSteps(t *testing.T, w *world) {
	const (
		wide = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: a-wide}
spec: {imageTagMirrors: [{source: quay.io, mirrors: [mirror.example.com/quay], mirrorSourcePolicy: NeverContactSource}]}
`
		shop = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: b-shop}
spec: {imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]}
`
		tags = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: tags}
spec: {imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop], mirrorSourcePolicy: POLICY}]}
`
		digests = `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: digests}
spec: {imageDigestMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop], mirrorSourcePolicy: POLICY}]}
`
	)
	as := func(policy, text string) string { return strings.ReplaceAll(text, "POLICY", policy) }
	for _, tc := range []struct {
		name   string
		before []string
		change []string
		says   string // "" for nothing
		order  []int  // of the change, that works; nil if none does
	}{
		{"each is admitted", nil, []string{shop, wide}, "", []int{0, 1}},
		{
			"the other order works", nil,
			[]string{wide, shop},
			"in this order would refuse ImageTagMirrorSet a-wide; this order works: ImageTagMirrorSet b-shop, ImageTagMirrorSet a-wide",
			[]int{1, 0},
		},
		{
			"two that have to agree",
			[]string{as("NeverContactSource", tags), as("NeverContactSource", digests)},
			[]string{as("AllowContactingSource", tags), as("AllowContactingSource", digests)},
			"no order works, as the objects contradict each other until all are in place", nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Scenario{Before: tc.before, Change: tc.change, States: map[string]registries.Behaviour{
				"mirror.example.com/shop/cart:v1": registries.Honest, "quay.io/shop/cart:v1": registries.Honest,
			}}
			if err := s.readImages("quay.io/shop/cart:v1 Deployment shop/cart (app)\n"); err != nil {
				t.Fatal(err)
			}
			w.arrange(t, &s)
			report := w.checkAs(t, &s, "table")
			if !strings.Contains(report, "is admitted") {
				t.Fatalf("the change as a whole:\n%s", report)
			}
			if said := strings.Contains(report, "one after another"); said != (tc.says != "") || !strings.Contains(report, tc.says) {
				t.Errorf("check says\n%s\nwant %q", report, tc.says)
			}
			if tc.says != "" {
				one := s
				one.Change = tc.change[:1]
				if answer := w.askAPIServer(t, &one); answer.Allowed {
					t.Errorf("the first of them was admitted:\n%s", answer)
				}
			}
			for _, k := range tc.order {
				one := s
				one.Change = []string{tc.change[k]}
				if answer := w.askAPIServer(t, &one); !answer.Allowed {
					t.Errorf("step %d:\n%s", k, answer)
				}
			}
		})
	}
}
