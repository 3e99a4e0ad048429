package rollout

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// A step is from one set of a node's files to another.
type step struct {
	before, after map[string][]byte
	policy        operatorv1.NodeDisruptionPolicyConfig
}

func (s step) question() oracle.Question {
	return oracle.Question{Decide: &oracle.Decide{Before: s.before, After: s.after, Policy: s.policy}}
}

// decide returns what the guard says, in MCO's words. Their order means nothing in MCO,
// which goes through a map.
func (s step) decide() oracle.Decided {
	machines := &operatorv1.MachineConfiguration{Spec: operatorv1.MachineConfigurationSpec{NodeDisruptionPolicy: s.policy}}
	d, err := rollout.Decide(s.before, s.after, rollout.Conditions{Machines: machines})
	if err != nil {
		return oracle.Decided{Error: "error"}
	}
	made := oracle.Decided{Changed: d.Changed, Actions: d.Actions, Drain: d.Drains}
	if len(d.Changed) == 0 {
		made.Actions = nil // the guard says None, MCO nothing
	}
	return sorted(made)
}

func sorted(d oracle.Decided) oracle.Decided {
	if d.Error != "" {
		return oracle.Decided{Error: "error"} // two versions of the same library word it
	}
	d.Changed, d.Actions = slices.Clone(d.Changed), slices.Clone(d.Actions)
	slices.Sort(d.Changed)
	slices.SortFunc(d.Actions, func(a, b operatorv1.NodeDisruptionPolicyStatusAction) int {
		return strings.Compare(text(a), text(b))
	})
	return d
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// compare asks MCO about the steps, and returns how many of them drain.
func compare(t *testing.T, o *oracle.Oracle, first int, steps []step) (drains int) {
	t.Helper()
	questions := make([]oracle.Question, len(steps))
	for i, s := range steps {
		questions[i] = s.question()
	}
	answers, err := o.Ask(questions...)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		mco := sorted(*answers[i].Decided)
		if mco.Drain {
			drains++
		}
		if diff := gocmp.Diff(mco, s.decide(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("step %d: MCO with -, the guard with +:\n%s\npolicy: %s\n%s", first+i, diff, text(s.policy), s)
		}
	}
	return drains
}

// String prints the files that differ.
func (s step) String() string {
	var b strings.Builder
	for path := range s.before {
		if !bytes.Equal(s.before[path], s.after[path]) {
			b.WriteString("--- " + path + "\n" + string(s.before[path]))
		}
	}
	for path := range s.after {
		if !bytes.Equal(s.before[path], s.after[path]) {
			b.WriteString("+++ " + path + "\n" + string(s.after[path]))
		}
	}
	return b.String()
}

// TestDecisions holds the guard's decision whether nodes reload, drain or reboot to MCO's:
// ROLLOUT_PAIRS random pairs of files (5000).
func TestDecisions(t *testing.T) {
	o := oracle.New(t)
	const batch = 500
	n, drains := times(t, "ROLLOUT_PAIRS", 5000), 0
	for start := 0; start < n; start += batch {
		var steps []step
		for seed := start; seed < min(start+batch, n); seed++ {
			steps = append(steps, newRandom(seed).step())
		}
		drains += compare(t, o, start, steps)
	}
	t.Logf("%d of %d drain", drains, n)
	if drains < n/10 || drains > n*9/10 {
		t.Errorf("%d of %d drain: the pairs are too much alike", drains, n)
	}
}

// TestChanges holds it to MCO's for what changes of objects come to: ROLLOUT_SETS of them
// (500), each one of a set that is written by MCO before and after.
func TestChanges(t *testing.T) {
	o := oracle.New(t)
	const batch = 50
	n, drains, rendered := times(t, "ROLLOUT_SETS", 500), 0, 0
	for start := 0; start < n; start += batch {
		var questions []oracle.Question
		var sets []rollout.Step
		for seed := start; seed < min(start+batch, n); seed++ {
			r := newRandom(seed)
			before := r.set()
			after := r.changed(before)
			sets = append(sets, rollout.Step{Before: before, After: after})
			questions = append(questions,
				oracle.Question{Render: objectsOf(before)}, oracle.Question{Render: objectsOf(after)})
		}
		answers, err := o.Ask(questions...)
		if err != nil {
			t.Fatal(err)
		}
		var steps []step
		for i := 0; i < len(answers); i += 2 {
			before, after := answers[i].Rendered, answers[i+1].Rendered
			if before.Error == "" && after.Error == "" {
				s := step{before: withBase(before.Files), after: withBase(after.Files)}
				steps = append(steps, s)
				if before.DroppedLists == "" && after.DroppedLists == "" {
					compareObjects(t, start+i/2, sets[i/2], s)
				}
			}
		}
		rendered += len(steps)
		drains += compare(t, o, start, steps)
	}
	t.Logf("%d of %d are rendered, %d drain", rendered, n, drains)
	if drains < rendered/10 || drains > rendered*9/10 {
		t.Errorf("%d of %d drain: the changes are too much alike", drains, rendered)
	}
}

// compareObjects compares what the guard decides by objects with what it decides by MCO's
// files for them, which compare holds to MCO's decision.
func compareObjects(t *testing.T, seed int, sets rollout.Step, files step) {
	t.Helper()
	made, err := sets.Decisions(rollout.Conditions{})("worker")
	if err != nil {
		t.Errorf("change %d: %v", seed, err)
		return
	}
	ours := oracle.Decided{Changed: made.Changed, Actions: made.Actions, Drain: made.Drains}
	if len(made.Changed) == 0 {
		ours.Actions = nil
	}
	if diff := gocmp.Diff(files.decide(), sorted(ours), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("change %d: by MCO's files with -, by the objects with +:\n%s\n%s\n%s", seed, diff, text(objectsOf(sets.Before)), text(objectsOf(sets.After)))
	}
}

// withBase returns the files of a rendered config, which has the template's where the
// generated MachineConfig has none.
func withBase(files map[string][]byte) map[string][]byte {
	all := map[string][]byte{
		mirrors.RegistriesConfPath: []byte("unqualified-search-registries = ['registry.access.redhat.com', 'docker.io']\n"),
		policyfile.PolicyJSONPath: []byte(`{
    "default": [
        {
            "type": "insecureAcceptAnything"
        }
    ],
    "transports":
        {
            "docker-daemon":
                {
                    "": [{"type":"insecureAcceptAnything"}]
                }
        }
}`),
	}
	for path, data := range files {
		all[path] = data
	}
	return all
}

// changed adds an object, takes one away, or has another in its place.
func (r random) changed(s mirrors.Set) mirrors.Set {
	s.Objects = slices.Clone(s.Objects)
	if len(s.Objects) > 0 && r.chance(50) {
		i := r.IntN(len(s.Objects))
		s.Objects = slices.Delete(s.Objects, i, i+1)
	}
	switch r.IntN(4) {
	case 0:
		s.Objects = append(s.Objects, r.tagSet(9))
	case 1, 2:
		s.Objects = append(s.Objects, r.digestSet(9))
	case 3:
		s.Registries = r.registries()
	}
	return s
}

// step changes some files, registries.conf nearly always.
func (r random) step() step {
	s := step{before: map[string][]byte{}, after: map[string][]byte{}, policy: r.disruption()}
	was := r.conf()
	s.before[mirrors.RegistriesConfPath] = encode(was)
	s.after[mirrors.RegistriesConfPath] = encode(r.alter(was))
	if r.chance(3) {
		s.after[mirrors.RegistriesConfPath] = pick(r, []byte("[[registry"), []byte(""), []byte("unknown = 1\n"), []byte("unqualified-search-registries = 1\n"))
	}
	if r.chance(2) {
		delete(pick(r, s.before, s.after), mirrors.RegistriesConfPath)
	}
	for range r.IntN(3) * r.IntN(2) {
		path := r.file()
		s.before[path], s.after[path] = []byte(pick(r, "a", "b")), []byte(pick(r, "a", "b"))
		if r.chance(30) {
			delete(pick(r, s.before, s.after), path)
		}
	}
	return s
}

func (r random) file() string {
	return pick(r, policyfile.PolicyJSONPath, mirrors.SearchDropInPath, "/etc/containers/registries.d/sigstore-registries.yaml", "/etc/crio/policies/team.json",
		"/etc/crio/policies", "/etc/crio/policies.json", rollout.UserCABundlePath, "/etc/machine-config-daemon/no-reboot/containers-gpg.pub",
		"/var/lib/kubelet/config.json", "/etc/containers/storage.conf", "/etc/containers/registries.conf.d/", "/etc//containers/registries.d/x", "/etc/motd")
}

// disruption is the spec of a NodeDisruptionPolicy, most often none.
func (r random) disruption() operatorv1.NodeDisruptionPolicyConfig {
	var c operatorv1.NodeDisruptionPolicyConfig
	if r.chance(60) {
		return c
	}
	for range 1 + r.IntN(3) {
		file := operatorv1.NodeDisruptionPolicySpecFile{Path: pick(r, mirrors.RegistriesConfPath, "/etc/containers", "/etc/containers/registries.conf.d", "/etc", "/", r.file())}
		for range 1 + r.IntN(3) {
			file.Actions = append(file.Actions, r.action())
		}
		c.Files = append(c.Files, file)
	}
	return c
}

func (r random) action() operatorv1.NodeDisruptionPolicySpecAction {
	switch a := pick(r, operatorv1.NoneSpecAction, operatorv1.RebootSpecAction, operatorv1.DrainSpecAction, operatorv1.ReloadSpecAction, operatorv1.RestartSpecAction, operatorv1.DaemonReloadSpecAction); a {
	case operatorv1.ReloadSpecAction:
		return operatorv1.NodeDisruptionPolicySpecAction{Type: a, Reload: &operatorv1.ReloadService{ServiceName: "crio.service"}}
	case operatorv1.RestartSpecAction:
		return operatorv1.NodeDisruptionPolicySpecAction{Type: a, Restart: &operatorv1.RestartService{ServiceName: pick(r, operatorv1.NodeDisruptionPolicyServiceName("crio.service"), "kubelet.service")}}
	default:
		return operatorv1.NodeDisruptionPolicySpecAction{Type: a}
	}
}

// conf is a registries.conf as MCO writes them, or as somebody else may: with prefixes,
// the same scope twice, and what MCO has not written for years.
func (r random) conf() sysregistriesv2.V2RegistriesConf {
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: []string{"registry.access.redhat.com", "docker.io"}}
	for range r.IntN(4) {
		conf.Registries = append(conf.Registries, r.registry())
	}
	return conf
}

