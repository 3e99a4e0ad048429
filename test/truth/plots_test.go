package truth

import (
	"encoding/json"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A plot changes the plainest of scenarios: one source, one mirror of it for tags
// and for digests, both well-behaved and with the image.
type plot struct {
	name string
	turn func(*scenario)
}

// The hosts of the plainest scenario.
const (
	source = 0
	second = 1 // the next search registry of a short name
	mirror = 2
)

// plots are the systematic scenarios: every way in which a mirror can fail, for a tag
// and for a digest, with a source behind it that has the image.
func plots() []plot {
	var all []plot
	add := func(name string, turn func(*scenario)) { all = append(all, plot{name, turn}) }
	for _, st := range states {
		add("mirror: "+string(st.of), func(s *scenario) { s.hosts[mirror].places["team/app"] = st.of })
		add("mirror, by digest: "+string(st.of), func(s *scenario) {
			s.hosts[mirror].places["team/app"] = st.of
			s.byDigest()
		})
	}
	for _, m := range manners {
		add("mirror: "+string(m.of), func(s *scenario) { s.hosts[mirror].manner = m.of })
		add("insecure mirror: "+string(m.of), func(s *scenario) {
			s.hosts[mirror].manner = m.of
			s.set.Registries.InsecureRegistries = []string{s.hosts[mirror].addr}
		})
	}
	for _, d := range doors {
		for _, pass := range []string{"", password, "wrong"} {
			add(fmt.Sprintf("mirror: %s, password %q", d.of, pass), func(s *scenario) { s.locked(mirror, d.of, pass) })
		}
		add("insecure mirror: "+string(d.of), func(s *scenario) {
			s.locked(mirror, d.of, password)
			s.set.Registries.InsecureRegistries = []string{s.hosts[mirror].addr}
		})
	}
	for _, st := range []state{present, absent, html, huge} {
		add("only the mirror: "+string(st), func(s *scenario) {
			s.hosts[mirror].places["team/app"] = st
			s.never()
		})
	}
	add("only the mirror, insecure: "+string(bearerClear), func(s *scenario) {
		s.locked(mirror, bearerClear, password)
		s.set.Registries.InsecureRegistries = []string{s.hosts[mirror].addr}
		s.never()
	})
	for _, st := range []state{hollow, hollowHere, present} {
		for _, looked := range []bool{false, true} {
			add(fmt.Sprintf("layers looked up %v: %s", looked, st), func(s *scenario) {
				s.index = st == hollowHere
				s.hosts[mirror].places["team/app"] = st
				s.blobs = looked
			})
		}
	}
	for _, st := range []state{wrong, html, huge, sparseHere, foreignOne, hollow} {
		add("first of two search registries: "+string(st), func(s *scenario) {
			s.nameless()
			s.hosts[source].places["team/app"] = st
		})
	}
	add("second of two search registries is not allowed", func(s *scenario) {
		s.nameless()
		s.hosts[source].places["team/app"] = absent
		s.set.Registries.AllowedRegistries = []string{s.hosts[source].addr}
	})
	for _, pass := range []string{password, "wrong"} {
		add("pod with the password "+pass, func(s *scenario) {
			s.hosts[mirror].places["team/app"] = absent
			s.locked(source, basic, map[string]string{password: "", "wrong": password}[pass])
			s.podSecret = user + ":" + pass
		})
	}
	add("redirect where a password is needed", func(s *scenario) {
		s.locked(mirror, basic, password)
		s.hosts[mirror].places["team/app"] = moved
	})
	for _, scope := range []string{"", "/team", "/team/app"} {
		add("the payload's repository, blocked by "+scope, func(s *scenario) {
			s.byDigest()
			s.set.Payload = s.image
			s.set.Registries.BlockedRegistries = []string{s.hosts[source].addr + scope}
		})
		add("blocked by "+scope, func(s *scenario) { s.set.Registries.BlockedRegistries = []string{s.hosts[source].addr + scope} })
	}
	add("another image than the payload, whose repository is blocked", func(s *scenario) {
		s.set.Payload = s.hosts[source].addr + "/release@" + s.digest()
		s.set.Registries.BlockedRegistries = []string{s.hosts[source].addr + "/release"}
	})
	return all
}

// stage makes s the plainest scenario, changed by p.
func (s *scenario) stage(p plot) {
	s.image = s.hosts[source].addr + "/team/app:v1"
	s.hosts[source].places["team/app"], s.hosts[second].places["team/app"], s.hosts[mirror].places["team/app"] = present, present, present
	from, to := s.hosts[source].addr, []configv1.ImageMirror{configv1.ImageMirror(s.hosts[mirror].addr)}
	tags, digests := &configv1.ImageTagMirrorSet{}, &configv1.ImageDigestMirrorSet{}
	tags.Name, digests.Name = "tags", "digests"
	tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: from, Mirrors: to}}
	digests.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: from, Mirrors: to}}
	s.set.Objects = []mirrors.Object{tags, digests}
	s.pullSecret = dockerConfig(map[string]any{"unrelated.example.com": entry(user, password)})
	p.turn(s)
	if _, err := s.resolve(); err != nil {
		panic(fmt.Sprintf("plot %q: %v", p.name, err))
	}
	s.trait("plot")
}

// never forbids contacting the source.
func (s *scenario) never() {
	for _, o := range s.set.Objects {
		switch o := o.(type) {
		case *configv1.ImageTagMirrorSet:
			o.Spec.ImageTagMirrors[0].MirrorSourcePolicy = configv1.NeverContactSource
		case *configv1.ImageDigestMirrorSet:
			o.Spec.ImageDigestMirrors[0].MirrorSourcePolicy = configv1.NeverContactSource
		}
	}
}

// byDigest makes the image an index referenced by its digest.
func (s *scenario) byDigest() {
	s.index = true
	s.image = s.hosts[source].addr + "/team/app@" + s.digest()
}

// nameless removes the registry from the image, and has nodes search two.
func (s *scenario) nameless() {
	s.index = true
	s.image = "team/app@" + s.digest()
	s.set.Objects = nil
	s.set.Registries.ContainerRuntimeSearchRegistries = []string{s.hosts[source].addr, s.hosts[second].addr}
}

// locked gives a host a door, and puts a password for it into the pull secret.
func (s *scenario) locked(host int, d door, pass string) {
	s.hosts[host].door = d
	if pass != "" {
		s.pullSecret = dockerConfig(map[string]any{s.hosts[host].addr: entry(user, pass)})
	}
}

func dockerConfig(auths map[string]any) []byte {
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		panic(err) // there are only strings in it
	}
	return data
}
