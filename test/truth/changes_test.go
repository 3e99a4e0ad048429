package truth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/BurntSushi/toml"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// A change is a step from one configuration to another; the guard has to say whether it
// may be made. Its scenario is what nodes meet afterwards; while the guard
// looks, some hosts may be out of reach, and it does not have the secrets of pods.
type change struct {
	*scenario
	before mirrors.Set
	// stuck is set if MCO rejects before: nodes then have what this set resolves to.
	stuck *mirrors.Set
	// nodes are their architectures.
	nodes []string
	// running is set if a pod runs the image.
	running bool
}

// The numbers of changes lie above those of scenarios, as addresses follow from them.
const (
	firstChange  = 20_000
	usualChanges = 160
)

// calm are states in which a place gives every client the same answer.
var calm = []share[state]{
	{present, 60},
	{absent, 30},
	{denied, 3},
	{html, 6},
	{wrong, 5},
	{failing, 3},
	{sparseHere, 6},
	{sparse, 6},
	{foreignOne, 2},
	{onlyAMD64, 10},
	{indexAMD64, 6},
	{hollow, 3},
	{headAbsent, 3},
	{headOnly, 6},
	{headUnfit, 2},
}

// testChanges generates changes, has the guard review each, and lets a runtime pull with
// the configuration before and the one after, as nodes of each architecture. What could be
// pulled before and cannot be afterwards must have been denied.
func (w *world) testChanges(t *testing.T) {
	count := min(campaign.Times(usualChanges, many/5), number(t, "TRUTH_SCENARIOS", many))
	l := changeLedger{caught: map[string]int{}, rules: map[string]int{}, misreadings: misjudgements()}
	t.Run("each", func(t *testing.T) {
		for i := range count {
			t.Run(fmt.Sprintf("%04d", i), func(t *testing.T) {
				t.Parallel()
				w.playChange(t, i, &l)
			})
		}
	})
	t.Log(l.String())
	if count >= usualChanges && !t.Failed() {
		l.check(t)
	}
}

func newChange(w *world, i int) *change {
	g := gen{rand.New(rand.NewPCG(w.seed+1, uint64(i)))}
	for {
		s := &scenario{number: firstChange + i, arch: "amd64", corpus: w.corpus}
		for k := range 4 {
			s.hosts = append(s.hosts, s.newHost(w, k))
		}
		c := &change{scenario: s, nodes: pick(g, []string{"amd64"}, []string{"amd64", "arm64"}), running: g.chance(30)}
		if plots := changePlots(); i < len(plots) {
			c.stage(plots[i])
			return c
		}
		if c.draw(g) {
			return c
		}
	}
}

// changePlots are systematic changes. Each turns the plainest, a first mirror for a source
// that has the image, into something that a careless guard would admit.
func changePlots() []func(*change) {
	return []func(*change){
		func(c *change) { // the mirror in front comes back as a login page
			c.never()
			c.hosts[mirror].atReview, c.hosts[mirror].places["team/app"] = ill, html
			c.addMirror(c.hosts[second].addr)
		},
		func(c *change) { // the old mirror has it, and is currently out of reach
			c.hosts[mirror].places["team/app"], c.hosts[source].places["team/app"] = absent, absent
			c.hosts[second].atReview = ill
			c.before = c.set
			c.before.Objects = c.mirrorSets(c.hosts[second].addr)
		},
		func(c *change) { // the same, and it currently denies the guard
			c.hosts[mirror].places["team/app"], c.hosts[source].places["team/app"] = absent, absent
			c.hosts[second].atReview = closed
			c.before = c.set
			c.before.Objects = c.mirrorSets(c.hosts[second].addr)
		},
		func(c *change) { // the source hides it from unauthenticated clients
			c.never()
			c.hosts[mirror].places["team/app"] = absent
			c.hosts[source].door, c.podSecret = hiding, user+":"+password
		},
		func(c *change) { // the mirror's tag is for one architecture
			c.index, c.nodes = true, []string{"amd64", "arm64"}
			c.hosts[mirror].places["team/app"] = onlyAMD64
		},
		func(c *change) { // the mirror's tag is an index of one architecture
			c.index, c.nodes = true, []string{"amd64", "arm64"}
			c.hosts[mirror].places["team/app"] = indexAMD64
		},
		func(c *change) { // the mirror remembers what its origin has lost
			c.never()
			c.hosts[mirror].places["team/app"] = headOnly
		},
		(*change).heldUp, // a held-back change that cuts nodes off is released
		func(c *change) { // the same, and what nodes have could not be read
			c.heldUp()
			c.before.Applied = nil
		},
	}
}

