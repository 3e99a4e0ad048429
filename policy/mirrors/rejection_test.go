package mirrors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// rejected returns why s is rejected, nil if it is not.
func rejected(s Set) *Rejection {
	_, err := Resolve(s)
	var r *Rejection
	errors.As(err, &r)
	return r
}

func put(s Set, objects ...Object) Set {
	for _, o := range objects {
		s = Put(o).Apply(s)
	}
	return s
}

func image(r configv1.RegistrySources) Object {
	o := &configv1.Image{}
	o.Name, o.Spec.RegistrySources = clusterName, r
	return o
}

func clusterPolicy(name string, scopes ...configv1.ImageScope) Object {
	o := &configv1.ClusterImagePolicy{}
	o.Name, o.Spec.Scopes, o.Spec.Policy = name, scopes, byKey("key")
	return o
}

// byKey is a policy that asks for signatures by a key.
func byKey(key string) configv1.ImageSigstoreVerificationPolicy {
	return configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: []byte(key)},
	}}
}

func imagePolicy(namespace, name string, scopes ...configv1.ImageScope) Object {
	o := &configv1.ImagePolicy{}
	o.Namespace, o.Name, o.Spec.Scopes, o.Spec.Policy = namespace, name, scopes, byKey("key")
	return o
}

// TestBeyond: what a step adds to a configuration that is rejected already.
func TestBeyond(t *testing.T) {
	conflict := put(Set{}, itms("a", "quay.io", never, "m.local"), itms("b", "quay.io", never, "m.local"), itms("c", "quay.io", allow, "m.local"), idms("d", "quay.io", allow, "m.local"))
	blocked := put(Set{}, image(configv1.RegistrySources{BlockedRegistries: []string{"bad.io"}}), clusterPolicy("p", "bad.io/x"))
	wide := put(Set{}, image(configv1.RegistrySources{InsecureRegistries: []string{"a.example.com"}}), itms("w", "*.example.com", allow, "m.local"))
	tests := []struct {
		reason string
		before Set
		step   Edit
		want   []ReasonKind
	}{
		{"a party is taken away", conflict, Delete(itms("c", "", "")), nil},
		{"a party comes over to the other side", conflict, Put(itms("c", "quay.io", never, "m.local")), nil},
		{"a party goes over to the larger side's loss", conflict, Put(itms("a", "quay.io", allow, "m.local")), nil},
		{"a party gets other mirrors", conflict, Put(itms("c", "quay.io", allow, "n.local")), nil},
		{"something else changes", conflict, Put(itms("e", "other.io", allow, "m.local")), nil},
		{"the last of one side goes", put(Set{}, itms("a", "quay.io", never, "m.local"), itms("c", "quay.io", allow, "m.local")), Delete(itms("c", "", "")), nil},
		{"a new party on the one side", conflict, Put(itms("e", "quay.io", allow, "m.local")), []ReasonKind{PolicyConflict}},
		{"a new party on the other side", conflict, Put(itms("e", "quay.io", never, "m.local")), []ReasonKind{PolicyConflict}},
		{"a party takes part twice", conflict, Put(&configv1.ImageTagMirrorSet{ObjectMeta: itms("a", "", "").(*configv1.ImageTagMirrorSet).ObjectMeta, Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: "quay.io", MirrorSourcePolicy: never, Mirrors: []configv1.ImageMirror{"m.local"}}, {Source: "quay.io", Mirrors: []configv1.ImageMirror{"m.local"}},
		}}}), []ReasonKind{PolicyConflict}},
		{"a party is replaced by a new one", conflict, Join(Delete(itms("c", "", "")), Put(itms("e", "quay.io", allow, "m.local"))), []ReasonKind{PolicyConflict}},
		{"a namesake of another kind is another party", conflict, Put(idms("a", "quay.io", never, "m.local")), []ReasonKind{PolicyConflict}},
		{"a conflict about another source", conflict, Join(Put(itms("e", "x.io", allow, "m.local")), Put(itms("f", "x.io", never, "m.local"))), []ReasonKind{PolicyConflict}},
		{"another kind of mistake", conflict, Put(itms("c", "quay.io", never, "quay.io", "m.local")), []ReasonKind{OwnMirror}},
		{"an order of flips that makes a conflict", put(Set{}, itms("a", "quay.io", never, "m.local"), itms("b", "quay.io", never, "m.local")), Put(itms("a", "quay.io", allow, "m.local")), []ReasonKind{PolicyConflict}},

		{"another entry blocks the scope", blocked, Put(image(configv1.RegistrySources{BlockedRegistries: []string{"bad.io", "bad.io/x"}})), []ReasonKind{PolicyBlocked}},
		{"a narrower entry blocks the scope instead", blocked, Put(image(configv1.RegistrySources{BlockedRegistries: []string{"bad.io/x"}})), nil},
		{"a second policy with the scope", blocked, Put(imagePolicy("shop", "q", "bad.io/x")), []ReasonKind{PolicyBlocked}},
		{"a policy with another blocked scope", blocked, Put(clusterPolicy("p", "bad.io/x", "bad.io/y")), []ReasonKind{PolicyBlocked}},
		{"the policy goes", blocked, Delete(clusterPolicy("p")), nil},

		{"a wildcard's second heir", wide, Put(image(configv1.RegistrySources{InsecureRegistries: []string{"a.example.com", "b.example.com"}})), []ReasonKind{WildcardMirrors}},
		{"a wildcard's heir is another one", wide, Put(image(configv1.RegistrySources{InsecureRegistries: []string{"b.example.com"}})), nil},
		{"a second wildcard with an heir", wide, Join(Put(image(configv1.RegistrySources{InsecureRegistries: []string{"a.example.com", "a.example.org"}})), Put(itms("v", "*.example.org", allow, "m.local"))), []ReasonKind{WildcardMirrors}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			before := rejected(tt.before)
			got := convert.Each(rejected(tt.step.Apply(tt.before)).Beyond(before), func(r Reason) ReasonKind { return r.Kind })
			if !slices.Equal(got, tt.want) {
				t.Errorf("beyond %v: %v, want %v", before, got, tt.want)
			}
		})
	}
}

