package policy

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

var (
	buildOf   = Consumer{Kind: "BuildConfig", Namespace: "shop", Name: "app", Container: "spec.strategy.sourceStrategy.from"}
	customOf  = Consumer{Kind: "BuildConfig", Namespace: "shop", Name: "app", Container: "spec.strategy.customStrategy.from"}
	importOf  = Consumer{Kind: "ImageStream", Namespace: "shop", Name: "app", Container: "spec.tags[1].from"}
	offered   = Consumer{Kind: "ImageStream", Namespace: "shop", Name: "app", Container: "spec.tags[2].from", Use: History}
	throughOf = Consumer{Kind: "ImageStream", Namespace: "shop", Name: "app", Container: "status.tags[1].items[0].dockerImageReference"}
	deployed  = Consumer{Kind: "Deployment", Namespace: "shop", Name: "app", Container: "app"}
	gathering = Consumer{Kind: "ImageStream", Namespace: "openshift", Name: "must-gather", Container: "status.tags[latest].items[0].dockerImageReference", Use: History}
)

// TestPullers: who pulls an image decides by which rule it is judged, and whether that is a reason to refuse.
func TestPullers(t *testing.T) {
	mirrored := Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	tests := []struct {
		reason    string
		consumers []Consumer
		facts     Facts
		settings  Settings
		want      string
	}{
		{"a build that cannot pull stops nobody else", []Consumer{buildOf}, facts("m.local/x:1 absent"), Settings{}, "warn BuildFails"},
		{"unless it is to", []Consumer{buildOf}, facts("m.local/x:1 absent"), severities(BuildFails, Deny), "deny BuildFails"},
		{"a mirror that denies may let a build in by its own secret: it is not known, and not good", []Consumer{buildOf}, facts("m.local/x:1 denied"), severities(BuildFails, Deny), "deny BuildFails"},
		{"nor is what could not be asked", []Consumer{buildOf}, facts("m.local/x:1 unreachable"), Settings{}, "warn BuildFails"},
		{"nor what was not", []Consumer{buildOf}, facts(), Settings{}, "warn BuildFails"},
		{"a build that gets it", []Consumer{buildOf}, facts("m.local/x:1 present"), Settings{}, ""},
		{"a custom build, whose image nodes pull for its pod", []Consumer{customOf}, facts("m.local/x:1 absent"), Settings{}, "deny NotFullySynced"},
		{"a Deployment of the same image denies as ever", []Consumer{buildOf, deployed}, facts("m.local/x:1 absent"), Settings{}, "deny NotFullySynced"},
		{"an import asks the source, whatever the policy says", []Consumer{importOf}, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "warn ImportFails"},
		{"and fails without it", []Consumer{importOf}, facts("m.local/x:1 absent", "quay.io/x:1 absent"), Settings{}, "warn ImportFails"},
		{"an import that gets it", []Consumer{importOf}, facts("m.local/x:1 present"), Settings{}, ""},
		{"what is imported on demand is told on demand", []Consumer{offered}, facts("m.local/x:1 absent", "quay.io/x:1 absent"), Settings{}, "info ImportFails"},
		{"the integrated registry", []Consumer{throughOf}, facts("m.local/x:1 absent", "quay.io/x:1 absent"), Settings{}, "warn PullThroughFails"},
		{"must-gather, which nothing runs today", []Consumer{gathering}, facts("m.local/x:1 absent"), Settings{}, "warn RescueMissing"},
		{"and of which nothing is known", []Consumer{gathering}, facts(), Settings{}, "warn RescueMissing"},
		{"and without which nothing is to change", []Consumer{gathering}, facts("m.local/x:1 absent"), severities(RescueMissing, Deny), "deny RescueMissing"},
		{"must-gather that is mirrored", []Consumer{gathering}, facts("m.local/x:1 present"), Settings{}, ""},
		{"must-gather that a pod runs", []Consumer{gathering, deployed}, facts("m.local/x:1 absent"), Settings{}, "deny NotFullySynced"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			v := shallow(mirrored, []Image{{"quay.io/x:1", test.consumers}}, test.settings).Decide(test.facts)
			if got := summary(Judgement{Findings: only(v.Findings, func(f *Finding) bool { return f.Image.Ref != "" })}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMalformedForBuilds: what no node can parse, no build can either.
func TestMalformedForBuilds(t *testing.T) {
	mirrored := Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	for _, consumers := range [][]Consumer{{buildOf}, {importOf}, {deployed}, {buildOf, deployed}} {
		v := shallow(mirrored, []Image{{"Quay.io/X:1", consumers}}, Settings{}).Decide(facts())
		if got := summary(v); got != "warn MalformedReference" || v.Counts.Malformed != 1 {
			t.Errorf("%v: got %q, %d malformed", consumers, got, v.Counts.Malformed)
		}
	}
}

// TestRejectedAtOnce: where MCO rejects the objects no route of nodes changes, and those of builds do.
func TestRejectedAtOnce(t *testing.T) {
	rejected := Change{Before: set(itms("a", "quay.io", allow, "m.local")), After: set(itms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "n.local"))}
	for _, test := range []struct {
		consumer Consumer
		builds   int
		want     string
	}{
		{buildOf, 1, "deny RejectedByMCO, warn BuildFails, warn FollowedAtOnce"},
		{deployed, 0, "deny RejectedByMCO"},
	} {
		v := shallow(rejected, []Image{{"quay.io/x:1", []Consumer{test.consumer}}}, Settings{}).Decide(facts("m.local/x:1 absent", "n.local/x:1 absent"))
		if got := summary(v); got != test.want || v.Counts.Builds != test.builds {
			t.Errorf("%s: got %q and %d builds, want %q and %d", test.consumer, got, v.Counts.Builds, test.want, test.builds)
		}
	}
}

// TestCountAtOnce: a tag that is imported and pulled through is one, and so is a build that names two images.
func TestCountAtOnce(t *testing.T) {
	change := Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	images := []Image{
		{"quay.io/x:1", []Consumer{buildOf, importOf, throughOf, deployed}},
		{"quay.io/y:1", []Consumer{buildOf, offered}},
	}
	v := shallow(change, images, Settings{}).Decide(facts())
	if v.Counts.Tags != 2 || v.Counts.Builds != 1 {
		t.Errorf("%d tags and %d builds", v.Counts.Tags, v.Counts.Builds)
	}
	if got := (Counts{}).AtOnce(); got != "" {
		t.Errorf("of nothing it says %q", got)
	}
}

// TestHasOtherPullers: the index knows at any time whether there is anything but nodes.
func TestHasOtherPullers(t *testing.T) {
	var x ImageIndex
	has := func(want bool) {
		t.Helper()
		if got := x.Images().HasOtherPullers(); got != want {
			t.Errorf("got %t, want %t", got, want)
		}
	}
	has(false)
	x.Put(Image{"quay.io/x:1", []Consumer{deployed}})
	has(false)
	x.Put(Image{"quay.io/x:1", []Consumer{deployed, buildOf}})
	x.Put(Image{"quay.io/y:1", []Consumer{importOf}})
	has(true)
	x.Put(Image{"quay.io/x:1", []Consumer{deployed}})
	has(true)
	x.Delete("quay.io/y:1")
	x.Delete("quay.io/y:1")
	has(false)
}

// TestIsRescue: what is for the day something is wrong, and what only looks like it.
func TestIsRescue(t *testing.T) {
	related := Consumer{Kind: "ClusterServiceVersion", Namespace: "cnv", Name: "cnv", Container: "spec.relatedImages[must_gather].image"}
	past := gathering
	past.Container = "status.tags[latest].items[1].dockerImageReference"
	tenants := gathering
	tenants.Namespace = "shop"
	clusters := deployed
	clusters.Namespace = "openshift-cnv"
	version := Consumer{Kind: "ClusterServiceVersion", Namespace: "cnv", Name: "cnv", Container: "spec.relatedImages[x].image"}
	own := Consumer{Kind: "Deployment", Namespace: OwnNamespace, Name: "mirrorset-guard"}
	for _, test := range []struct {
		reason string
		image  Image
		want   bool
	}{
		{"the release's", Image{"quay.io/x@y", []Consumer{gathering}}, true},
		{"the release's before the last", Image{"quay.io/x@y", []Consumer{past}}, false},
		{"a tenant's ImageStream of that name", Image{"quay.io/x@y", []Consumer{tenants}}, false},
		{"an operator's", Image{"quay.io/x@y", []Consumer{related}}, true},
		{"by its name, in a tenant's Deployment", Image{"registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", []Consumer{deployed}}, false},
		{"by its name, in a tenant's ImageStream", Image{"example.com/x/must-gather@y", []Consumer{tenants}}, false},
		{"by its name, in a Deployment of the cluster's", Image{"registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", []Consumer{deployed, clusters}}, true},
		{"by its name, in an operator's version", Image{"registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", []Consumer{version}}, true},
		{"by its name, in what has no namespace", Image{"registry.redhat.io/cnv/cnv-must-gather-rhel9:v4", []Consumer{{Kind: "Console", Name: "cluster"}}}, true},
		{"by its name, in a report on all namespaces", Image{"example.com/x/must-gather@y", []Consumer{{Kind: "ClusterReport", Name: "today", Guessed: true}}}, false},
		{"what toolbox starts", Image{"registry.redhat.io/rhel9/support-tools", nil}, true},
		{"a namespace of that name", Image{"quay.io/must-gather/app:1", []Consumer{deployed}}, false},
		{"the guard's own", Image{"quay.io/x:1", []Consumer{own}}, true},
		{"no reference", Image{"Must-Gather!", nil}, false},
	} {
		if got := test.image.IsRescue(); got != test.want {
			t.Errorf("%s: got %t", test.reason, got)
		}
	}
}

// TestUnnamed: what no object names, and commands start, warns where a change cuts it off, and only there.
func TestUnnamed(t *testing.T) {
	const tools, gather = "registry.redhat.io/rhel9/support-tools:latest", "registry.redhat.io/openshift4/ose-must-gather:latest"
	release := Image{"quay.io/release@y", []Consumer{gathering}}
	onlyTools := release
	onlyTools.Consumers = []Consumer{{Kind: "ImageStream", Namespace: "openshift", Name: "tools", Container: gathering.Container, Use: History}}
	to := func(contact configv1.MirrorSourcePolicy) Change {
		return Change{Before: set(), After: set(itms("a", "registry.redhat.io", contact, "m.local"))}
	}
	blocked := Change{Before: set(), After: set()}
	blocked.After.Registries.BlockedRegistries = []string{"registry.redhat.io"}
	for _, test := range []struct {
		reason string
		change Change
		images []Image
		facts  Facts
		want   string
	}{
		{"the source is not asked any more, and the mirror lacks it", to(never), []Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest absent"), "warn RescueMissing"},
		{"nor is it known what the mirror has", to(never), []Image{release}, facts(tools + " present"), "warn RescueMissing"},
		{"nor anything else", to(never), []Image{release}, facts(), "warn RescueMissing"},
		{"the mirror has it", to(never), []Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest present"), ""},
		{"the source is asked next, as before", to(allow), []Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest absent"), ""},
		{"it is as unknown as before", to(allow), []Image{release}, facts(), ""},
		{"it was not there before", to(never), []Image{release}, facts(tools+" absent", "m.local/rhel9/support-tools:latest absent"), ""},
		{"the mirror that has it goes, and the source is out of reach", Change{Before: to(allow).After, After: set()}, []Image{release}, facts(tools+" unreachable", "m.local/rhel9/support-tools:latest present"), "warn RescueMissing"},
		{"or holds it", Change{Before: to(allow).After, After: set()}, []Image{release}, facts(tools+" present", "m.local/rhel9/support-tools:latest present"), ""},
		{"the registry is blocked", blocked, []Image{release}, facts(tools + " present"), "warn RescueMissing add its registry to allowedRegistries, or remove it from blockedRegistries"},
		{"something names it", to(never), []Image{release, {"m.local/support-tools:1", []Consumer{deployed}}}, facts(tools + " present"), ""},
		{"nothing shows that the cluster is one of OpenShift", to(never), []Image{{"quay.io/x:1", []Consumer{deployed}}}, facts(tools + " present"), ""},
		{"must-gather is not imported", to(never), []Image{onlyTools}, facts(tools+" absent", "m.local/rhel9/support-tools:latest absent", gather+" present"), "warn RescueMissing"},
	} {
		v := shallow(test.change, test.images, Settings{}).Decide(test.facts)
		findings := only(v.Findings, func(f *Finding) bool { return f.Rule == RescueMissing })
		got := summary(Judgement{Findings: findings})
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
	change := Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	v := shallow(change, []Image{{"quay.io/x:1", []Consumer{buildOf}}}, Settings{}).Decide(facts("m.local/x:1 denied"))
	for _, f := range v.Findings {
		if f.Rule == BuildFails {
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
	ended.Kind, ended.Use = "Build", History
	if got := ended.Puller(); got != mirrors.Nodes {
		t.Errorf("got %s", got)
	}
}