// heldUp has a first mirror applied, and one that lacks the image held back by a conflict,
// which c repairs.
func (c *change) heldUp() {
	applied := c.set
	c.set.Objects = c.mirrorSets(c.hosts[second].addr)
	c.hosts[second].places["team/app"] = absent
	c.never()
	c.getStuck(applied, c.set, c.hosts[second].addr, true)
}

// getStuck makes c the repair of a conflict about source, which came with other objects
// after MCO had applied a set: one of its two sides is deleted.
func (c *change) getStuck(applied, with mirrors.Set, source string, tags bool) {
	one, other := &configv1.ImageTagMirrorSet{}, &configv1.ImageDigestMirrorSet{}
	one.Name, other.Name = "one-side", "other-side"
	mirror := []configv1.ImageMirror{configv1.ImageMirror(c.hosts[3].addr)}
	one.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: source, Mirrors: mirror, MirrorSourcePolicy: configv1.NeverContactSource}}
	other.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: source, Mirrors: mirror}}
	c.stuck = &applied
	c.before = mirrors.Join(mirrors.Put(one), mirrors.Put(other)).Apply(with)
	c.before.Applied = filesOf(applied)
	taken := mirrors.Object(one)
	if !tags {
		taken = other
	}
	c.set = mirrors.Delete(taken).Apply(c.before)
}

// filesOf returns what MCO writes for the nodes; nil for what it would not apply.
func filesOf(set mirrors.Set) *mirrors.Applied {
	table, err := mirrors.Resolve(set)
	if err != nil {
		return nil
	}
	return written(table, set)
}

func written(table *mirrors.Table, set mirrors.Set) *mirrors.Applied {
	var conf bytes.Buffer
	if err := toml.NewEncoder(&conf).Encode(table.Config()); err != nil {
		panic(err) // it came from a valid set
	}
	policy, err := signaturePolicy(set)
	if err != nil {
		return nil
	}
	return &mirrors.Applied{Files: map[string][]byte{mirrors.RegistriesConfPath: conf.Bytes(), policyfile.PolicyJSONPath: policy}}
}

// had returns what nodes do before c.
func (c *change) had() mirrors.Set {
	if c.stuck != nil {
		return *c.stuck
	}
	return c.before
}

// stage makes c the plainest change but for plot.
func (c *change) stage(plot func(*change)) {
	for _, h := range c.hosts {
		h.places["team/app"] = present
	}
	c.image = c.hosts[source].addr + "/team/app:v1"
	c.pullSecret = dockerConfig(map[string]any{"unrelated.example.com": entry(user, password)})
	c.set.Objects = c.mirrorSets(c.hosts[mirror].addr)
	plot(c)
	for _, h := range c.hosts {
		h.index = c.index
	}
	if _, err := c.resolve(); err != nil {
		panic(err) // a plot has a valid configuration
	}
}

// mirrorSets returns a mirror of the source, for tags and for digests.
func (c *change) mirrorSets(location string) []mirrors.Object {
	tags, digests := &configv1.ImageTagMirrorSet{}, &configv1.ImageDigestMirrorSet{}
	tags.Name, digests.Name = "tags", "digests"
	from, to := c.hosts[source].addr, []configv1.ImageMirror{configv1.ImageMirror(location)}
	tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: from, Mirrors: to}}
	digests.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: from, Mirrors: to}}
	return []mirrors.Object{tags, digests}
}