// TestEveryOrderMends: from random rejected configurations to valid ones, whatever is
// deleted and whatever is edited, every order of the steps is free.
func TestEveryOrderMends(t *testing.T) {
	kinds := map[ReasonKind]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		start := randomConfiguration(r)
		if rejected(start.set()) == nil {
			continue
		}
		var steps []func(*configuration)
		end := start.clone()
		for tries := 0; rejected(end.set()) != nil; tries++ {
			if tries == 20 {
				t.Fatalf("seed %d: cannot be mended: %v", seed, rejected(end.set()))
			}
			for _, reason := range rejected(end.set()).Reasons {
				if tries == 0 {
					kinds[reason.Kind]++
				}
				for _, step := range end.mend(r, reason) {
					step(&end)
					steps = append(steps, step)
				}
			}
		}
		for range 2 {
			r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			now := start.clone()
			for i, step := range steps {
				before := rejected(now.set())
				step(&now)
				after := rejected(now.set())
				if beyond := after.Beyond(before); len(beyond) > 0 {
					t.Fatalf("seed %d, step %d of %d: denied for %v\nbefore: %v", seed, i+1, len(steps), beyond, before)
				}
			}
			if last := rejected(now.set()); last != nil {
				t.Fatalf("seed %d: not mended: %v", seed, last)
			}
		}
	}
	for _, kind := range []ReasonKind{PolicyConflict, OwnMirror, InvalidSource, InvalidMirror, InvalidEntry, BothLists, WildcardMirrors, Unreadable, DefinedTwice, PolicyBlocked, PolicyOutside} {
		if kinds[kind] < 5 {
			t.Errorf("%d reasons of kind %s: the random configurations do not show it", kinds[kind], kind)
		}
	}
}

// TestNewPartiesAreBeyond: whatever is wrong already, an entry that comes to a conflict, or
// makes one, is beyond it.
func TestNewPartiesAreBeyond(t *testing.T) {
	tried := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := randomConfiguration(r)
		before := rejected(c.set())
		e := randomEntry(r)
		with := c.clone()
		with.entries = append(with.entries, e)
		sides := map[bool]bool{}
		for _, other := range with.entries {
			if other.source == e.source {
				sides[other.policy == never] = true
			}
		}
		if len(sides) < 2 {
			continue
		}
		tried++
		if after := rejected(with.set()); len(after.Beyond(before)) == 0 {
			t.Fatalf("seed %d: %+v is admitted beside %v", seed, e, before)
		}
	}
	if tried < 300 {
		t.Errorf("only %d entries came to a conflict", tried)
	}
}

