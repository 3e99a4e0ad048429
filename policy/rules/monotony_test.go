package rules

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// A kept is the copy of the image at a registry.
type kept struct {
	presence policy.Presence
	// index is set if it is an index of two parts, lost is the part that the registry lacks,
	// "" for none.
	index bool
	lost  string
	// signed are the digests that have a signature there, and by which key.
	signed map[string]signer.Key
}

// A knowable is a world with all that can be known of it.
type knowable struct {
	change    policy.Change
	image     policy.Image
	platforms []string
	places    map[string]kept // by registry
	// current is what nodes have of a pool that lags behind, nil for none.
	current *mirrors.Set
}

// A knowledge is the part of a knowable that a loss leaves.
type knowledge struct {
	knowable
	// answer changes what a registry says, credentials what is known of pods' pull secrets; unlisted is set if
	// pods could not be listed.
	answer                func(l mirrors.Location, f policy.Fact) policy.Fact
	credentials, unlisted bool
	// before is set if it is not known what nodes have, unread if the rendered config was not read
	// of those that lag behind.
	before, unread bool
	gaps           []policy.Gap
	settings       settings.Settings
}

var partDigests = map[string]string{"linux/amd64": sumA, "linux/arm64": sumB}

const sumIndex = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

func randomKnowable(rng *rand.Rand) knowable {
	w := knowable{change: policy.Change{Before: randomSet(rng), After: randomSet(rng)}, places: map[string]kept{}}
	if rng.IntN(3) == 0 {
		w.change.After.Objects = w.change.Before.Objects
	}
	for _, s := range []*mirrors.Set{&w.change.Before, &w.change.After} {
		if rng.IntN(3) > 0 {
			continue
		}
		policy := []mirrors.Object{signedBy(release, "quay.io/x"), signedBy(release, "quay.io"), signedIn("shop", release, "quay.io/x"), signedIn("openshift-ingress", release, "quay.io/x")}[rng.IntN(4)]
		*s = mirrors.Put(policy).Apply(*s)
	}
	w.image = policy.Image{Ref: []string{tag, "quay.io/x@" + sumIndex}[rng.IntN(2)], Consumers: consumers()}
	if rng.IntN(2) == 0 {
		w.image.Consumers = consumers(isRouter)
	}
	if rng.IntN(3) == 0 {
		running := w.image.Consumers[0]
		running.Kind, running.Use, running.Digest = "Pod", policy.Running, []string{sumIndex, sumA, sumB}[rng.IntN(3)]
		w.image.Consumers = append(w.image.Consumers, running)
	}
	w.platforms = [][]string{{"linux/amd64"}, {"linux/amd64", "linux/arm64"}}[rng.IntN(2)]
	for i := range w.image.Consumers {
		c := &w.image.Consumers[i]
		c.OwnPullSecret = rng.IntN(4) == 0
		c.NeverRan = c.Kind == "Pod" && c.Digest == "" || rng.IntN(3) == 0
		c.Placement = []*policy.Placement{nil, {}, {NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}}, {NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"}}}[rng.IntN(2+len(w.platforms))] // for which there is a node
		c.NeverPulls, c.Ending = rng.IntN(12) == 0, rng.IntN(12) == 0
	}
	if rng.IntN(4) == 0 {
		w.current = new(randomSet(rng))
	}
	if rng.IntN(4) == 0 {
		mirror := []string{"a.local", "b.local", "c.local"}[rng.IntN(3)]
		dropIn := mirrors.File{MachineConfig: "50-lab", Role: "worker", Path: "/etc/containers/registries.conf.d/50.conf", Contents: []byte("[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"" + mirror + "\"\n")}
		w.change.Before.Files, w.change.After.Files = []mirrors.File{dropIn}, []mirrors.File{dropIn}
	}
	index := rng.IntN(2) == 0
	for _, h := range []string{"a.local", "b.local", "c.local", "quay.io"} {
		k := kept{presence: []policy.Presence{policy.Present, policy.Present, policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable, policy.Mismatch, policy.Incomplete}[rng.IntN(9)], index: index, signed: map[string]signer.Key{}}
		if strings.HasPrefix(w.image.Ref, "quay.io/x:") && rng.IntN(6) == 0 {
			k.index = !k.index
		}
		k.lost = []string{"", "", "", "", "linux/amd64", "linux/arm64"}[rng.IntN(6)]
		for _, sum := range []string{sumA, sumB, sumIndex} {
			if key := []signer.Key{"", release, release, release, "other"}[rng.IntN(5)]; key != "" {
				k.signed[sum] = key
			}
		}
		w.places[h] = k
	}
	return w
}

// short returns w with a short name for its image, which is searched for in two registries.
func (w knowable) short() knowable {
	w.image.Ref = "x:1"
	for _, s := range []*mirrors.Set{&w.change.Before, &w.change.After, w.current} {
		if s != nil {
			s.Registries.ContainerRuntimeSearchRegistries = []string{"c.local", "quay.io"}
		}
	}
	return w
}

// knowsPlatforms reports whether all nodes say for which platform they are.
func (k *knowledge) knowsPlatforms() bool { return len(k.platforms) > 0 && k.platforms[0] != "" }

// find is what an honest prober learns about a location.
func (k *knowledge) find(l mirrors.Location) policy.Fact {
	at := k.places[l.Host()]
	f := policy.Fact{Presence: at.presence, AsNodes: true}
	switch {
	case at.presence == policy.Unreachable || at.presence == policy.Denied:
	case l.Depth == mirrors.DepthReferrers:
		f.Presence = policy.Absent
	case l.Depth == mirrors.DepthSignatures:
		tag := policy.TagOf(l)
		sum := strings.Replace(strings.TrimSuffix(tag, ".sig"), "-", ":", 1)
		f.Presence = policy.Absent
		if key, ok := at.signed[sum]; ok {
			f.Presence, f.Signatures = policy.Present, &signing.Signatures{All: []signing.Signature{key.Sign("quay.io/x:1", sum)}}
		}
	case at.presence == policy.Incomplete && l.Depth < mirrors.DepthBlobs, at.presence == policy.Present:
		f.Presence, f.Digest, f.MediaType = policy.Present, sumIndex, signer.MediaType
		if !at.index && !mirrors.ByDigest(k.image.Ref) { // an index and an image have no digest in common
			f.Digest = sumA
		}
		if at.index {
			f.MediaType, f.Children, f.Instances = policy.IndexTypes[0], []string{sumA, sumB}, []policy.Instance{}
			f.Guessed = !k.knowsPlatforms()
			for _, p := range twoPlatforms {
				if !f.Guessed && !slices.Contains(k.platforms, p) {
					continue
				}
				if p == at.lost {
					f.Missing = append(f.Missing, p)
					continue
				}
				f.Serves = append(f.Serves, p)
				f.Instances = append(f.Instances, policy.Instance{Platform: p, Digest: partDigests[p]})
			}
		} else if l.Depth >= mirrors.DepthManifest {
			f.Serves, f.Guessed = twoPlatforms[:1], !k.knowsPlatforms()
			f.Lacks = slices.DeleteFunc(slices.Clone(k.platforms), func(p string) bool { return p == f.Serves[0] || p == "" })
		}
	}
	if k.answer != nil {
		f = k.answer(l, f)
	}
	return f
}

// judge reviews the change with what is known.
func (k *knowledge) judge() (plan.ChangePlan, policy.Verdict) {
	image := k.image
	image.Consumers = slices.Clone(image.Consumers)
	if k.credentials {
		for i := range image.Consumers {
			image.Consumers[i].PullSecretUnknown = true
		}
	}
	images := policy.NewImages(image)
	if len(image.Consumers) == 0 {
		images = policy.Images{}
	}
	plan := newPlan(k.change, k.cluster(images), k.settings)
	if k.before {
		for i := range plan.Reroutes {
			plan.Reroutes[i].Before, plan.Reroutes[i].BeforeUnknown = mirrors.Route{}, true
		}
	}
	return plan, Decide(plan, k.facts(plan))
}

// cluster returns what is known of it.
func (k *knowledge) cluster(images policy.Images) plan.Cluster {
	known := plan.Cluster{Images: images, Gaps: k.gaps, PodsListed: plan.InEveryNamespace, Nodes: nodesOf(k.platforms), Current: k.currentConfigs()}
	if k.unlisted {
		known.PodsListed = nil
	}
	return known
}

// facts returns the answers to all that a plan looks up.
func (k *knowledge) facts(plan interface {
	Lookups(policy.Facts) []mirrors.Location
},
) policy.Facts {
	facts := policy.Facts{}
	for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
		for _, l := range lookups {
			facts[l] = new(k.find(l))
		}
	}
	return facts
}