// addMirror adds a mirror behind the existing ones.
func (c *change) addMirror(location string) {
	for _, o := range c.set.Objects {
		switch o := o.(type) {
		case *configv1.ImageTagMirrorSet:
			o.Spec.ImageTagMirrors[0].Mirrors = append(o.Spec.ImageTagMirrors[0].Mirrors, configv1.ImageMirror(location))
		case *configv1.ImageDigestMirrorSet:
			o.Spec.ImageDigestMirrors[0].Mirrors = append(o.Spec.ImageDigestMirrors[0].Mirrors, configv1.ImageMirror(location))
		}
	}
}

// draw makes c up at random, and reports whether it alters the route of its image.
func (c *change) draw(g gen) bool {
	c.index = g.chance(60)
	c.secretive(g)
	c.before = c.newSet(g)
	c.set = c.edited(g)
	c.image = c.newImage(g)
	if c.short() {
		c.before.Registries.ContainerRuntimeSearchRegistries = c.set.Registries.ContainerRuntimeSearchRegistries
	}
	if g.chance(20) {
		c.getStuck(c.before, c.set, c.scope(g), g.chance(50))
	}
	from, err := mirrors.Resolve(c.had())
	if err != nil {
		return false
	}
	if _, err := c.resolve(); err != nil {
		return false
	}
	if _, _, changed, err := mirrors.Compare(from, c.table, c.image, ""); err != nil || !changed {
		return false
	}
	if c.stuck != nil && g.chance(30) && c.isKnown() {
		c.before.Applied = nil
	}
	for _, set := range []mirrors.Set{c.had(), c.before, c.set} {
		c.settle(g, set)
	}
	for _, h := range c.hosts {
		h.index = c.index
		if g.chance(15) {
			h.atReview = pick(g, ill, ill, hangingUp, closed)
		}
	}
	return true
}

// isKnown reports whether the objects have anything to say about the image, before c or
// after it. What nodes have without an object that says so can only be known by reading
// it.
func (c *change) isKnown() bool {
	for _, set := range []mirrors.Set{c.before, c.set} {
		table, err := mirrors.ResolveUnchecked(set)
		if err != nil {
			return false
		}
		if route, err := table.Route(c.image, ""); err == nil && route.Entry != "" {
			return true
		}
	}
	return false
}

// secretive draws which credentials each host accepts: hosts want the password that all nodes have, or
// the first of them one that the pod alone has, and hides what it holds from others.
func (c *change) secretive(g gen) {
	auths := map[string]any{"unrelated.example.com": entry(user, password)}
	for k, h := range c.hosts {
		switch {
		case k == source && g.chance(25):
			h.door = pick(g, hiding, hiding, basic)
			c.podSecret = user + ":" + password
		case g.chance(15):
			h.door = pick(g, basic, bearer)
			auths[h.addr] = entry(user, password)
		}
	}
	c.pullSecret = dockerConfig(auths)
}

// edited returns the set after an edit of before: one object more, one replaced, or one
// less.
func (c *change) edited(g gen) mirrors.Set {
	after := c.before
	if len(after.Objects) > 0 && g.chance(30) {
		return mirrors.Delete(pick(g, after.Objects...)).Apply(after)
	}
	for _, o := range c.newSet(g).Objects {
		after = mirrors.Put(o).Apply(after)
	}
	return after
}

// settle gives a calm state to every place where the image might be looked up.
func (c *change) settle(g gen, set mirrors.Set) {
	put := func(name string) {
		if h, repository := c.find(name); h != nil && h.places[repository] == "" {
			h.places[repository] = draw(g, calm)
		}
	}
	for _, candidate := range c.candidates() {
		put(candidate)
		for _, e := range set.Entries() {
			rest, ok := beyond(candidate, e.Source)
			for _, m := range e.Mirrors {
				if ok {
					put(m + rest)
				}
			}
		}
	}
}

