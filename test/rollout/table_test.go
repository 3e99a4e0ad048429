package rollout

import (
	"strings"
	"testing"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// TestTable asks MCO and the guard about changes of which it is known what MCO does: the
// rows of its own TestIsDrainRequired (pkg/daemon/drain_test.go) that are about
// registries.conf, those of TestCalculatePostConfigChangeAction, and traps that follow from
// the code.
func TestTable(t *testing.T) {
	o := oracle.New(t)
	for _, tt := range []struct {
		name          string
		before, after []string // see written
		drain         bool
	}{
		// mc1 to mc13 of MCO's test
		{"mc3 to mc1: a new registry, all mirrors for digests", []string{"T t"}, []string{"T t", "T1 d"}, false},
		{"mc5 to mc6: a new registry without mirrors", []string{"T d"}, []string{"T d", "T1"}, true},
		{"mc1 to mc3: a registry is gone", []string{"T t", "T1 d"}, []string{"T t"}, true},
		{"mc1 to mc2: another mirror for digests", []string{"T t", "T1 d"}, []string{"T t", "T1 d d:m1"}, false},
		{"mc9 to mc11: a blocked entry stays", []string{"T prefix:bar.com blocked"}, []string{"T prefix:bar.com blocked", "T1 d"}, false},
		{"mc6 to mc7: a mirror for tags and digests", []string{"T d", "T1"}, []string{"T d", "T1 a"}, true},
		{"mc2 to mc1: a mirror is gone", []string{"T t", "T1 d d:m1"}, []string{"T t", "T1 d"}, true},
		{"mc4 to mc3: the search list is shorter", []string{"search:3", "T d"}, []string{"T a"}, true},
		{"mc3 to mc4: the search list is longer", []string{"T a"}, []string{"search:3", "T d"}, false},
		{"mc8 to mc10: the prefix is gone", []string{"T prefix:bar.com"}, []string{"T"}, true},
		{"mc8 to mc9: blocked", []string{"T prefix:bar.com"}, []string{"T prefix:bar.com blocked"}, true},
		{"mc1 to mc6: the mirror is gone", []string{"T t", "T1 d"}, []string{"T d", "T1"}, true},
		{"mc12 to mc13: mirror-by-digest-only counts for new mirrors", []string{"T digests a"}, []string{"T digests a a:m1"}, false},

		// traps
		{"nothing differs", []string{"T d t"}, []string{"T d t"}, false},
		{"a digest mirror where an ITMS lists the mirror too", []string{"T d t"}, []string{"T d t d:m1"}, true},
		{"the same where that source is not touched", []string{"T d t"}, []string{"T d t", "T1 d"}, false},
		{"other mirrors in another order", []string{"T d d:m1"}, []string{"T d:m1 d"}, false},
		{"the ITMS twin of an IDMS mirror comes", []string{"T d"}, []string{"T d t"}, true},
		{"and goes", []string{"T d t"}, []string{"T d"}, false},
		{"the IDMS twin goes", []string{"T d t"}, []string{"T t"}, true},
		{"a new blocked entry that inherits digest mirrors", []string{"T d"}, []string{"T d", "T/x blocked d"}, false},
		{"and tag mirrors", []string{"T t"}, []string{"T t", "T/x blocked t"}, true},
		{"a new blocked entry without mirrors", nil, []string{"T blocked"}, true},
		{"a new source that is Never", nil, []string{"T blocked d"}, false},
		{"the first IDMS", nil, []string{"T d"}, false},
		{"the first ITMS", nil, []string{"T t"}, true},
		{"the last IDMS goes", []string{"T d"}, nil, true},
		{"a mirror becomes insecure", []string{"T d"}, []string{"T d!"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := step{
				before: map[string][]byte{mirrors.RegistriesConfPath: written(tt.before)},
				after:  map[string][]byte{mirrors.RegistriesConfPath: written(tt.after)},
			}
			if drains := compare(t, o, 0, []step{s}) > 0; drains != tt.drain {
				t.Errorf("MCO drains: %t, want %t\n%s", drains, tt.drain, s)
			}
		})
	}
}

// written is a registries.conf. An entry is its location (T and T1 for those of MCO's test)
// and then "prefix:" and a prefix, "blocked", "digests" (mirror-by-digest-only), and its
// mirrors: "d" for digests, "t" for tags, "a" for all, with the mirror's host or without,
// and "!" for an insecure one. "search:3" is a third search registry.
func written(entries []string) []byte {
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: []string{"example.com", "foo.com"}}
	for _, entry := range entries {
		words := strings.Fields(entry)
		if words[0] == "search:3" {
			conf.UnqualifiedSearchRegistries = append(conf.UnqualifiedSearchRegistries, "bar.com")
			continue
		}
		location := strings.NewReplacer("T1", "example.com/repo1/test-img1", "T", "example.com/repo/test-img").Replace(words[0])
		reg := sysregistriesv2.Registry{Endpoint: sysregistriesv2.Endpoint{Location: location}}
		for _, word := range words[1:] {
			kind, name, _ := strings.Cut(word, ":")
			switch kind {
			case "prefix":
				reg.Prefix = name
			case "blocked":
				reg.Blocked = true
			case "digests":
				reg.MirrorByDigestOnly = true
			default:
				reg.Mirrors = append(reg.Mirrors, mirrorFor(kind, name))
			}
		}
		conf.Registries = append(conf.Registries, reg)
	}
	return encode(conf)
}

