package mirrors

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	configv1 "github.com/openshift/api/config/v1"
)

// TestEncodedSize holds the estimate to the files, made as MCO makes them.
func TestEncodedSize(t *testing.T) {
	var s Set
	for i := range 200 {
		s = Put(idms(fmt.Sprintf("a%d", i), fmt.Sprintf("quay.io/team%d/app", i), never, configv1.ImageMirror(fmt.Sprintf("m.local/team%d/app", i)), "n.local/x")).Apply(s)
	}
	conf, err := generate(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := toml.NewEncoder(&file).Encode(conf); err != nil {
		t.Fatal(err)
	}
	url := "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(file.Bytes())
	b := build(s)
	b.encoded = len(encodeConf(conf))
	got := b.size(s)
	if got < len(url) || got > len(url)+400 {
		t.Errorf("encoded size %d, the file takes %d", got, len(url))
	}
}

// TestEncodedBound holds the bound to what is encoded, for random sets and for text that
// has to be escaped.
func TestEncodedBound(t *testing.T) {
	for seed := range uint64(300) {
		g := gen{rand.New(rand.NewPCG(seed, 41))}
		s := g.set()
		conf, err := generate(s, s.Registries.BlockedRegistries)
		if err != nil {
			continue
		}
		if seed%3 == 0 {
			for i := range conf.Registries {
				conf.Registries[i].Location = strings.Repeat("\x01\"\\\u2028\U000e0001\x80", g.IntN(20))
				conf.UnqualifiedSearchRegistries = append(conf.UnqualifiedSearchRegistries, conf.Registries[i].Location)
			}
		}
		if exact, bound := len(encodeConf(conf)), encodedBound(conf); bound < exact {
			t.Errorf("seed %d: the bound is %d, and %d bytes are encoded", seed, bound, exact)
		}
	}
}

// TestPolicySize: registry lists and image policies take room too, a policy of a
// namespace that of the whole policy.json again.
func TestPolicySize(t *testing.T) {
	long := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("registry-%04d.example.com/team", i))
		}
		return list
	}
	key := []byte(strings.Repeat("k", 100_000))
	withKey := func(o Object) Object {
		switch o := o.(type) {
		case *configv1.ClusterImagePolicy:
			o.Spec.Policy.RootOfTrust.PublicKey = &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: key}
		case *configv1.ImagePolicy:
			o.Spec.Policy.RootOfTrust.PublicKey = &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: key}
		}
		return o
	}
	allowed := Set{Registries: configv1.RegistrySources{AllowedRegistries: long(1000)}}
	tests := []struct {
		reason   string
		set      Set
		min, max int // KiB
	}{
		{"nothing", Set{}, 0, 1},
		// {"type": "insecureAcceptAnything"} indented, for docker and for atomic
		{"a thousand allowed registries", allowed, 250, 350},
		{"a thousand blocked registries", Set{Registries: configv1.RegistrySources{BlockedRegistries: long(1000)}}, 250, 450},
		{"a namespace's policy repeats the lists", put(allowed, imagePolicy("shop", "p", "registry-0001.example.com/team/a")), 500, 700},
		// 100 kB, in base64 twice, for docker and for atomic
		{"a key", put(Set{}, withKey(clusterPolicy("p", "quay.io"))), 340, 360},
		{"a key in two namespaces", put(Set{}, withKey(imagePolicy("a", "p", "quay.io")), withKey(imagePolicy("b", "p", "quay.io"))), 690, 710},
		{"a key for a deep scope is not in atomic", put(Set{}, withKey(clusterPolicy("p", "quay.io/a/b/c"))), 170, 180},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := build(tt.set)
			b.encoded = len(encodeConf(b.conf))
			if got := b.size(tt.set) >> 10; got < tt.min || got > tt.max {
				t.Errorf("%d KiB, want %d to %d", got, tt.min, tt.max)
			}
		})
	}
}
