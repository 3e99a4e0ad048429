package truth

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// A scenario is one pull: of an image, with a configuration, from hosts. Except for the
// port, it follows from the seed and its number alone.
type scenario struct {
	number int
	// hosts are two that sources name and two for mirrors, though each may be
	// either.
	hosts []*host
	set   mirrors.Set
	table *mirrors.Table
	// policy is the policy.json that goes with it, attachments the files of registries.d.
	policy      []byte
	attachments map[string][]byte
	// namespace is that of the pod, "" for one without a policy of its own.
	namespace string
	image     string
	index     bool // whether the image is an index
	arch      string
	corpus    *corpus
	// pullSecret is the global one; podSecret, "user:password", is the pod's, "" if it has
	// none.
	pullSecret []byte
	podSecret  string
	// unusable are the hosts with an entry in pullSecret that nodes cannot read.
	unusable []string
	// blobs is set if the guard looks up layers too.
	blobs bool
	// traits are the cases that the scenario exemplifies.
	traits []string
}

// A gen draws the parts of a scenario at random.
type gen struct{ *rand.Rand }

func (g gen) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g gen, from ...T) T { return from[g.IntN(len(from))] }

// A share is something to draw, with its weight.
type share[T any] struct {
	of     T
	weight int
}

func draw[T any](g gen, shares []share[T]) T {
	total := 0
	for _, s := range shares {
		total += s.weight
	}
	at := g.IntN(total)
	for _, s := range shares {
		if at -= s.weight; at < 0 {
			return s.of
		}
	}
	panic("not reached: at is less than the sum of the weights")
}

var (
	manners = []share[manner]{
		{trusted, 120},
		{clear, 20},
		{untrusted, 8},
		{private, 8},
		{down, 6},
		{hangingUp, 2},
		{ill, 2},
		{page, 3},
		{homepage, 2},
		{closed, 2},
	}
	doors = []share[door]{
		{open, 70},
		{basic, 15},
		{bearer, 15},
		{bearerForAll, 5},
		{bearerBroken, 1},
		{bearerClear, 2},
		{negotiate, 1},
		{unannounced, 2},
	}
	// Half of the states are good: a route has several places, and the more of them are
	// odd, the less depends on each.
	states = []share[state]{
		{present, 100},
		{absent, 45},
		{denied, 4},
		{forbidden, 4},
		{html, 5},
		{wrong, 8},
		{untyped, 3},
		{mistyped, 3},
		{huge, 2},
		{cutShort, 2},
		{failing, 2},
		{hiccup, 2},
		{busy, 2},
		{overrun, 2},
		{swamped, 1},
		{sparseHere, 8},
		{sparse, 5},
		{foreignOne, 3},
		{emptyOne, 2},
		{noWindows, 2},
		{noVariant, 2},
		{unnamed, 2},
		{crowded, 2},
		{hollow, 4},
		{hollowHere, 4},
		{headAbsent, 4},
		{headUnfit, 3},
		{headBare, 3},
		{headOnly, 3},
		{garbled, 3},
		{void, 2},
		{charset, 2},
		{moved, 4},
		{movedAway, 2},
	}
)

// newScenario returns a scenario by its number: a systematic one, or a random one.
func newScenario(w *world, number int) *scenario {
	g := gen{rand.New(rand.NewPCG(w.seed, uint64(number)))}
	s := &scenario{number: number, arch: pick(g, "amd64", "arm64"), corpus: w.corpus, blobs: number%2 == 1}
	for i := range 4 {
		s.hosts = append(s.hosts, s.newHost(w, i))
	}
	if plots := plots(); number < len(plots) {
		s.stage(plots[number])
	} else {
		s.draw(g)
	}
	for _, h := range s.hosts {
		h.index = s.index
	}
	return s
}

// newHost returns a host that behaves well and holds nothing.
func (s *scenario) newHost(w *world, i int) *host {
	ip := fmt.Sprintf("127.%d.%d.%d", 100+s.number/250, 1+s.number%250, 1+i)
	h := &host{ip: ip, addr: ip + ":" + w.port, manner: trusted, door: open, places: map[string]state{}, corpus: s.corpus, tokens: w.tokens, arch: s.arch}
	h.begin()
	return h
}

// draw makes s up at random.
func (s *scenario) draw(g gen) {
	s.index = g.chance(40)
	for _, h := range s.hosts {
		h.manner, h.door = draw(g, manners), draw(g, doors)
	}
	s.configure(g)
	s.secrets(g)
	s.place(g)
}