// users are the image's consumers: the routers, so that every rule is in force.
func (c *change) users() []policy.Consumer {
	u := policy.Consumer{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router-default", Container: "router", OwnPullSecret: c.podSecret != ""}
	users := []policy.Consumer{u}
	if c.running {
		u.Kind, u.Name, u.Use, u.Digest = "Pod", "router-default-1", policy.Running, c.digest()
		users = append(users, u)
	}
	return users
}

func (c *change) machines() []*corev1.Node {
	nodes := make([]*corev1.Node, len(c.nodes))
	for i, arch := range c.nodes {
		nodes[i] = &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{Architecture: arch}}}
	}
	return nodes
}

func (c *change) platforms() []string {
	var platforms []string
	for _, arch := range c.nodes {
		platforms = append(platforms, "linux/"+arch)
	}
	return platforms
}

// A misjudgement is a mistake that a guard could make about a change.
type misjudgement struct {
	name string
	// fact changes what is found at a place, which is on the old route, the new or both.
	fact func(l mirrors.Location, after bool, f policy.Fact) policy.Fact
	// user changes what is known of a consumer, plan what is looked up.
	user func(*policy.Consumer)
	// before changes the configuration in force, set that and the one after the change.
	before, set func(mirrors.Set) mirrors.Set
	// factOf is fact for what depends on the change, facts for what does on several.
	factOf func(*change, mirrors.Location, policy.Fact) policy.Fact
	facts  func(policy.Facts)
}

func misjudgements() []misjudgement {
	return []misjudgement{
		{name: "what was out of reach before did not have it", fact: func(_ mirrors.Location, after bool, f policy.Fact) policy.Fact {
			if !after && (f.Presence == policy.Unreachable || f.Presence == policy.Denied) {
				f.Presence = policy.Absent
			}
			return f
		}},
		{name: "404 is proof, whoever asks", user: func(u *policy.Consumer) { u.OwnPullSecret, u.Digest = false, "" }},
		{name: "a place in front that cannot be asked does not matter", fact: func(_ mirrors.Location, after bool, f policy.Fact) policy.Fact {
			if after && f.Presence == policy.Unreachable {
				f.Presence = policy.Absent
			}
			return f
		}},
		{name: "a tag is for all platforms", fact: func(_ mirrors.Location, _ bool, f policy.Fact) policy.Fact {
			f.Serves, f.Lacks = nil, nil
			return f
		}},
		{name: "the objects say what nodes have", before: func(s mirrors.Set) mirrors.Set {
			table, err := mirrors.ResolveUnchecked(s)
			if err == nil {
				s.Applied = written(table, s)
			}
			return s
		}},
	}
}

// review returns the guard's verdict by m.
func (c *change) review(ctx context.Context, g *guard, m misjudgement) policy.Verdict {
	users := c.users()
	for k := range users {
		if m.user != nil {
			m.user(&users[k])
		}
	}
	before, changed := c.before, c.set
	if m.before != nil {
		before = m.before(before)
	}
	if m.set != nil {
		before, changed = m.set(before), m.set(changed)
	}
	known := plan.Cluster{Images: policy.NewImages(policy.Image{Ref: c.image, Consumers: users}), Nodes: c.machines()}
	plan := plan.NewOutline(policy.Change{Before: before, After: changed}, known, settings.Settings{}).Plan()
	var after []string
	for _, i := range plan.Reroutes {
		for _, l := range i.After.Open() {
			after = append(after, l.Ref)
		}
	}
	facts := policy.Facts{}
	for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
		for _, l := range lookups {
			if _, known := g.facts[l]; !known {
				g.facts[l] = new(g.client.Probe(ctx, l))
			}
			facts[l] = g.facts[l]
			if m.fact != nil {
				facts[l] = new(m.fact(l, slices.Contains(after, l.Ref), *facts[l]))
			}
			if m.factOf != nil {
				facts[l] = new(m.factOf(c, l, *facts[l]))
			}
		}
	}
	if m.facts != nil {
		m.facts(facts)
	}
	return rules.Decide(plan, facts)
}

