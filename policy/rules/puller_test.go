package rules

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

var (
	buildOf   = policy.Consumer{Kind: "BuildConfig", Namespace: "shop", Name: "app", Container: "spec.strategy.sourceStrategy.from"}
	customOf  = policy.Consumer{Kind: "BuildConfig", Namespace: "shop", Name: "app", Container: "spec.strategy.customStrategy.from"}
	importOf  = policy.Consumer{Kind: "ImageStream", Namespace: "shop", Name: "app", Container: "spec.tags[1].from"}
	offered   = policy.Consumer{Kind: "ImageStream", Namespace: "shop", Name: "app", Container: "spec.tags[2].from", Use: policy.History}
	throughOf = policy.Consumer{Kind: "ImageStream", Namespace: "shop", Name: "app", Container: "status.tags[1].items[0].dockerImageReference"}
	deployed  = policy.Consumer{Kind: "Deployment", Namespace: "shop", Name: "app", Container: "app"}
	gathering = policy.Consumer{Kind: "ImageStream", Namespace: "openshift", Name: "must-gather", Container: "status.tags[latest].items[0].dockerImageReference", Use: policy.History}
)

// TestPullers: who pulls an image decides by which rule it is judged, and whether that is a reason to refuse.
func TestPullers(t *testing.T) {
	mirrored := policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	tests := []struct {
		reason    string
		consumers []policy.Consumer
		facts     policy.Facts
		settings  settings.Settings
		want      string
	}{
		{"a build that cannot pull stops nobody else", []policy.Consumer{buildOf}, facts("m.local/x:1 absent"), settings.Settings{}, "warn BuildFails"},
		{"unless it is to", []policy.Consumer{buildOf}, facts("m.local/x:1 absent"), severities(policy.BuildFails, policy.Deny), "deny BuildFails"},
		{"a mirror that denies may let a build in by its own secret: it is not known, and not good", []policy.Consumer{buildOf}, facts("m.local/x:1 denied"), severities(policy.BuildFails, policy.Deny), "deny BuildFails"},
		{"nor is what could not be asked", []policy.Consumer{buildOf}, facts("m.local/x:1 unreachable"), settings.Settings{}, "warn BuildFails"},
		{"nor what was not", []policy.Consumer{buildOf}, facts(), settings.Settings{}, "warn BuildFails"},
		{"a build that gets it", []policy.Consumer{buildOf}, facts("m.local/x:1 present"), settings.Settings{}, ""},
		{"a custom build, whose image nodes pull for its pod", []policy.Consumer{customOf}, facts("m.local/x:1 absent"), settings.Settings{}, "deny NotFullySynced"},
		{"a Deployment of the same image denies as ever", []policy.Consumer{buildOf, deployed}, facts("m.local/x:1 absent"), settings.Settings{}, "deny NotFullySynced"},
		{"an import asks the source, whatever the policy says", []policy.Consumer{importOf}, facts("m.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{}, "warn ImportFails"},
		{"and fails without it", []policy.Consumer{importOf}, facts("m.local/x:1 absent", "quay.io/x:1 absent"), settings.Settings{}, "warn ImportFails"},
		{"an import that gets it", []policy.Consumer{importOf}, facts("m.local/x:1 present"), settings.Settings{}, ""},
		{"what is imported on demand is told on demand", []policy.Consumer{offered}, facts("m.local/x:1 absent", "quay.io/x:1 absent"), settings.Settings{}, "info ImportFails"},
		{"the integrated registry", []policy.Consumer{throughOf}, facts("m.local/x:1 absent", "quay.io/x:1 absent"), settings.Settings{}, "warn PullThroughFails"},
		{"must-gather, which nothing runs today", []policy.Consumer{gathering}, facts("m.local/x:1 absent"), settings.Settings{}, "warn RescueMissing"},
		{"and of which nothing is known", []policy.Consumer{gathering}, facts(), settings.Settings{}, "warn RescueMissing"},
		{"and without which nothing is to change", []policy.Consumer{gathering}, facts("m.local/x:1 absent"), severities(policy.RescueMissing, policy.Deny), "deny RescueMissing"},
		{"must-gather that is mirrored", []policy.Consumer{gathering}, facts("m.local/x:1 present"), settings.Settings{}, ""},
		{"must-gather that a pod runs", []policy.Consumer{gathering, deployed}, facts("m.local/x:1 absent"), settings.Settings{}, "deny NotFullySynced"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			v := Decide(shallow(mirrored, []policy.Image{{Ref: "quay.io/x:1", Consumers: test.consumers}}, test.settings), test.facts)
			if got := summary(policy.Judgement{Findings: policy.Only(v.Findings, func(f *policy.Finding) bool { return f.Image.Ref != "" })}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMalformedForBuilds: what no node can parse, no build can either.
func TestMalformedForBuilds(t *testing.T) {
	mirrored := policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	for _, consumers := range [][]policy.Consumer{{buildOf}, {importOf}, {deployed}, {buildOf, deployed}} {
		v := Decide(shallow(mirrored, []policy.Image{{Ref: "Quay.io/X:1", Consumers: consumers}}, settings.Settings{}), facts())
		if got := summary(v); got != "warn MalformedReference" || v.Counts.Malformed != 1 {
			t.Errorf("%v: got %q, %d malformed", consumers, got, v.Counts.Malformed)
		}
	}
}

// TestRejectedAtOnce: where MCO rejects the objects no route of nodes changes, and those of builds do.
func TestRejectedAtOnce(t *testing.T) {
	rejected := policy.Change{Before: set(itms("a", "quay.io", allow, "m.local")), After: set(itms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "n.local"))}
	for _, test := range []struct {
		consumer policy.Consumer
		builds   int
		want     string
	}{
		{buildOf, 1, "deny RejectedByMCO, warn BuildFails, warn FollowedAtOnce"},
		{deployed, 0, "deny RejectedByMCO"},
	} {
		v := Decide(shallow(rejected, []policy.Image{{Ref: "quay.io/x:1", Consumers: []policy.Consumer{test.consumer}}}, settings.Settings{}), facts("m.local/x:1 absent", "n.local/x:1 absent"))
		if got := summary(v); got != test.want || v.Counts.Builds != test.builds {
			t.Errorf("%s: got %q and %d builds, want %q and %d", test.consumer, got, v.Counts.Builds, test.want, test.builds)
		}
	}
}

// TestCountAtOnce: a tag that is imported and pulled through is one, and so is a build that names two images.
func TestCountAtOnce(t *testing.T) {
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	images := []policy.Image{
		{Ref: "quay.io/x:1", Consumers: []policy.Consumer{buildOf, importOf, throughOf, deployed}},
		{Ref: "quay.io/y:1", Consumers: []policy.Consumer{buildOf, offered}},
	}
	v := Decide(shallow(change, images, settings.Settings{}), facts())
	if v.Counts.Tags != 2 || v.Counts.Builds != 1 {
		t.Errorf("%d tags and %d builds", v.Counts.Tags, v.Counts.Builds)
	}
	if got := (policy.Counts{}).AtOnce(); got != "" {
		t.Errorf("of nothing it says %q", got)
	}
}

// TestHasOtherPullers: the index knows at any time whether there is anything but nodes.
func TestHasOtherPullers(t *testing.T) {
	var x policy.ImageIndex
	has := func(want bool) {
		t.Helper()
		if got := x.Images().HasOtherPullers(); got != want {
			t.Errorf("got %t, want %t", got, want)
		}
	}
	has(false)
	x.Put(policy.Image{Ref: "quay.io/x:1", Consumers: []policy.Consumer{deployed}})
	has(false)
	x.Put(policy.Image{Ref: "quay.io/x:1", Consumers: []policy.Consumer{deployed, buildOf}})
	x.Put(policy.Image{Ref: "quay.io/y:1", Consumers: []policy.Consumer{importOf}})
	has(true)
	x.Put(policy.Image{Ref: "quay.io/x:1", Consumers: []policy.Consumer{deployed}})
	has(true)
	x.Delete("quay.io/y:1")
	x.Delete("quay.io/y:1")
	has(false)
}

// TestIsRescue: what is for the day something is wrong, and what only looks like it.
func TestIsRescue(t *testing.T) {
	related := policy.Consumer{Kind: "ClusterServiceVersion", Namespace: "cnv", Name: "cnv", Container: "spec.relatedImages[must_gather].image"}
	past := gathering
	past.Container = "status.tags[latest].items[1].dockerImageReference"
	tenants := gathering
	tenants.Namespace = "shop"
	clusters := deployed
	clusters.Namespace = "openshift-cnv"
	version := policy.Consumer{Kind: "ClusterServiceVersion", Namespace: "cnv", Name: "cnv", Container: "spec.relatedImages[x].image"}
	own := policy.Consumer{Kind: "Deployment", Namespace: policy.OwnNamespace, Name: "mirrorset-guard"}
	for _, test := range []struct {
		reason string
		image  policy.Image
		want   bool
	}{
		{"the release's", policy.Image{Ref: "quay.io/x@y", Consumers: []policy.Consumer{gathering}}, true},
		{"the release's before the last", policy.Image{Ref: "quay.io/x@y", Consumers: []policy.Consumer{past}}, false},
		{"a tenant's ImageStream of that name", policy.Image{Ref: "quay.io/x@y", Consumers: []policy.Consumer{tenants}}, false},
		{"an operator's", policy.Image{Ref: "quay.io/x@y", Consumers: []policy.Consumer{related}}, true},
		{"by its name, in a tenant's Deployment", policy.Image{Ref: "registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", Consumers: []policy.Consumer{deployed}}, false},
		{"by its name, in a tenant's ImageStream", policy.Image{Ref: "example.com/x/must-gather@y", Consumers: []policy.Consumer{tenants}}, false},
		{"by its name, in a Deployment of the cluster's", policy.Image{Ref: "registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", Consumers: []policy.Consumer{deployed, clusters}}, true},
		{"by its name, in an operator's version", policy.Image{Ref: "registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", Consumers: []policy.Consumer{version}}, true},
		{"by its name, in what has no namespace", policy.Image{Ref: "registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", Consumers: []policy.Consumer{{Kind: "Console", Name: "cluster"}}}, true},
		{"by its name, in a report on all namespaces", policy.Image{Ref: "example.com/x/must-gather@y", Consumers: []policy.Consumer{{Kind: "ClusterReport", Name: "today", Guessed: true}}}, false},
		{"what toolbox starts", policy.Image{Ref: "registry.redhat.io/rhel9/support-tools", Consumers: nil}, true},
		{"a namespace of that name", policy.Image{Ref: "quay.io/must-gather/app:1", Consumers: []policy.Consumer{deployed}}, false},
		{"the guard's own", policy.Image{Ref: "quay.io/x:1", Consumers: []policy.Consumer{own}}, true},
		{"no reference", policy.Image{Ref: "Must-Gather!", Consumers: nil}, false},
	} {
		if got := test.image.IsRescue(); got != test.want {
			t.Errorf("%s: got %t", test.reason, got)
		}
	}
}

// TestUnnamed: what no object names, and commands start, warns where a change cuts it off, and only there.
func TestUnnamed(t *testing.T) {
	const tools, gather = "registry.redhat.io/rhel9/support-tools:latest", "registry.redhat.io/openshift4/ose-must-gather:latest"
	release := policy.Image{Ref: "quay.io/release@y", Consumers: []policy.Consumer{gathering}}
	onlyTools := release
	onlyTools.Consumers = []policy.Consumer{{Kind: "ImageStream", Namespace: "openshift", Name: "tools", Container: gathering.Container, Use: policy.History}}
	to := func(contact configv1.MirrorSourcePolicy) policy.Change {
		return policy.Change{Before: set(), After: set(itms("a", "registry.redhat.io", contact, "m.local"))}
	}
	blocked := policy.Change{Before: set(), After: set()}
	blocked.After.Registries.BlockedRegistries = []string{"registry.redhat.io"}
	for _, test := range []struct {
		reason string
		change policy.Change
		images []policy.Image
		facts  policy.Facts
		want   string
	}{
		{"the source is not asked any more, and the mirror lacks it", to(never), []policy.Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest absent"), "warn RescueMissing"},
		{"nor is it known what the mirror has", to(never), []policy.Image{release}, facts(tools + " present"), "warn RescueMissing"},
		{"nor anything else", to(never), []policy.Image{release}, facts(), "warn RescueMissing"},
		{"the mirror has it", to(never), []policy.Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest present"), ""},
		{"the source is asked next, as before", to(allow), []policy.Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest absent"), ""},
		{"it is as unknown as before", to(allow), []policy.Image{release}, facts(), ""},
		{"it was not there before", to(never), []policy.Image{release}, facts(tools+" absent", "m.local/rhel9/support-tools:latest absent"), ""},
		{"the mirror that has it goes, and the source is out of reach", policy.Change{Before: to(allow).After, After: set()}, []policy.Image{release}, facts(tools+" unreachable", "m.local/rhel9/support-tools:latest present"), "warn RescueMissing"},
		{"or holds it", policy.Change{Before: to(allow).After, After: set()}, []policy.Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest present"), ""},
		{"the registry is blocked", blocked, []policy.Image{release}, facts(tools + " present"), "warn RescueMissing remove it from blockedRegistries"},
		{"something names it", to(never), []policy.Image{release, {Ref: "m.local/support-tools:1", Consumers: []policy.Consumer{deployed}}}, facts(tools + " present"), ""},
		{"nothing shows that the cluster is one of OpenShift", to(never), []policy.Image{{Ref: "quay.io/x:1", Consumers: []policy.Consumer{deployed}}}, facts(tools + " present"), ""},
		{"must-gather is not imported", to(never), []policy.Image{onlyTools}, facts(tools+" absent", "m.local/rhel9/support-tools:latest absent", gather+" present"), "warn RescueMissing"},
	} {
		v := Decide(shallow(test.change, test.images, settings.Settings{}), test.facts)
		findings := policy.Only(v.Findings, func(f *policy.Finding) bool { return f.Rule == policy.RescueMissing })
		got := summary(policy.Judgement{Findings: findings})
		if strings.Contains(test.want, "Registries") {
			got += " " + strings.Join(findings[0].Remedy, "; ")
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
		}
	}
}

// TestDeniedDetail: it says whose secrets are not known.
func TestDeniedDetail(t *testing.T) {
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	v := Decide(shallow(change, []policy.Image{{Ref: "quay.io/x:1", Consumers: []policy.Consumer{buildOf}}}, settings.Settings{}), facts("m.local/x:1 denied"))
	for _, f := range v.Findings {
		if f.Rule == policy.BuildFails {
			if !strings.HasPrefix(f.Detail[0], "m.local/x:1: ") || !strings.Contains(f.Detail[0], " namespace shop ") {
				t.Errorf("got %q", f.Detail[0])
			}
			return
		}
	}
	t.Errorf("no finding: %v", v.Findings)
}

// TestPullerOfEnded: what has ended pulls nothing.
func TestPullerOfEnded(t *testing.T) {
	ended := buildOf
	ended.Kind, ended.Use = "Build", policy.History
	if got := ended.Puller(); got != mirrors.Nodes {
		t.Errorf("got %s", got)
	}
}