func (k *knowledge) currentConfigs() []evidence.CurrentConfig {
	if k.current == nil {
		return nil
	}
	c := evidence.CurrentConfig{CurrentConfig: rollout.CurrentConfig{Name: "rendered-worker-1", Pool: "worker", Lags: true}}
	if !k.unread {
		c.Routes, _ = mirrors.Resolve(*k.current) // nil for what MCO would not render
	}
	return []evidence.CurrentConfig{c}
}

const whatRuns, aNode, anOptionalKind, files = "what runs", "a node", "a kind that may not be read", "the MachineConfigs, and it is known that they are not"

// A loss takes knowledge away.
type loss struct {
	name string
	of   func(*knowledge)
}

// losses are all, for each registry where that matters.
func losses() []loss {
	all := []loss{
		{"the pull secret of the nodes", func(k *knowledge) {
			k.answer = func(_ mirrors.Location, f policy.Fact) policy.Fact {
				f.AsNodes = false
				return f
			}
		}},
		{"the pull secret, and registries want one", func(k *knowledge) {
			k.answer = func(l mirrors.Location, f policy.Fact) policy.Fact {
				f.AsNodes = false
				if l.Host() != "quay.io" {
					f = policy.Fact{Presence: policy.Denied}
				}
				return f
			}
		}},
		{"where pods may run", func(k *knowledge) {
			k.image.Consumers = slices.Clone(k.image.Consumers)
			for i := range k.image.Consumers {
				k.image.Consumers[i].Placement = nil
			}
		}},
		{"whether pods pull, come again, and have run", func(k *knowledge) {
			k.image.Consumers = slices.Clone(k.image.Consumers)
			for i := range k.image.Consumers {
				k.image.Consumers[i].NeverPulls, k.image.Consumers[i].Ending, k.image.Consumers[i].NeverRan = false, false, false
			}
		}},
		{"the pods, and it is known that they are not", func(k *knowledge) {
			k.gaps = []policy.Gap{{Source: "pods", Kind: "Pod", Detail: "unread"}}
			k.image.Consumers = nil
		}},
		{"whether all pods are known", func(k *knowledge) { k.unlisted = true }},
		{anOptionalKind, func(k *knowledge) {
			k.gaps = []policy.Gap{{Source: "clusterserviceversions", Kind: "ClusterServiceVersion", Detail: "no permission", Unread: true, Excused: true}}
			k.image.Consumers = nil
		}},
		{files, func(k *knowledge) {
			k.gaps = []policy.Gap{{Source: "machineconfigs", Kind: policy.MachineConfigKind, Detail: "unread", Unread: true}}
			k.change.Before.Files, k.change.After.Files = nil, nil
		}},
		{"the pull secrets of pods", func(k *knowledge) { k.credentials = true }},
		{"what nodes have", func(k *knowledge) { k.before = true }},
		{"a rendered config", func(k *knowledge) { k.unread = true }},
		{aNode, func(k *knowledge) { k.platforms = k.platforms[:1] }},
		{"all nodes", func(k *knowledge) {
			k.platforms, k.gaps = nil, []policy.Gap{{Source: "nodes", Kind: policy.NodeKind, Detail: "unread", Unread: true, Excused: true}}
		}},
		{"what nodes are", func(k *knowledge) { k.platforms = []string{""} }},
		{whatRuns, func(k *knowledge) { k.image.Consumers = k.image.Consumers[:1] }},
		{"the time for signatures", func(k *knowledge) {
			k.answer = func(l mirrors.Location, f policy.Fact) policy.Fact {
				if l.Depth == mirrors.DepthSignatures {
					return policy.Fact{Detail: "no answer yet"}
				}
				return f
			}
		}},
		{"the right to read signatures", func(k *knowledge) {
			k.answer = func(l mirrors.Location, f policy.Fact) policy.Fact {
				if l.Depth == mirrors.DepthSignatures {
					return policy.Fact{Presence: policy.Unreachable, AsNodes: true}
				}
				return f
			}
		}},
		{"all time", func(k *knowledge) {
			k.answer = func(mirrors.Location, policy.Fact) policy.Fact { return policy.Fact{Detail: "no answer yet"} }
		}},
		{"how fresh misses are", func(k *knowledge) {
			k.answer = func(_ mirrors.Location, f policy.Fact) policy.Fact {
				f.Recalled = f.Presence == policy.Absent
				return f
			}
		}},
	}
	for _, h := range []string{"a.local", "b.local", "c.local", "quay.io"} {
		for name, old := range map[string]policy.Fact{
			"had nothing":          {Presence: policy.Absent, AsNodes: true, Recalled: true},
			"had other signatures": {Presence: policy.Present, AsNodes: true, Recalled: true, Signatures: &signing.Signatures{All: []signing.Signature{signer.Key("other").Sign("quay.io/x:1", sumA)}}},
		} {
			all = append(all, loss{h + " " + name + " a minute ago", func(k *knowledge) {
				k.answer = func(l mirrors.Location, f policy.Fact) policy.Fact {
					if l.Host() == h && f.Presence == policy.Present && (old.Signatures == nil || l.Depth == mirrors.DepthSignatures) {
						return old
					}
					return f
				}
			}})
		}
		for name, instead := range map[string]policy.Fact{
			"is out of reach": {Presence: policy.Unreachable, AsNodes: true}, "shows a page": {Presence: policy.Mismatch, AsNodes: true, Detail: "a page"},
			"denies strangers": {Presence: policy.Denied}, "hides from strangers": {Presence: policy.Absent}, "is late": {Detail: "no answer yet"},
			"hides a part": {Presence: policy.Inconclusive, AsNodes: true},
		} {
			all = append(all, loss{h + " " + name, func(k *knowledge) {
				k.answer = func(l mirrors.Location, f policy.Fact) policy.Fact {
					if l.Host() == h {
						return instead
					}
					return f
				}
			}})
		}
	}
	return all
}