func mirrorFor(kind, name string) sysregistriesv2.Endpoint {
	kind, insecure := strings.CutSuffix(kind, "!")
	pulls := map[string]string{"d": "digest-only", "t": "tag-only", "a": ""}
	return sysregistriesv2.Endpoint{Location: "mirror" + name + ".example.com/test-img", Insecure: insecure, PullFromMirror: pulls[kind]}
}

// TestActions is about other files and policies, as the rows of MCO's test are.
func TestActions(t *testing.T) {
	o := oracle.New(t)
	const (
		conf     = mirrors.RegistriesConfPath
		policy   = policyfile.PolicyJSONPath
		bundle   = rollout.UserCABundlePath
		unlisted = "/etc/motd"
	)
	safe := func(path string) [2]string {
		if path == conf {
			return [2]string{string(written(nil)), string(written([]string{"T d"}))}
		}
		return [2]string{"a", "b"}
	}
	for _, tt := range []struct {
		name    string
		files   string
		policy  operatorv1.NodeDisruptionPolicySpecActionType // of registries.conf, "" for none
		drain   bool
		actions string
	}{
		{"registries.conf", conf, "", false, "Special"},
		{"policy.json", policy, "", false, "Reload"},
		{"both", conf + " " + policy, "", false, "Reload Special"},
		{"the CA bundle", bundle, "", false, "Restart Restart"},
		{"a file without a policy", conf + " " + unlisted, "", true, "Reboot"},
		{"the search registries", mirrors.SearchDropInPath, "", true, "Reboot"},
		{"policy None", conf, operatorv1.NoneSpecAction, false, "None"},
		{"policy None, and policy.json", conf + " " + policy, operatorv1.NoneSpecAction, false, "Reload"},
		{"policy Reboot", conf, operatorv1.RebootSpecAction, true, "Reboot"},
		{"policy Drain", conf, operatorv1.DrainSpecAction, true, "Drain"},
		{"policy DaemonReload", conf, operatorv1.DaemonReloadSpecAction, false, "DaemonReload"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := step{before: map[string][]byte{}, after: map[string][]byte{}}
			for path := range strings.FieldsSeq(tt.files) {
				contents := safe(path)
				s.before[path], s.after[path] = []byte(contents[0]), []byte(contents[1])
			}
			if tt.policy != "" {
				s.policy.Files = []operatorv1.NodeDisruptionPolicySpecFile{{Path: conf, Actions: []operatorv1.NodeDisruptionPolicySpecAction{{Type: tt.policy}}}}
			}
			compare(t, o, 0, []step{s})
			made := s.decide()
			var actions []string
			for _, a := range sorted(made).Actions {
				actions = append(actions, string(a.Type))
			}
			if got := strings.Join(actions, " "); made.Drain != tt.drain || got != tt.actions {
				t.Errorf("drain %t, %s; want %t, %s", made.Drain, got, tt.drain, tt.actions)
			}
		})
	}
}
