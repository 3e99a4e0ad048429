package rollout

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestDecisions: what a step does to the nodes of pools whose files differ.
func TestDecisions(t *testing.T) {
	own := func(s mirrors.Set, role, name, path, contents string) mirrors.Set {
		s.Files = append(s.Files[:len(s.Files):len(s.Files)], mirrors.File{MachineConfig: name, Role: role, Path: path, Contents: []byte(contents)})
		return s
	}
	step := func(before, after string, edit func(mirrors.Set) mirrors.Set) Step {
		return Step{Before: edit(set(t, before)), After: edit(set(t, after))}
	}
	asIs := func(s mirrors.Set) mirrors.Set { return s }
	rejected := func(s Step) Step { s.AfterRejected = true; return s }
	repaired := func(s Step, applied string) Step {
		s.BeforeRejected = true
		if applied != "" {
			s.Before.Applied = &mirrors.Applied{Files: map[string][]byte{mirrors.RegistriesConfPath: []byte(applied)}}
		}
		return s
	}
	for _, tt := range []struct {
		name string
		step Step
		want string // for master, worker and gpu
	}{
		{"no files", step("", "itms a quay.io m.io", asIs), "drains and reloads CRI-O, the same, the same"},
		{
			"a drop-in beside the generated file does not change", step("", "itms a quay.io m.io", func(s mirrors.Set) mirrors.Set {
				return own(s, "gpu", "50-gpu", "/etc/containers/registries.conf.d/50.conf", "x")
			}), "drains and reloads CRI-O, the same, the same",
		},
		{
			"a file over the generated one keeps the change from nodes", step("", "itms a quay.io m.io", func(s mirrors.Set) mirrors.Set {
				return own(s, "gpu", "99-zz-gpu", registries, "x")
			}), "drains and reloads CRI-O, the same, changes no file",
		},
		{
			"the last object uncovers the file under the generated one", step("idms a quay.io m.io", "", func(s mirrors.Set) mirrors.Set {
				return own(s, "worker", "50-own", registries, string(conf("registry.access.redhat.com docker.io", "quay.io d:m.io")))
			}), "drains and reloads CRI-O, reloads CRI-O without a drain, the same",
		},
		{
			"a broken file over the template's", step("", "idms a quay.io m.io", func(s mirrors.Set) mirrors.Set {
				return own(s, "master", "50-own", registries, "[[")
			}), "error, reloads CRI-O without a drain, the same",
		},
		{"what MCO rejects", rejected(step("", "itms a quay.io m.io", asIs)), "changes no file, the same, the same"},
		{"a repair, from what is applied", repaired(step("itms a quay.io m.io", "itms a quay.io m.io", asIs), string(conf("registry.access.redhat.com docker.io"))), "drains and reloads CRI-O, the same, the same"},
		{"a repair, and nobody knows what is applied", repaired(step("itms a quay.io m.io", "itms a quay.io m.io", asIs), ""), "changes no file, the same, the same"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decide := tt.step.Decisions(Conditions{})
			var got []string
			last := ""
			for _, pool := range []string{"master", "worker", "gpu"} {
				d, err := decide(pool)
				said := d.String()
				if err != nil {
					said = "error"
				}
				if said == last {
					got = append(got, "the same")
					continue
				}
				got = append(got, said)
				last = said
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %q, want %q", strings.Join(got, ", "), tt.want)
			}
		})
	}
}

// FuzzDrainReasons: whatever the files hold, each is no change of itself, and the answer is
// the same every time.
func FuzzDrainReasons(f *testing.F) {
	f.Add(conf("a.io", "a.io d:m.local t:m.local"), conf("", "a.io blocked", "b.io at:c.io"))
	f.Add([]byte("[["), []byte("[[registry]]\nmirror = []"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if reasons, err := DrainReasons(a, a); len(reasons) > 0 {
			t.Errorf("of itself: %v, %v", reasons, err)
		}
		one, err1 := DrainReasons(a, b)
		two, err2 := DrainReasons(a, b)
		if (err1 == nil) != (err2 == nil) || len(one) != len(two) {
			t.Fatalf("%v, %v; then %v, %v", one, err1, two, err2)
		}
		for i := range one {
			if one[i] != two[i] || one[i] == "" {
				t.Fatalf("%v, then %v", one[i], two[i])
			}
		}
	})
}
