package rules

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// A decision is what becomes of one image, with the reason for it in its name. What is said of it is shown
// by the stories in test/scenarios.
type decision struct {
	name          string
	before, after mirrors.Set
	image         string
	facts         policy.Facts
	settings      settings.Settings
	want          string // findings as "severity Rule"
}

const tag, dig = "quay.io/x:1", "quay.io/x" + digestA

func testDecisions(t *testing.T, decisions []decision) {
	t.Helper()
	for _, tt := range decisions {
		t.Run(tt.name, func(t *testing.T) {
			plan := shallow(policy.Change{Before: tt.before, After: tt.after}, []policy.Image{{Ref: tt.image, Consumers: running}}, tt.settings)
			verdict := Decide(plan, tt.facts)
			if got := summary(verdict); got != tt.want {
				t.Errorf("findings: %s\nwant:     %s\n%s", got, tt.want, words.Answer(verdict, "it"))
			}
			if verdict.Allowed == strings.Contains(tt.want, "deny") {
				t.Errorf("allowed = %v with %s", verdict.Allowed, tt.want)
			}
			for _, f := range verdict.Findings {
				if f.Image.Ref != "" && !namesPlaces(f, plan) {
					t.Errorf("%s says of no place, or not in their order, what was found there: %q", f.Rule, f.Detail)
				}
			}
		})
	}
}

// namesPlaces reports whether a finding has a line for each place of the image's new route that it is about,
// in order. There is no such route where it cannot be computed, nor where no node can parse the reference.
func namesPlaces(f policy.Finding, plan plan.ChangePlan) bool {
	if f.Rule == policy.MalformedReference || f.Rule == policy.RewriteError {
		return true
	}
	after, last, named := plan.Reroutes[0].After.Sources, -1, 0
	for _, s := range after {
		at := slices.IndexFunc(f.Detail[last+1:], func(line string) bool { return strings.HasPrefix(line, text.ShortDigest(s.Ref)+": ") })
		if at >= 0 {
			named, last = named+1, last+1+at
		}
	}
	return named == len(after) || f.Rule == policy.TagDrift && named == 1
}