// playChange has change i reviewed, pulls before and after it, and compares.
func (w *world) playChange(t *testing.T, i int, l *changeLedger) {
	c := newChange(w, i)
	for _, h := range c.hosts {
		h.start(t, w)
		h.reviewing.Store(true)
	}
	g := newGuardOf(w, c.scenario, c.platforms())
	defer g.client.Close()
	verdict := c.review(t.Context(), g, misjudgement{})
	mistaken := map[string]bool{}
	for _, m := range misjudgements() {
		mistaken[m.name] = c.review(t.Context(), g, m).Allowed
	}
	for _, h := range c.hosts {
		h.reviewing.Store(false)
	}
	lost, gained := w.lost(t, c)
	l.add(c, verdict, lost, mistaken)
	switch {
	case lost != "" && verdict.Allowed && !c.isExcused(verdict):
		t.Errorf("admitted, though nodes of %s lose it\n%s\n%s", lost, words.Answer(verdict, "The change"), c)
	case gained && !verdict.Allowed && c.isCalm() && !saysUnverified(verdict):
		t.Errorf("denied, though every node gets it from a mirror\n%s\n%s", words.Answer(verdict, "The change"), c)
	}
}

// isExcused reports whether c was admitted with the warning that a place in front could
// not be verified, while the source is left; or because it repairs what MCO
// rejects, what nodes have is not known, and no object says anything about the image:
// docs/truth.md says why these stay.
func (c *change) isExcused(v policy.Verdict) bool {
	if _, err := mirrors.Resolve(c.before); err != nil && c.before.Applied == nil && v.Counts.Rerouted == 0 {
		return true
	}
	return slices.ContainsFunc(v.Findings, func(f policy.Finding) bool { return f.Rule == "UnverifiedInFront" })
}

// saysUnverified reports whether v denies because a place could not be asked. In some states
// it never can.
func saysUnverified(v policy.Verdict) bool {
	return slices.ContainsFunc(v.Findings, func(f policy.Finding) bool {
		return f.Rule == "UnverifiedInFront" || f.Rule == "Unverified"
	})
}

// isCalm reports whether the guard met what nodes meet.
func (c *change) isCalm() bool {
	return c.podSecret == "" && !slices.ContainsFunc(c.hosts, func(h *host) bool { return h.atReview != "" })
}

// lost returns the architectures whose nodes get the image before c and not after it, and
// whether all nodes get it from a mirror afterwards.
func (w *world) lost(t *testing.T, c *change) (lost string, gained bool) {
	t.Helper()
	gained = true
	for _, arch := range c.nodes {
		after := w.pullAs(t, c, c.set, arch)
		if after.from == "" || slices.Contains(c.candidates(), after.from) {
			gained = false
		}
		if after.pulled {
			continue
		}
		gained = false
		if w.pullAs(t, c, c.had(), arch).pulled {
			lost = strings.TrimPrefix(lost+", "+arch, ", ")
		}
	}
	return lost, gained
}

// pullAs pulls as a node of arch does with set. What is pulled has to be for arch.
func (w *world) pullAs(t *testing.T, c *change, set mirrors.Set, arch string) result {
	t.Helper()
	s := *c.scenario
	s.set, s.arch, s.traits = set, arch, nil
	if _, err := s.resolve(); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, w, &s)
	r := w.runtimes[len(w.runtimes)-1] // which knows short names
	got, ok := r.pull(t, &s, n)
	if !ok {
		t.Fatalf("%s cannot be asked for %s", r.name, s.image)
	}
	if got.pulled {
		of, err := architectureOf(n.path("puller"))
		if err != nil {
			t.Fatal(err)
		}
		got.pulled = of == arch
	}
	return got
}

