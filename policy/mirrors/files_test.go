package mirrors

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// TestFilesAreTheRuntimes holds routes to what the runtime makes of the generated files and
// of others beside them, for random ones.
func TestFilesAreTheRuntimes(t *testing.T) {
	dir, compared, differed, skipped := t.TempDir(), 0, 0, 0
	for seed := range uint64(400) {
		g := gen{rand.New(rand.NewPCG(seed, 14))}
		s := g.set()
		plain, err := ResolveUnchecked(s)
		if err != nil {
			continue
		}
		s.Files = g.files(t)
		table, err := ResolveUnchecked(s)
		if err != nil {
			t.Fatal(err)
		}
		rt := runtimeWith(t, dir, s)
		for range 8 {
			image := g.image(s)
			got, err := table.Route(image, "")
			if err != nil {
				continue
			}
			want, ok := rt.expected(t, image)
			if ok != (got.Err == nil) {
				t.Fatalf("seed %d, %s: %v, the runtime can rewrite: %t", seed, image, got.Err, ok)
			}
			if diff := cmp.Diff(want, got.Sources, cmpopts.IgnoreFields(PullSource{}, "Refused")); ok && diff != "" {
				t.Fatalf("seed %d, %s: -runtime +ours:\n%s", seed, image, diff)
			}
			if refs, _ := table.Candidates(image); ok && len(refs) == 1 {
				skipped += checkSteps(t, table, refs[0], got)
			}
			compared++
			if was, err := plain.Route(image, ""); err == nil && !was.Equal(got) {
				differed++
			}
		}
	}
	t.Logf("%d routes compared, %d of them other than without the files", compared, differed)
	if compared < 1000 || differed < compared/10 || skipped < compared/10 {
		t.Errorf("too few of the inputs were meaningful: %d mirrors are skipped", skipped)
	}
}

// checkSteps: between the places of a route stand the mirrors of its entry that serve another kind of pull.
func checkSteps(t *testing.T, table *Table, ref string, route Route) (skipped int) {
	var asked []PullSource
	steps := table.Steps(ref, route)
	for _, s := range steps {
		if s.Serves == "" {
			asked = append(asked, s.PullSource)
		} else if skipped++; (s.Serves == "tags") != ByDigest(ref) {
			t.Errorf("%s: a mirror is skipped for %s", ref, s.Serves)
		}
	}
	if entry := table.index.entry(route.Entry); !slices.EqualFunc(asked, route.Sources, PullSource.same) || entry != nil && len(steps) != len(entry.Mirrors)+1 {
		t.Fatalf("%s: %v are the steps of %v", ref, steps, route.Sources)
	}
	return skipped
}

// files returns some for the pool worker.
func (g gen) files(t *testing.T) []File {
	var files []File
	for i, file := range []string{RegistriesConfPath, "/etc/containers/registries.conf.d/00-a.conf", "/etc/containers/registries.conf.d/50-b.conf", "/etc/containers/registries.conf.d/99-c.conf"} {
		if g.chance(50) || i == 0 && g.chance(70) {
			continue
		}
		other := g.set()
		conf, err := generate(other, other.Registries.BlockedRegistries)
		if err != nil || normalize(&conf) != nil {
			continue
		}
		if g.chance(50) {
			conf.UnqualifiedSearchRegistries = nil
		}
		for k := range conf.Registries {
			if r := &conf.Registries[k]; g.chance(20) {
				r.MirrorByDigestOnly = true
				for m := range r.Mirrors {
					r.Mirrors[m].PullFromMirror = ""
				}
			}
		}
		files = append(files, File{MachineConfig: "99-z", Role: workerPool, Path: file, Contents: encoded(t, conf)})
	}
	return files
}

func encoded(t testing.TB, conf sysregistriesv2.V2RegistriesConf) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(conf); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// runtimeWith lays the files of s, and those that MCO generates, on a node.
func runtimeWith(t *testing.T, dir string, s Set) runtime {
	t.Helper()
	search := s.Registries.ContainerRuntimeSearchRegistries
	s.Registries.ContainerRuntimeSearchRegistries = nil
	conf, err := generate(s, s.Registries.BlockedRegistries)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{RegistriesConfPath: encoded(t, conf)}
	if len(search) > 0 {
		contents[SearchDropInPath] = encoded(t, sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: search})
	}
	for _, f := range s.Files {
		contents[f.Path] = f.Contents
	}
	if err := os.RemoveAll(filepath.Join(dir, "etc")); err != nil {
		t.Fatal(err)
	}
	for file, text := range contents {
		at := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sys := &types.SystemContext{
		SystemRegistriesConfPath:    filepath.Join(dir, filepath.FromSlash(RegistriesConfPath)),
		SystemRegistriesConfDirPath: filepath.Join(dir, filepath.FromSlash(path.Dir(SearchDropInPath))),
	}
	sysregistriesv2.InvalidateCache()
	if _, err := sysregistriesv2.TryUpdatingCache(sys); err != nil {
		t.Fatal(err)
	}
	return runtime{sys: sys}
}