// A namedException is a case in which less known admits more on purpose; docs/truth.md has the reasons.
func namedException(l loss, all, less policy.Verdict) string {
	switch l.name {
	case whatRuns:
		return "a pod that nobody may list"
	case aNode:
		return "a node that has yet to come"
	case anOptionalKind:
		return "a kind that the guard has no right to read"
	}
	if strings.HasSuffix(l.name, "had nothing a minute ago") && !slices.ContainsFunc(all.Findings, func(f policy.Finding) bool { return f.Severity == policy.Deny && !f.OnlySource }) {
		return "the source of an application, which had nothing a minute ago"
	}
	for _, f := range less.Findings {
		switch {
		case f.Rule == policy.InventoryStale:
			return "images that could not be listed keep their places"
		case (settings.Settings{}).IsProtected(f.Image):
		case f.Rule == policy.UnverifiedInFront:
			return "a place in front that could not be asked"
		case f.Rule == policy.PlatformMissing:
			return "the source itself is the image"
		}
	}
	return ""
}

// verdict returns the verdict where all is known, and whether images were judged for it.
func (w knowable) verdict() (policy.Verdict, bool) {
	plan, v := (&knowledge{knowable: w}).judge()
	return v, plan.Rejected == nil && plan.RejectedBefore == nil && len(plan.Reroutes) > 0
}