// configure draws an image and a set that MCO would apply, usually one that covers
// the image.
func (s *scenario) configure(g gen) {
	covered := g.chance(85)
	for {
		s.traits = nil
		s.set = s.newSet(g)
		s.image = s.newImage(g)
		s.lists(g)
		route, err := s.resolve()
		if err == nil && (route.Entry != "" || !covered) {
			return
		}
	}
}

// resolve works out what nodes would get, and the traits of s.
func (s *scenario) resolve() (mirrors.Route, error) {
	var err error
	if s.table, err = mirrors.Resolve(s.set); err != nil {
		return mirrors.Route{}, err
	}
	if err := s.write(); err != nil {
		return mirrors.Route{}, err
	}
	route, err := s.table.Route(s.image, s.namespace)
	if err == nil {
		s.describe(route)
	}
	return route, err
}

// write sets the files that nodes get besides registries.conf. Where image policies are in play
// they are the product's own, which the stage of MCO's controllers compares with theirs.
func (s *scenario) write() error {
	if len(s.set.Policies)+len(s.set.Files) == 0 {
		var err error
		s.policy, err = signaturePolicy(s.set)
		s.attachments = nil
		return err
	}
	files, err := mirrors.Rendered(s.set)
	if err != nil {
		return err
	}
	s.policy, s.attachments = files[policyfile.PolicyJSONPath], map[string][]byte{}
	if own, ok := files["/etc/crio/policies/"+s.namespace+".json"]; ok {
		s.policy = own
	}
	for file, contents := range files {
		if path.Dir(file) == path.Dir(policyfile.AttachmentsPath) {
			s.attachments[path.Base(file)] = contents
		}
	}
	return nil
}

// digest returns the digest of the image that hosts hold.
func (s *scenario) digest() string {
	if s.index {
		return s.corpus.index
	}
	return s.corpus.single
}

func (s *scenario) newImage(g gen) string {
	repository := pick(g, "team/app", "team/app", "team/app", "team/web", "team/app/part", "app")
	tail := pick(g, ":v1", ":v1", "@"+s.digest(), "@"+s.digest(), "", ":v1@"+s.digest())
	if g.chance(6) {
		s.set.Registries.ContainerRuntimeSearchRegistries = []string{s.hosts[0].addr, s.hosts[1].addr}
		return repository + tail
	}
	return pick(g, s.hosts[0], s.hosts[0], s.hosts[0], s.hosts[1]).addr + "/" + repository + tail
}

func (s *scenario) trait(text string) { s.traits = append(s.traits, text) }

// scope draws a scope for an entry.
func (s *scenario) scope(g gen) string {
	h := pick(g, s.hosts[0], s.hosts[0], s.hosts[0], s.hosts[1])
	switch {
	case g.chance(4):
		return "*." + h.ip[strings.Index(h.ip, ".")+1:]
	case g.chance(4):
		return h.ip // covers all its ports
	}
	return h.addr + pick(g, "", "/team", "/team", "/team/app", "/team/app", "/team/app/part", "/team/web")
}

// location draws a location for a mirror.
func (s *scenario) location(g gen) string {
	switch {
	case g.chance(6):
		return s.hosts[2].ip
	case g.chance(6):
		return s.scope(g)
	}
	return pick(g, s.hosts[2], s.hosts[2], s.hosts[3], s.hosts[1]).addr + pick(g, "", "/x", "/team", "/x/app")
}

func (s *scenario) mirrors(g gen) []configv1.ImageMirror {
	var list []configv1.ImageMirror
	for range draw(g, []share[int]{{0, 1}, {1, 12}, {2, 8}, {3, 3}}) {
		list = append(list, configv1.ImageMirror(s.location(g)))
	}
	return list
}