func (r random) registry() sysregistriesv2.Registry {
	reg := sysregistriesv2.Registry{Endpoint: sysregistriesv2.Endpoint{Location: pick(r, "quay.io", "quay.io/a", "quay.io/b", "quay.io/c")}}
	switch r.IntN(10) {
	case 0:
		reg.Prefix = pick(r, "quay.io/a", "*.example.com", "bar.com")
	case 1:
		reg.Prefix, reg.Location = "*.example.com", ""
	}
	reg.Blocked, reg.Insecure, reg.MirrorByDigestOnly = r.chance(8), r.chance(8), r.chance(8)
	for range r.IntN(4) {
		reg.Mirrors = append(reg.Mirrors, r.endpoint())
	}
	return reg
}

func (r random) endpoint() sysregistriesv2.Endpoint {
	return sysregistriesv2.Endpoint{
		Location:       pick(r, "m.local/a", "m.local/b", "n.local"),
		Insecure:       r.chance(10),
		PullFromMirror: pick(r, "digest-only", "digest-only", "digest-only", "tag-only", "all", ""),
	}
}

// alter changes one to three things: a change of everything always drains.
func (r random) alter(conf sysregistriesv2.V2RegistriesConf) sysregistriesv2.V2RegistriesConf {
	conf.UnqualifiedSearchRegistries = slices.Clone(conf.UnqualifiedSearchRegistries)
	conf.Registries = slices.Clone(conf.Registries)
	for i := range conf.Registries {
		conf.Registries[i].Mirrors = slices.Clone(conf.Registries[i].Mirrors)
	}
	for range r.IntN(3) + 1 {
		n := len(conf.Registries)
		switch r.IntN(9) {
		case 0:
			conf.UnqualifiedSearchRegistries = r.alterSearch(conf.UnqualifiedSearchRegistries)
		case 1, 2:
			conf.Registries = slices.Insert(conf.Registries, r.IntN(n+1), r.registry())
		case 3:
			r.Shuffle(n, func(i, j int) { conf.Registries[i], conf.Registries[j] = conf.Registries[j], conf.Registries[i] })
		case 4:
			if n > 0 && r.chance(30) {
				conf.Registries = slices.Delete(conf.Registries, 0, 1)
			}
		default:
			if n > 0 {
				r.alterRegistry(&conf.Registries[r.IntN(n)])
			}
		}
	}
	return conf
}