// without takes knowledge away, and returns what is wrong with the verdict then, v being the one
// where all is known, or the name of an exception by which it admits.
func (w knowable) without(l loss, v policy.Verdict) (exception, wrong string) {
	less := &knowledge{knowable: w}
	l.of(less)
	_, got := less.judge()
	full := &knowledge{knowable: w}
	is := func(v policy.Verdict) bool { // a policy that requires nothing says that instead
		report := words.Answer(v, "X").String()
		return strings.Contains(report, "all verified") || strings.Contains(report, "requires no signature of any")
	}
	switch {
	case is(got) && !is(v) && l.name != aNode && l.name != whatRuns:
		return "", fmt.Sprintf("without %s all is verified, and it was not\n%s\n%s\n%s", l.name, full, words.Answer(v, "X").String(), words.Answer(got, "X").String())
	case got.Counts.Verified > v.Counts.Verified && l.name != aNode && l.name != whatRuns && l.name != files:
		return "", fmt.Sprintf("without %s the image is verified, and it was not\n%s\n%s", l.name, full, words.Answer(got, "X").String())
	case v.Allowed || !got.Allowed:
		return "", ""
	case namedException(l, v, got) == "":
		return "", fmt.Sprintf("without %s it is admitted, and it was denied\n%s\n%s\n%s", l.name, full, words.Answer(v, "X").String(), words.Answer(got, "X").String())
	default:
		return namedException(l, v, got), ""
	}
}