// A configuration is what a random test starts from, in pieces that are taken away or
// changed one by one.
type configuration struct {
	entries                    []entry
	insecure, blocked, allowed []string
	search                     []string
	scopes                     []scoped
}

type entry struct {
	kind, name, source string
	policy             configv1.MirrorSourcePolicy
	mirrors            []string
}

func (e *entry) drop(mirror string) {
	e.mirrors = slices.DeleteFunc(slices.Clone(e.mirrors), func(m string) bool { return m == mirror })
}

type scoped struct {
	namespace, name string
	scope           configv1.ImageScope
}

func (c configuration) clone() configuration {
	return configuration{
		slices.Clone(c.entries), slices.Clone(c.insecure), slices.Clone(c.blocked), slices.Clone(c.allowed),
		slices.Clone(c.search), slices.Clone(c.scopes),
	}
}

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func some(r *rand.Rand, most int, from ...string) []string {
	var list []string
	for range r.IntN(most + 1) {
		if s := oneOf(r, from...); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

func randomEntry(r *rand.Rand) entry {
	e := entry{
		kind: oneOf(r, "ITMS", "IDMS", "ICSP"), name: oneOf(r, "a", "b", "c", "d"),
		source:  oneOf(r, "quay.io", "quay.io", "quay.io/x", "reg.io/y", "*.example.com", "*.sub.example.com", "*.example.org", "quay.io/", "http://q.io"),
		policy:  oneOf(r, never, allow, ""),
		mirrors: some(r, 3, "m.local", "n.local", "quay.io", "https://m.local", "M*"),
	}
	if e.kind == "ICSP" {
		e.policy = allow
	}
	return e
}

func randomConfiguration(r *rand.Rand) configuration {
	var c configuration
	for range r.IntN(8) {
		c.entries = append(c.entries, randomEntry(r))
	}
	c.insecure = some(r, 3, "a.example.com", "b.sub.example.com", "c.example.org", "slash.io/", "bad.*.io", "*.w.io/x")
	c.blocked = some(r, 3, "slash.io", "slash.io//", "https://s.io", "http://t.io", "blocked.io", "blocked.io/x", "a.example.com")
	c.search = some(r, 1, "docker.io", "http://docker.io", "a b")
	// To clear a list may bring a policy into order that another step takes away: an order
	// in which that uncovers a new conflict. So there are no policies where a list is cleared.
	switch r.IntN(4) {
	case 0:
		c.allowed = some(r, 2, "allowed.io", "*")
		return c
	case 1:
		c.allowed, c.blocked = some(r, 2, "allowed.io", "blocked.io/x/y"), nil
	}
	for range r.IntN(4) {
		s := scoped{name: oneOf(r, "p", "q"), namespace: oneOf(r, "", "", "shop", "web"), scope: oneOf[configv1.ImageScope](r, "blocked.io", "blocked.io/x", "blocked.io/x/y", "allowed.io/z", "free.io")}
		if !slices.Contains(c.scopes, s) {
			c.scopes = append(c.scopes, s)
		}
	}
	return c
}

// set merges the pieces of one object.
func (c configuration) set() Set {
	s := Set{Registries: configv1.RegistrySources{
		InsecureRegistries: c.insecure, BlockedRegistries: c.blocked, AllowedRegistries: c.allowed, ContainerRuntimeSearchRegistries: c.search,
	}}
	for i, e := range c.entries {
		// An object for each entry; those of a name are told apart, as entries of one
		// object would be.
		name := fmt.Sprintf("%s%d", e.name, i)
		locations := make([]configv1.ImageMirror, len(e.mirrors))
		for k, m := range e.mirrors {
			locations[k] = configv1.ImageMirror(m)
		}
		switch {
		case e.source == "": // taken away
		case e.kind == "ITMS":
			s = Put(itms(name, e.source, e.policy, locations...)).Apply(s)
		case e.kind == "IDMS":
			s = Put(idms(name, e.source, e.policy, locations...)).Apply(s)
		default:
			s = Put(icsp(name, e.source, e.mirrors...)).Apply(s)
		}
	}
	for i, p := range c.scopes {
		name := fmt.Sprintf("%s%d", p.name, i)
		switch {
		case p.scope == "":
		case p.namespace == "":
			s = Put(clusterPolicy(name, p.scope)).Apply(s)
		default:
			s = Put(imagePolicy(p.namespace, name, p.scope)).Apply(s)
		}
	}
	return s
}

// mend returns steps that end reason, in one of the ways to do it. Of a conflict it
// leaves one side as it is, but for its mirrors: were that side to go before the other has
// come over, the conflict would end, and the rest of the way would make a new one.
func (c *configuration) mend(r *rand.Rand, reason Reason) []func(*configuration) {
	var steps []func(*configuration)
	editEntries := func(which func(entry) bool, edit func(*entry)) {
		for i, e := range c.entries {
			if e.source != "" && which(e) {
				steps = append(steps, func(c *configuration) { edit(&c.entries[i]) })
			}
		}
	}
	gone := func(e *entry) { e.source = "" }
	without := func(list func(*configuration) *[]string, entries ...string) {
		for _, entry := range entries {
			steps = append(steps, func(c *configuration) {
				*list(c) = slices.DeleteFunc(slices.Clone(*list(c)), func(s string) bool { return s == entry })
			})
		}
	}
	insecure := func(c *configuration) *[]string { return &c.insecure }
	blocked := func(c *configuration) *[]string { return &c.blocked }
	of := func(e entry) bool { return e.source == reason.Scope }
	switch reason.Kind {
	case PolicyConflict:
		side := oneOf(r, never, allow)
		for i, e := range c.entries {
			if of(e) && (e.policy == never) != (side == never) {
				edit := func(e *entry) { e.policy = side }
				if e.kind == "ICSP" || r.IntN(2) == 0 || side == never && slices.Contains(e.mirrors, e.source) {
					edit = gone
				}
				steps = append(steps, func(c *configuration) { edit(&c.entries[i]) })
			}
		}
	case OwnMirror:
		editEntries(func(e entry) bool { return of(e) && e.policy == never }, func(e *entry) { e.drop(e.source) })
	case InvalidSource:
		editEntries(of, gone)
	case InvalidMirror:
		source, mirror, _ := strings.Cut(reason.Scope, " ")
		editEntries(func(e entry) bool { return e.source == source }, func(e *entry) { e.drop(mirror) })
	case InvalidEntry:
		_, entry, _ := strings.Cut(reason.Scope, " ")
		without(insecure, entry)
		without(blocked, entry)
		if slices.Contains(c.allowed, entry) {
			steps = append(steps, func(c *configuration) { c.allowed = nil })
		}
	case BothLists:
		if r.IntN(2) == 0 {
			return append(steps, func(c *configuration) { c.allowed = nil })
		}
		without(blocked, c.blocked...)
	case WildcardMirrors:
		if r.IntN(2) == 0 {
			editEntries(of, func(e *entry) { e.mirrors = nil })
			return steps
		}
		for _, scope := range slices.Concat(c.insecure, c.blocked) {
			if strings.HasSuffix(scope, reason.Scope[1:]) {
				without(insecure, scope)
				without(blocked, scope)
			}
		}
	case Unreadable:
		without(insecure, reason.Scope)
		without(blocked, reason.Scope)
		without(func(c *configuration) *[]string { return &c.search }, reason.Scope)
	case DefinedTwice:
		for _, spelling := range reason.Offenders[1:] {
			without(insecure, spelling)
			without(blocked, spelling)
		}
		without(insecure, reason.Offenders[0])
		without(blocked, reason.Offenders[0])
	case PolicyBlocked, PolicyOutside:
		for i, p := range c.scopes {
			if string(p.scope) == reason.Scope {
				steps = append(steps, func(c *configuration) { c.scopes[i].scope = "" })
			}
		}
	default:
		panic(reason.Kind)
	}
	return steps
}

// TestFewWords: a configuration with thousands of mistakes is told in some lines.
func TestFewWords(t *testing.T) {
	var s Set
	for i := range 2000 {
		s.Objects = append(s.Objects, itms(fmt.Sprintf("a%04d", i), fmt.Sprintf("quay.io/x%04d", i), never, "m.local"), itms(fmt.Sprintf("b%04d", i), fmt.Sprintf("quay.io/x%04d", i), allow, "m.local"))
	}
	r := rejected(s)
	text := r.Error()
	if len(r.Reasons) != 2000 || len(text) > 2000 || !strings.HasSuffix(text, "; and 1990 more") {
		t.Errorf("%d reasons in %d bytes: %s", len(r.Reasons), len(text), text)
	}
}