// TestRules has the cases of each rule about an image that are decided by its routes and what registries say.
func TestRules(t *testing.T) {
	const a = digestA
	none, ok := set(), settings.Settings{}
	quay, only := set(itms("a", "quay.io", allow, "m.local")), set(itms("a", "quay.io", never, "m.local"))
	two, old := set(itms("a", "quay.io", allow, "m.local", "n.local")), set(itms("a", "quay.io", allow, "n.local"))
	digests := set(idms("a", "quay.io", allow, "m.local"))
	hidden := set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x"))
	blocks, redHat := idms("a", "quay.io", never, "m.local"), set(itms("a", "registry.access.redhat.com", allow, "m.local"))
	sparse := func(hosts ...string) policy.Facts {
		f := facts("quay.io/x:1 present")
		for _, host := range hosts {
			f[mirrors.Location{Ref: host + "/x:1"}] = &policy.Fact{Presence: policy.Present, Missing: []string{"linux/arm64"}}
		}
		return f
	}
	inCluster := "image-registry.openshift-image-registry.svc:5000/x/x"
	testDecisions(t, []decision{
		{"a short name that moves on to the next registry", searched("n.local"), searched("m.local"), "x/y:1", facts("m.local/x/y:1 absent", "registry.access.redhat.com/x/y:1 absent", "b.local/x/y:1 present", "n.local/x/y:1 present"), ok, "warn AnotherImage"},
		{"which its mirror has", searched("n.local"), searched("m.local"), "x/y:1", facts("m.local/x/y:1 present", "b.local/x/y:1 present", "n.local/x/y:1 present"), ok, ""},
		{"a short name of another registry than that of the mirror, which lacks it", none, redHat, "busybox:1", facts("m.local/busybox:1 absent", "registry.access.redhat.com/busybox:1 absent", "docker.io/library/busybox:1 present"), ok, ""},
		{"one that the mirror's registry may have", none, redHat, "busybox:1", facts("m.local/busybox:1 absent", "registry.access.redhat.com/busybox:1 unreachable", "docker.io/library/busybox:1 present"), ok, "deny ImageMissing"},
		{"one that the mirror may have, once it lets nodes in", none, redHat, "busybox:1", facts("m.local/busybox:1 denied", "registry.access.redhat.com/busybox:1 absent", "docker.io/library/busybox:1 present"), ok, "deny ImageMissing"},
		{"one of which nodes of a platform get it from the next registry", none, set(itms("a", "docker.io", allow, "m.local")), "x:1", sparse("registry.access.redhat.com"), ok, "deny Unverified"},
		{"a short name of which the first mirror has a single image for other nodes, which all take", none, redHat, "x:1", policy.Facts{{Ref: "m.local/x:1"}: {Presence: policy.Present, Lacks: []string{"linux/arm64"}}, {Ref: "registry.access.redhat.com/x:1"}: {Presence: policy.Absent, AsNodes: true}, {Ref: "docker.io/library/x:1"}: {Presence: policy.Present}}, ok, "warn AnotherImage"},
		{"one whose registry has its first mirror, while another's fails", redHat, set(append(redHat.Objects, itms("b", "docker.io", allow, "n.local"))...), "x/y:1", facts("m.local/x/y:1 absent", "registry.access.redhat.com/x/y:1 absent", "n.local/x/y:1 absent", "docker.io/x/y:1 present"), ok, "deny ImageMissing"},
		{"one whose registry has its first mirror, behind what nodes take", redHat, set(append(redHat.Objects, itms("b", "docker.io", allow, "n.local"))...), "x/y:1", facts("m.local/x/y:1 absent", "registry.access.redhat.com/x/y:1 present", "n.local/x/y:1 absent"), ok, "warn ImageMissing"},
		{"one whose first place no longer ends for itself alone", registryLists(set(itms("a", "docker.io", allow, "n.local")), configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"m.local", "docker.io"}}), registryLists(set(itms("a", "docker.io", allow, "m.local", "n.local")), configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"docker.io"}}), "x/y:1", facts("m.local/x/y:1 mismatch", "n.local/x/y:1 present", "docker.io/x/y:1 present"), ok, "deny ContentMismatch"},
		{"one that a mirror of its registry has today", set(itms("a", "registry.access.redhat.com", allow, "n.local")), redHat, "busybox:1", facts("n.local/busybox:1 present", "m.local/busybox:1 absent", "registry.access.redhat.com/busybox:1 absent", "docker.io/library/busybox:1 present"), ok, "deny ImageMissing"},
		{"one that nodes find before they come to the mirror", none, set(itms("a", "docker.io", allow, "m.local")), "x/y:1", facts("registry.access.redhat.com/x/y:1 present", "m.local/x/y:1 mismatch"), ok, ""},
		{"blobs: the source has it all, and nodes would not get there", none, quay, tag, facts("m.local/x:1 incomplete", "quay.io/x:1 present"), ok, "deny BlobsMissing"},
		{"blobs: so does the second mirror", none, two, tag, facts("m.local/x:1 incomplete", "n.local/x:1 present"), ok, "deny BlobsMissing"},
		{"blobs: the first mirror has it all", none, two, tag, facts("m.local/x:1 present", "n.local/x:1 incomplete"), ok, ""},
		{"blobs: it was so before", quay, two, tag, facts("m.local/x:1 incomplete", "n.local/x:1 present", "quay.io/x:1 present"), ok, "warn BlobsMissing"},
		{"blobs: the mirror is all there is", none, only, tag, facts("m.local/x:1 incomplete", "quay.io/x:1 present"), ok, "deny NotFullySynced"},
		{"a block is lifted", set(blocks), set(blocks, itms("b", "quay.io/x", allow, "m.local/x")), tag, facts("m.local/x:1 present"), ok, "warn BlockLifted"},
		{"wrong content ends the pull though the source has it", none, quay, tag, facts("m.local/x:1 mismatch", "quay.io/x:1 present"), ok, "deny ContentMismatch"},
		{"the mirror denies", none, quay, tag, facts("m.local/x:1 denied", "quay.io/x:1 present"), ok, "deny CredentialsMissing"},
		{"the mirror denies, and is all there is", none, only, tag, facts("m.local/x:1 denied", "quay.io/x:1 present"), ok, "deny NotFullySynced"},
		{"missing: the source serves, and the mirror set does not keep its promise", none, quay, tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), ok, "deny ImageMissing"},
		{"missing: the same, fall-back allowed", none, quay, tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{AllowSourceFallback: true}, "warn ImageMissing"},
		{"missing: from another mirror, where the first lacked it too", quay, two, tag, facts("m.local/x:1 absent", "n.local/x:1 absent", "quay.io/x:1 present"), ok, "warn ImageMissing"},
		{"missing: the mirror denies and the source lacks it, so it was lost before", none, quay, tag, facts("m.local/x:1 denied", "quay.io/x:1 absent"), ok, "warn ImageMissing"},
		{"missing: a source among its own mirrors is none", none, set(itms("a", "quay.io", allow, "quay.io", "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), ok, "deny ImageMissing"},
		{"missing: never to allow is a repair", only, quay, tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), ok, "warn ImageMissing"},
		{"missing: delete, source gone", quay, none, tag, facts("m.local/x:1 present", "quay.io/x:1 absent"), ok, "deny ImageMissing"},
		{"a hidden mirror, source gone", digests, hidden, dig, facts("m.local/x"+a+" present", "quay.io/x"+a+" absent"), ok, "deny MirrorHidden"},
		{"a hidden mirror that never held it", digests, hidden, dig, facts("m.local/x"+a+" absent", "quay.io/x"+a+" present"), ok, "warn MirrorHidden"},
		{"a mirror on this cluster", none, set(itms("a", "quay.io/x", allow, mirrorOf(inCluster))), tag, facts(inCluster + ":1 present"), ok, "warn MirrorInCluster"},
		{"the same, and what an entry said all along is written out", set(itms("a", "quay.io/x", "", mirrorOf(inCluster))), set(itms("a", "quay.io/x", allow, mirrorOf(inCluster))), tag, nil, ok, ""},
		{"no effect: no mirror", none, set(itms("a", "quay.io", never)), tag, nil, ok, "warn NoEffect"},
		{"no effect: its own mirror", none, set(itms("a", "quay.io", allow, "quay.io")), tag, nil, ok, "warn NoEffect"},
		{"no effect: upper case never matches", none, set(itms("a", "Quay.io/x", allow, "m.local")), tag, nil, ok, "warn NoEffect"},
		{"no effect: nor a name without a host", none, set(itms("a", "nginx", allow, "m.local")), tag, nil, ok, "warn NoEffect"},
		{"no effect: nor index.docker.io", none, set(itms("a", "index.docker.io", allow, "m.local")), tag, nil, ok, "warn NoEffect"},
		{"never for tags cuts off digests", none, only, dig, facts("quay.io/x" + a + " present"), ok, "deny NoRoute"},
		{"the same for what was lost before", none, only, dig, facts("quay.io/x" + a + " absent"), ok, "warn NoRoute"},
		{"never, missing", none, only, tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), ok, "deny NotFullySynced"},
		{"never, unverified", none, only, tag, facts("m.local/x:1 unreachable", "quay.io/x:1 present"), ok, "deny NotFullySynced"},
		{"allow to never with the mirror empty", quay, only, tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), ok, "deny NotFullySynced"},
		{"a sparse copy", none, quay, tag, sparse("m.local"), ok, "deny PlatformMissing"},
		{"as sparse as before", old, quay, tag, sparse("m.local", "n.local"), ok, "warn PlatformMissing"},
		{"a route that cannot be computed", none, set(itms("a", "quay.io", allow, "registry/x")), tag, facts("quay.io/x:1 present"), ok, "deny RewriteError"},
		{"the tag has moved on at the mirror", none, quay, tag, policy.Facts{{Ref: "m.local/x:1"}: {Presence: policy.Present, Digest: "sha256:new"}}, ok, "warn TagDrift"},
		{"unverified: the mirror is out of reach, the source serves", none, quay, tag, facts("m.local/x:1 unreachable", "quay.io/x:1 present"), ok, "deny Unverified"},
		{"unverified: nothing is known", none, quay, tag, nil, ok, "deny Unverified"},
		{"unverified: nothing is known, by setting", none, quay, tag, nil, severities(policy.Unverified, policy.Warn), "warn Unverified"},
		{"unverified: the source is gone, so it was lost before", none, quay, tag, facts("m.local/x:1 unreachable", "quay.io/x:1 absent"), ok, "warn Unverified"},
		{"unverified: a second mirror before the source, while the first is down", quay, two, tag, facts("m.local/x:1 unreachable", "n.local/x:1 unreachable", "quay.io/x:1 unreachable"), ok, "deny Unverified"},
		{"unverified: a mirror on the source's host denies, which a pod's own pull secret may open", none, set(itms("a", "quay.io", allow, "quay.io/mirror")), tag, facts("quay.io/mirror/x:1 denied", "quay.io/x:1 present"), ok, "deny Unverified"},
		{"unverified: delete, source out of reach", quay, none, tag, facts("m.local/x:1 present", "quay.io/x:1 unreachable"), ok, "deny Unverified"},
	})
}