// A choices is a source of randomness that a fuzzer can shrink: eight bytes are one choice. Those
// after the end are always the same.
type choices struct {
	data []byte
	rest *rand.PCG
}

func (c *choices) Uint64() uint64 {
	if len(c.data) < 8 {
		return c.rest.Uint64()
	}
	next := binary.LittleEndian.Uint64(c.data)
	c.data = c.data[8:]
	return next
}

// FuzzLessKnown is TestLessKnownNeverAdmitsMore with worlds that a fuzzer chooses.
func FuzzLessKnown(f *testing.F) {
	seeds := rand.NewChaCha8([32]byte{21})
	for range 20 {
		seed := make([]byte, 8*60)
		_, _ = seeds.Read(seed)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := randomKnowable(rand.New(&choices{data, rand.NewPCG(20, 21)}))
		v, judged := w.verdict()
		if !judged {
			return
		}
		for _, l := range losses() {
			if _, wrong := w.without(l, v); wrong != "" {
				t.Error(wrong)
			}
		}
	})
}

// TestGapsHold: whatever part of the cluster is not known, nothing is called all of what is in force, and no deletion is allowed. A change
// is excused from some parts alone.
func TestGapsHold(t *testing.T) {
	gaps := []policy.Gap{
		{Source: "pods", Kind: "Pod"},
		{Source: "jobs", Kind: "Job", Unread: true},
		{Source: "clusterserviceversions", Kind: "ClusterServiceVersion", Unread: true, Excused: true},
		{Source: "nodes", Kind: policy.NodeKind, Unread: true, Excused: true},
		{Source: "machineconfigs", Kind: policy.MachineConfigKind, Unread: true},
	}
	for seed := range uint64(campaign.Times(100, 2_000)) {
		k := &knowledge{knowable: randomKnowable(rand.New(rand.NewPCG(seed, 22)))}
		set, images := k.change.Before, policy.NewImages(k.image)
		_, whole := k.judge()
		for _, gap := range gaps {
			k.gaps = []policy.Gap{gap}
			deletion := plan.NewDeletion(set, set, k.cluster(images), settings.Settings{}, func(*mirrors.Route) bool { return true })
			facts := k.facts(deletion)
			if v := DecideDeletion(deletion, facts, facts, func(*mirrors.PullSource) bool { return false }); !slices.ContainsFunc(v, func(f policy.Finding) bool { return f.Severity == policy.Deny }) {
				t.Errorf("seed %d: a deletion is allowed without %s\n%s", seed, gap, k)
			}
			standing := plan.NewStanding(set, k.cluster(images), settings.Settings{})
			_, change := k.judge()
			for _, report := range []string{words.StandingAnswer(DecideStanding(standing, k.facts(standing)), "X").String(), words.Answer(change, "X").String()} {
				if strings.Contains(report, "all verified") {
					t.Errorf("seed %d: all is verified without %s\n%s\n%s", seed, gap, k, report)
				}
			}
			if gap.Excused && change.Allowed != whole.Allowed {
				t.Errorf("seed %d: without %s: admitted %t, and %t with it\n%s\n%s", seed, gap, change.Allowed, whole.Allowed, k, words.Answer(change, "X").String())
			}
		}
	}
}