func (r random) alterSearch(search []string) []string {
	switch r.IntN(3) {
	case 0:
		return append(search, "quay.io")
	case 1:
		slices.Reverse(search)
		return search
	default:
		return search[:r.IntN(len(search)+1)]
	}
}

func (r random) alterRegistry(reg *sysregistriesv2.Registry) {
	n := len(reg.Mirrors)
	switch r.IntN(10) {
	case 0:
		reg.Blocked = !reg.Blocked
	case 1:
		reg.Insecure = !reg.Insecure
	case 2:
		reg.MirrorByDigestOnly = !reg.MirrorByDigestOnly
	case 3:
		r.Shuffle(n, func(i, j int) { reg.Mirrors[i], reg.Mirrors[j] = reg.Mirrors[j], reg.Mirrors[i] })
	case 4, 5, 6:
		reg.Mirrors = slices.Insert(reg.Mirrors, r.IntN(n+1), r.endpoint())
	case 7:
		if n > 0 {
			reg.Mirrors = slices.Delete(reg.Mirrors, 0, 1)
		}
	default:
		if n > 0 {
			reg.Mirrors[r.IntN(n)] = r.endpoint()
		}
	}
}

func encode(conf sysregistriesv2.V2RegistriesConf) []byte {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(conf); err != nil {
		panic(err)
	}
	return b.Bytes()
}