// newSet draws mirror objects. Entries of one source agree on its policy, or nearly
// all sets would be rejected.
func (s *scenario) newSet(g gen) mirrors.Set {
	policies := map[string]configv1.MirrorSourcePolicy{}
	policy := func(source string) configv1.MirrorSourcePolicy {
		if _, ok := policies[source]; !ok {
			policies[source] = pick(g, "", configv1.AllowContactingSource, configv1.AllowContactingSource, configv1.NeverContactSource)
		}
		return policies[source]
	}
	var set mirrors.Set
	for i := range g.IntN(3) {
		o := &configv1.ImageTagMirrorSet{}
		o.Name = fmt.Sprint("itms", i)
		for range 1 + g.IntN(2) {
			source := s.scope(g)
			o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: source, Mirrors: s.mirrors(g), MirrorSourcePolicy: policy(source)})
		}
		set.Objects = append(set.Objects, o)
	}
	for i := range g.IntN(3) {
		o := &configv1.ImageDigestMirrorSet{}
		o.Name = fmt.Sprint("idms", i)
		for range 1 + g.IntN(2) {
			source := s.scope(g)
			o.Spec.ImageDigestMirrors = append(o.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: source, Mirrors: s.mirrors(g), MirrorSourcePolicy: policy(source)})
		}
		set.Objects = append(set.Objects, o)
	}
	if g.chance(12) {
		o := &operatorv1alpha1.ImageContentSourcePolicy{}
		o.Name = "icsp"
		o.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: s.scope(g), Mirrors: []string{s.location(g)}}}
		set.Objects = append(set.Objects, o)
	}
	return set
}

// lists draws the registry lists of image.config. A registry that needs to be is
// usually listed as insecure.
func (s *scenario) lists(g gen) {
	r := &s.set.Registries
	for _, h := range s.hosts {
		odd := h.manner == clear || h.manner == untrusted
		if odd && g.chance(75) || g.chance(4) {
			r.InsecureRegistries = append(r.InsecureRegistries, h.addr+pick(g, "", "", "", "/team", "/x"))
		}
	}
	for range draw(g, []share[int]{{0, 80}, {1, 15}, {2, 5}}) {
		h := pick(g, s.hosts...)
		r.BlockedRegistries = append(r.BlockedRegistries, h.addr+pick(g, "", "", "/team", "/x", "/team/app"))
	}
	if g.chance(5) {
		r.AllowedRegistries = []string{pick(g, s.hosts...).addr + pick(g, "", "/team")}
	}
	if len(r.BlockedRegistries) > 0 && g.chance(40) {
		s.set.Payload = s.hosts[0].addr + pick(g, "/team/app", "/team/app", "/release") + "@" + s.digest()
	}
}

// short reports whether the image is named without its registry.
func (s *scenario) short() bool {
	host, _, found := strings.Cut(s.image, "/")
	return !found || !strings.Contains(host, ":")
}

// describe notes the traits of s, for the table at the end.
func (s *scenario) describe(route mirrors.Route) {
	tail := s.image[strings.LastIndex(s.image, "/")+1:]
	digest := strings.Contains(tail, "@")
	tag := strings.Contains(strings.TrimSuffix(tail, "@"+s.digest()), ":")
	noted := map[string]bool{
		"image: index":            s.index,
		"image: single":           !s.index,
		"reference: short":        s.short(),
		"reference: tag":          tag && !digest,
		"reference: digest":       digest && !tag,
		"reference: both":         digest && tag,
		"reference: neither":      !digest && !tag,
		"route: no entry":         route.Entry == "",
		"route: wildcard entry":   strings.HasPrefix(route.Entry, "*"),
		"route: entry of a host":  route.Entry != "" && !strings.ContainsAny(route.Entry, ":/*"),
		"route: rewrite error":    route.Err != nil,
		"route: source blocked":   route.SourceBlocked(),
		"route: blocked mirror":   slices.ContainsFunc(route.Sources, func(p mirrors.PullSource) bool { return p.Mirror && p.Blocked }),
		"route: several mirrors":  len(route.Mirrors()) > 1,
		"route: insecure place":   slices.ContainsFunc(route.Sources, func(p mirrors.PullSource) bool { return p.Insecure }),
		"route: nested scopes":    s.nested(route),
		"policy: refused":         route.Refused != "",
		"policy: with a payload":  s.set.Payload != "",
		"policy: allowed list":    len(s.set.Registries.AllowedRegistries) > 0,
		"policy: blocked list":    len(s.set.Registries.BlockedRegistries) > 0,
		"objects: ICSP":           s.has(mirrors.ContentPolicyGVK.Kind),
		"objects: tag and digest": s.has(mirrors.TagMirrorSetGVK.Kind) && s.has(mirrors.DigestMirrorSetGVK.Kind),
	}
	for trait, ok := range noted {
		if ok {
			s.trait(trait)
		}
	}
}