// TestFilesOf: which of several MachineConfigs has its file on a node.
func TestFilesOf(t *testing.T) {
	const a, b = "/etc/containers/registries.conf.d/50-a.conf", "/etc/containers/registries.conf.d/60-b.conf"
	file := func(config, role, path string) File {
		return File{MachineConfig: config, Role: role, Path: path, Contents: []byte("# " + config)}
	}
	for _, tt := range []struct {
		name  string
		set   Set
		files []File
		pool  string
		want  string
	}{
		{"each pool has its own", Set{}, []File{file("50-w", "worker", a), file("50-m", "master", a)}, "master", "50-m"},
		{"a pool of one's own takes worker's too", Set{}, []File{file("50-w", "worker", a), file("50-i", "infra", b), file("50-m", "master", a)}, "infra", "50-w 50-i"},
		{"and worker takes no other's", Set{}, []File{file("50-w", "worker", a), file("50-i", "infra", b)}, "worker", "50-w"},
		{"the last MachineConfig counts", Set{}, []File{file("51-w", "worker", a), file("50-w", "worker", a)}, "worker", "51-w"},
		{"registries.conf is read first", Set{}, []File{file("50-w", "worker", a), file("51-w", "worker", RegistriesConfPath)}, "worker", "51-w 50-w"},
		{"the generated one comes after 50", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, []File{file("50-w", "worker", RegistriesConfPath)}, "worker", ""},
		{"and before 99-z", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, []File{file("99-z", "worker", RegistriesConfPath)}, "worker", "99-z"},
		{"of master it has another name", Set{Objects: []Object{itms("a", "quay.io", allow, "m.local")}}, []File{file("99-n", "master", RegistriesConfPath)}, "master", "99-n"},
		{"without objects none is generated", Set{}, []File{file("50-w", "worker", RegistriesConfPath)}, "worker", "50-w"},
		{"no drop-in", Set{}, []File{file("50-w", "worker", "/etc/containers/registries.conf.d/readme"), file("50-w", "worker", "/etc/containers/registries.conf.d/x/y.conf")}, "worker", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.set.Files = tt.files
			if got := convert.Each(tt.set.filesOf(tt.pool), func(f File) string { return f.MachineConfig }); strings.Join(got, " ") != tt.want {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

// TestVariants: nodes with the same files are one variant, worker's the first.
func TestVariants(t *testing.T) {
	file := func(role, text string) File {
		return File{MachineConfig: "50-" + role, Role: role, Path: "/etc/containers/registries.conf.d/50.conf", Contents: []byte(text)}
	}
	for name, tt := range map[string]struct {
		files []File
		want  string
	}{
		"no files":                          {nil, "[]"},
		"the same for both":                 {[]File{file("worker", "x"), file("master", "x")}, "[]"},
		"worker alone":                      {[]File{file("worker", "x")}, "[worker] [master]"},
		"one of three":                      {[]File{file("infra", "x")}, "[master worker] [infra]"},
		"of one name, worker's is the last": {[]File{file("worker", "x"), file("infra", "y"), file("master", "x")}, "[]"},
		"all of them differ":                {[]File{file("worker", "x"), file("zone", "y")}, "[worker] [master] [zone]"},
		"a file nobody reads":               {[]File{{MachineConfig: "50", Role: "master", Path: "/etc/hosts"}}, "[]"},
		"two pools of one's own":            {[]File{file("a", "x"), file("b", "y")}, "[master worker] [a] [b]"},
	} {
		for _, variants := range [][]Variant{Set{Files: tt.files}.Variants(), Set{}.Variants(Set{Files: tt.files})} {
			got := convert.Each(variants, func(v Variant) string { return "[" + strings.Join(v.Pools, " ") + "]" })
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s: got %v, want %s", name, got, tt.want)
			}
		}
	}
}

// TestFileThatNodesCannotRead: it ends every pull, whatever else there is, so that a change
// is judged without it.
func TestFileThatNodesCannotRead(t *testing.T) {
	s := Set{Registries: configv1.RegistrySources{InsecureRegistries: []string{"m.local"}}}
	s.Files = []File{{MachineConfig: "99-z", Role: "worker", Path: RegistriesConfPath, Contents: []byte("[")}}
	table, err := Resolve(s)
	if err != nil || !table.Has("m.local") {
		t.Errorf("%v", err)
	}
}