// TestLessKnownNeverAdmitsMore: whatever is taken away of what is known, a change that was denied
// is not admitted, and an image that was not verified is not verified.
func TestLessKnownNeverAdmitsMore(t *testing.T) {
	tried, denied, lost, excepted := 0, 0, map[string]int{}, map[string]int{}
	for seed := range uint64(campaign.Times(100, 2_000)) {
		w := randomKnowable(rand.New(rand.NewPCG(seed, 21)))
		if seed%4 == 0 {
			w = w.short()
		}
		v, judged := w.verdict()
		if !judged {
			continue
		}
		tried++
		if !v.Allowed {
			denied++
		}
		_, cached := (&knowledge{knowable: w, settings: settings.Settings{Caches: []string{"*"}}}).judge()
		if summary(cached) != summary(v) {
			t.Errorf("seed %d: that mirrors are caches changes the verdict: %s, and %s without", seed, summary(cached), summary(v))
		}
		for _, c := range cached.Copies() {
			if got := strings.Join(c.Commands(), "\n"); !c.Cache || strings.Count(got, "docker://") > 1 {
				t.Errorf("seed %d: something is copied to a cache: %s", seed, got)
			}
		}
		for _, l := range losses() {
			name, why := w.without(l, v)
			if why != "" {
				t.Errorf("seed %d: %s", seed, why)
				lost[l.name]++
			}
			if name != "" {
				excepted[name]++
			}
			if len(lost) > 3 {
				t.Fatal("and so on")
			}
		}
	}
	t.Logf("%d worlds, %d denied, %d ways to know less; exceptions: %v", tried, denied, len(losses()), excepted)
	if denied < tried/5 || denied > tried*4/5 {
		t.Errorf("%d of %d are denied: too few, or too many", denied, tried)
	}
}

// TestTagsThatMove: a command says of each tag that it moves, or may move, that it does, and of no other.
func TestTagsThatMove(t *testing.T) {
	moved := 0
	for seed := range uint64(campaign.Times(3_000, 30_000)) {
		k := &knowledge{knowable: randomKnowable(rand.New(rand.NewPCG(seed, 23)))}
		_, v := k.judge()
		for _, f := range v.Findings {
			for i, command := range f.Copy.Commands() {
				condition, _, isCopy := strings.Cut(command, "skopeo copy ")
				if !isCopy {
					continue
				}
				from, to := f.Copy.From[0], f.Copy.To
				if f.Copy.OnlyAttachments {
					from, to = f.Copy.Attachments[i].From, f.Copy.Attachments[i].To
					to.Depth = mirrors.DepthSignatures
				}
				there, said := k.find(to), condition != ""
				isNew := mirrors.ByDigest(to.Ref) || there.Presence == policy.Absent
				if isSame := there.Digest != "" && there.Digest == k.find(from).Digest; said && (isNew || isSame && f.Copy.Found && f.Rule == policy.TagDrift) || !said && !isNew && !isSame {
					t.Errorf("seed %d: %s: %s, and there is %+v\n%s", seed, f.Rule, command, there, k)
				}
				moved += policy.Bit(said)
			}
		}
	}
	if moved < 50 {
		t.Errorf("%d tags are moved: too few", moved)
	}
}

// String describes k for whoever has to investigate it.
func (k *knowledge) String() string {
	var b strings.Builder
	for _, s := range []mirrors.Set{k.change.Before, k.change.After} {
		b.WriteString("set:")
		for _, e := range s.Entries() {
			fmt.Fprintf(&b, " %s %s->%v %s;", mirrors.KindOf(e.Object), e.Source, e.Mirrors, e.Policy)
		}
		for _, p := range s.Policies {
			var scopes []configv1.ImageScope
			switch p := p.(type) {
			case *configv1.ClusterImagePolicy:
				scopes = p.Spec.Scopes
			case *configv1.ImagePolicy:
				scopes = p.Spec.Scopes
			}
			fmt.Fprintf(&b, " %s %v;", mirrors.NameOf(p), scopes)
		}
		b.WriteString("\n")
	}
	for _, h := range []string{"a.local", "b.local", "c.local", "quay.io"} {
		fmt.Fprintf(&b, "%s %+v\n", h, k.places[h])
	}
	fmt.Fprintf(&b, "%s %v %+v", k.image.Ref, k.platforms, k.image.Consumers)
	return b.String()
}
