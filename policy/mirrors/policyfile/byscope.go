package policyfile

import "strings"

// A byScope has a value for each of some scopes. Of several over an image that of the narrowest counts: for its tag or digest, its
// repository, the namespaces over that, its host, then "*." and the domains over the host (containers/image
// signature/policy_eval.go, requirementsForImageRef, docker/policyconfiguration and docker/registries_d.go).
type byScope[V any] struct {
	plain     map[string]V
	wildcards map[string]V // by the scope without its "*"
	// versioned is set if a scope names a tag or a digest.
	versioned bool
	// rest is for what no scope covers.
	rest V
}

func (s *byScope[V]) hasScopes() bool { return len(s.plain)+len(s.wildcards) > 0 }

// put enters the value for a scope.
func (s *byScope[V]) put(scope string, value V) {
	if s.plain == nil {
		s.plain, s.wildcards = map[string]V{}, map[string]V{}
	}
	if suffix, ok := strings.CutPrefix(scope, "*"); ok {
		s.wildcards[suffix] = value
		return
	}
	s.plain[scope] = value
	s.versioned = s.versioned || IsVersioned(scope)
}

// Find returns the value for a reference, given its repository with the host, and its version
// (":v1", "@sha256:...").
func (s *byScope[V]) Find(name, version string) V {
	if s.versioned {
		if v, ok := s.plain[name+version]; ok {
			return v
		}
	}
	host := name
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '/') {
		host = name[:end]
		if v, ok := s.plain[host]; ok {
			return v
		}
	}
	if len(s.wildcards) == 0 {
		return s.rest
	}
	if i := strings.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	for i := strings.IndexByte(host, '.'); i >= 0; i = strings.IndexByte(host, '.') {
		if v, ok := s.wildcards[host[i:]]; ok {
			return v
		}
		host = host[i+1:]
	}
	return s.rest
}

// each calls f for each scope of s or other, with nil for the one that does not have it.
func (s *byScope[V]) each(other *byScope[V], f func(scope string, mine, others *V)) {
	for prefix, maps := range map[string][2]map[string]V{"": {s.plain, other.plain}, "*": {s.wildcards, other.wildcards}} {
		for scope, v := range maps[0] {
			if o, ok := maps[1][scope]; ok {
				f(prefix+scope, &v, &o)
			} else {
				f(prefix+scope, &v, nil)
			}
		}
		for scope, o := range maps[1] {
			if _, ok := maps[0][scope]; !ok {
				f(prefix+scope, nil, &o)
			}
		}
	}
}

// eachDiffering calls f for the scopes whose values differ, or that one of the two does not have.
func (s *byScope[V]) eachDiffering(other *byScope[V], same func(V, V) bool, f func(scope string)) {
	s.each(other, func(scope string, mine, others *V) {
		if mine == nil || others == nil || !same(*mine, *others) {
			f(scope)
		}
	})
}

// IsVersioned reports whether a scope names one image by its tag or digest. A colon in the host stands before a port.
func IsVersioned(scope string) bool {
	_, path, _ := strings.Cut(scope, "/")
	return strings.ContainsAny(path, ":@")
}