// architectureOf returns what an image in a folder of containers/image is for.
func architectureOf(folder string) (string, error) {
	var manifest struct {
		Config struct{ Digest string }
	}
	var config struct{ Architecture string }
	for _, part := range []struct {
		name func() string
		into any
	}{
		{func() string { return "manifest.json" }, &manifest},
		{func() string { return strings.TrimPrefix(manifest.Config.Digest, "sha256:") }, &config},
	} {
		data, err := os.ReadFile(filepath.Join(folder, part.name()))
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(data, part.into); err != nil {
			return "", err
		}
	}
	if config.Architecture == "" {
		return "", errors.New("the config names no architecture")
	}
	return config.Architecture, nil
}

// String describes c for whoever has to investigate it.
func (c *change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %v, running %v\nbefore\n", c.nodes, c.running)
	for _, e := range c.before.Entries() {
		fmt.Fprintf(&b, "  %s: %s -> %v %s\n", mirrors.NameOf(e.Object), e.Source, e.Mirrors, e.Policy)
	}
	if c.stuck != nil {
		fmt.Fprintf(&b, "which MCO rejects; nodes have (known: %v)\n", c.before.Applied != nil)
		for _, e := range c.stuck.Entries() {
			fmt.Fprintf(&b, "  %s: %s -> %v %s\n", mirrors.NameOf(e.Object), e.Source, e.Mirrors, e.Policy)
		}
	}
	for _, h := range c.hosts {
		if h.atReview != "" {
			fmt.Fprintf(&b, "  %s during the review: %s\n", h.addr, h.atReview)
		}
	}
	return b.String() + "after\n" + c.scenario.String()
}

// A changeLedger sums up changes.
type changeLedger struct {
	mu                          sync.Mutex
	all, denied, lost, stranger int
	stuck                       int
	caught, rules               map[string]int
	misreadings                 []misjudgement
}

func (l *changeLedger) add(c *change, v policy.Verdict, lost string, mistaken map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all++
	if !v.Allowed {
		l.denied++
	}
	if !c.isCalm() {
		l.stranger++
	}
	if c.stuck != nil {
		l.stuck++
	}
	for _, f := range v.Findings {
		l.rules[f.Severity.String()+" "+f.Rule]++
	}
	if lost == "" {
		return
	}
	l.lost++
	for name, admitted := range mistaken {
		if admitted && !v.Allowed {
			l.caught[name]++
		}
	}
}

// addGained notes the misjudgements that deny what every node gets.
func (l *changeLedger) addGained(v policy.Verdict, gained bool, mistaken map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !gained || !v.Allowed {
		return
	}
	for name, admitted := range mistaken {
		if !admitted {
			l.caught[name]++
		}
	}
}

// check reports what would make the comparison worthless.
func (l *changeLedger) check(t *testing.T) {
	t.Helper()
	if l.lost < l.all/10 || l.denied > l.all*4/5 {
		t.Errorf("of %d changes %d lose the image and %d are denied: too few, or too many", l.all, l.lost, l.denied)
	}
	for _, m := range l.misreadings {
		if l.caught[m.name] == 0 {
			t.Errorf("no change shows that it is wrong to think that %s", m.name)
		}
	}
}

func (l *changeLedger) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d changes: %d denied, %d lose the image for some nodes, %d meet others than the guard did, %d mend what MCO rejects\n", l.all, l.denied, l.lost, l.stranger, l.stuck)
	for _, of := range []map[string]int{l.rules, l.caught} {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			fmt.Fprintf(&b, "%6d  %s\n", of[key], key)
		}
	}
	return b.String()
}