// nested reports whether another entry encloses the one that covers the image.
func (s *scenario) nested(route mirrors.Route) bool {
	return slices.ContainsFunc(s.set.Entries(), func(e mirrors.Entry) bool {
		return strings.HasPrefix(route.Entry, e.Source+"/")
	})
}

func (s *scenario) has(kind string) bool {
	return slices.ContainsFunc(s.set.Objects, func(o mirrors.Object) bool { return mirrors.KindOf(o) == kind })
}

// secrets draws the nodes' credentials, which are mostly right.
func (s *scenario) secrets(g gen) {
	auths := map[string]any{"unrelated.example.com": entry(user, password)}
	for _, h := range s.hosts {
		if h.door == open && g.chance(90) {
			continue
		}
		key := h.addr + pick(g, "", "", "", "/team", "/x", "/team/app")
		switch {
		case g.chance(70):
			auths[key] = entry(user, password)
		case g.chance(40):
			auths[key] = entry(user, "wrong")
		case g.chance(30): // the longer key wins, whatever it holds
			auths[h.addr], auths[h.addr+"/team"] = entry(user, password), entry(user, "wrong")
		case g.chance(30):
			auths[key] = map[string]string{}
		case g.chance(30):
			auths[key] = map[string]string{"auth": "%%%"}
			s.unusable = append(s.unusable, h.addr)
		}
	}
	s.pullSecret = dockerConfig(auths)
	if g.chance(4) {
		s.podSecret = user + ":" + pick(g, password, password, "wrong")
		s.trait("pod with a pull secret")
	}
}

func entry(name, pass string) map[string]string {
	return map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(name + ":" + pass))}
}

// place gives a state to every place where a careless reading of the configuration
// would look, so that the runtime meets something there if it does.
func (s *scenario) place(g gen) {
	for _, candidate := range s.candidates() {
		s.placeAt(g, candidate)
		for _, e := range s.set.Entries() {
			rest, ok := beyond(candidate, e.Source)
			for _, m := range e.Mirrors {
				if ok {
					s.placeAt(g, m+rest)
				}
			}
		}
	}
}

// candidates returns the repositories that the image may refer to.
func (s *scenario) candidates() []string {
	names, err := s.table.Candidates(s.image)
	if err != nil {
		return nil
	}
	for i, n := range names {
		names[i] = repositoryOf(n)
	}
	return names
}

// beyond returns what follows scope in name.
func beyond(name, scope string) (string, bool) {
	if suffix, ok := strings.CutPrefix(scope, "*"); ok {
		_, rest, found := strings.Cut(name, suffix)
		return rest, found
	}
	return strings.CutPrefix(name, scope)
}

func (s *scenario) placeAt(g gen, name string) {
	h, repository := s.find(name)
	if h == nil || h.places[repository] != "" {
		return
	}
	h.places[repository] = draw(g, states)
}

// find returns the host and the repository of a name, nil if there is no such host.
func (s *scenario) find(name string) (*host, string) {
	addr, repository, _ := strings.Cut(name, "/")
	for _, h := range s.hosts {
		if h.addr == addr {
			return h, repository
		}
	}
	return nil, ""
}

// repositoryOf strips the tag and the digest.
func repositoryOf(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return named.Name()
}

// stateAt returns how the host at ref behaves for it.
func (s *scenario) stateAt(ref string) state {
	h, repository := s.find(repositoryOf(ref))
	if h == nil || h.places[repository] == "" {
		return absent
	}
	return h.places[repository]
}

// String describes s for whoever has to investigate it.
func (s *scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "image %s for %s, index %v, pod secret %q\n", s.image, s.arch, s.index, s.podSecret)
	for _, e := range s.set.Entries() {
		fmt.Fprintf(&b, "  %s: %s -> %v %s\n", mirrors.NameOf(e.Object), e.Source, e.Mirrors, e.Policy)
	}
	r := s.set.Registries
	fmt.Fprintf(&b, "  blocked %v insecure %v allowed %v search %v payload %s\n", r.BlockedRegistries, r.InsecureRegistries, r.AllowedRegistries, r.ContainerRuntimeSearchRegistries, s.set.Payload)
	for _, h := range s.hosts {
		fmt.Fprintf(&b, "  host %s: %s; %s; %v\n", h.addr, h.manner, h.door, h.places)
	}
	fmt.Fprintf(&b, "  pull secret %s\n", s.pullSecret)
	return b.String()
}