// TestOtherCredentials: to be denied is no proof where nodes may have credentials that
// the guard does not have, and the facts stay what they are.
func TestOtherCredentials(t *testing.T) {
	for _, tt := range []struct {
		policy configv1.MirrorSourcePolicy
		want   string
	}{{allow, "deny Unverified"}, {never, "deny NotFullySynced"}} {
		plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", tt.policy, "m.local"))}, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{})
		plan.Reroutes[0].OtherCredentials = true
		found := facts("m.local/x:1 denied", "quay.io/x:1 present")
		v := Decide(plan, found)
		if summary(v) != tt.want || !strings.Contains(v.Findings[0].Detail[0], "CRIOCredentialProviderConfig") {
			t.Errorf("%s: %s: %q", tt.policy, summary(v), v.Findings[0].Detail)
		}
		if got := found[plan.Reroutes[0].After.Mirrors()[0]]; got.Presence != policy.Denied {
			t.Errorf("the fact has become %v", got)
		}
	}
}

// TestMirrorInCluster: what leads to the cluster itself is told; where that is a denial by setting, what could not be read is, too.
func TestMirrorInCluster(t *testing.T) {
	runsHere := func(host string) string { return map[string]string{"m.local": "Route quay/registry"}[host] }
	for _, tt := range []struct {
		reason string
		mirror configv1.ImageMirror
		unread []string
		set    policy.Severity
		want   string
	}{
		{"a Route", "m.local:443/x", nil, policy.Warn, "warn MirrorInCluster"},
		{"somewhere else", "n.local/x", nil, policy.Warn, ""},
		{"the same, and Routes could not be read", "n.local/x", []string{"routes"}, policy.Warn, ""},
		{"a denial by setting", "m.local/x", nil, policy.Deny, "deny MirrorInCluster"},
		{"which nothing that was read calls for", "n.local/x", nil, policy.Deny, ""},
		{"and what was not read may", "n.local/x", []string{"routes"}, policy.Deny, "deny MirrorInCluster"},
	} {
		known := plan.Cluster{Images: policy.NewImages(policy.Image{Ref: tag, Consumers: running}), RunsHere: runsHere, ExposedUnread: tt.unread}
		p := shallower(newPlan(policy.Change{Before: set(), After: set(itms("a", "quay.io/x", allow, tt.mirror))}, known, severities(policy.MirrorInCluster, tt.set)))
		if got := summary(Decide(p, facts(string(tt.mirror)+":1 present"))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}
