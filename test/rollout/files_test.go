package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// TestFiles holds what the guard makes of mirror objects to the files that MCO renders:
// ROLLOUT_SETS random sets of objects (500).
func TestFiles(t *testing.T) {
	o := oracle.New(t)
	const batch = 50
	n := times(t, "ROLLOUT_SETS", 500)
	seen := map[string]int{}
	for start := 0; start < n; start += batch {
		var sets []mirrors.Set
		var questions []oracle.Question
		for seed := start; seed < min(start+batch, n); seed++ {
			s := newRandom(seed).set()
			sets = append(sets, s)
			questions = append(questions, oracle.Question{Render: objectsOf(s)})
		}
		answers, err := o.Ask(questions...)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range sets {
			c := comparison{T: t, seed: start + i, set: s, mco: *answers[i].Rendered}
			seen[c.run()]++
			c.bootstrap(*answers[i].Bootstrap)
		}
	}
	t.Log(seen)
	for _, what := range []string{"files", "rejected"} {
		if seen[what] < n/10 {
			t.Errorf("%d of %d sets are %s: the worlds are too much alike", seen[what], n, what)
		}
	}
}

func objectsOf(s mirrors.Set) *oracle.Objects {
	o := &oracle.Objects{Release: s.Payload}
	o.Image.Name = "cluster"
	o.Image.Spec.RegistrySources = s.Registries
	for _, object := range s.Objects {
		switch object := object.(type) {
		case *configv1.ImageTagMirrorSet:
			o.Tags = append(o.Tags, object)
		case *configv1.ImageDigestMirrorSet:
			o.Digests = append(o.Digests, object)
		case *operatorv1alpha1.ImageContentSourcePolicy:
			o.Legacy = append(o.Legacy, object)
		}
	}
	for _, policy := range s.Policies {
		switch policy := policy.(type) {
		case *configv1.ClusterImagePolicy:
			o.ClusterPolicies = append(o.ClusterPolicies, policy)
		case *configv1.ImagePolicy:
			o.NamespacePolicies = append(o.NamespacePolicies, policy)
		}
	}
	return o
}

// A comparison is that of one set.
type comparison struct {
	*testing.T
	seed int
	set  mirrors.Set
	mco  oracle.Files
}

// run returns what became of the set.
func (c *comparison) run() string {
	c.Helper()
	if c.mco.DroppedLists != "" {
		return c.withoutLists()
	}
	table, err := mirrors.Resolve(c.set)
	switch {
	case err == nil && c.mco.Error == "":
		c.sameFile(table)
		c.sameFiles()
		c.sameRoutes(table)
		return "files"
	case err != nil && c.mco.Error != "":
		return "rejected"
	case err == nil:
		c.differs("MCO renders nothing (%s), the guard sees no reason", c.mco.Error)
		return "differs"
	default:
		return c.rejectedByGuardAlone(err)
	}
}

// withoutLists compares a set whose lists MCO leaves out altogether. That is known, and the
// guard does not know it: it takes place where a list blocks the release image and the
// mirrors that might serve it cannot be made sense of, such as one whose host is a single
// word. Apart from the lists the two have to agree.
func (c *comparison) withoutLists() string {
	c.Helper()
	rest := *c
	rest.mco.DroppedLists = ""
	rest.set.Registries.BlockedRegistries, rest.set.Registries.AllowedRegistries = nil, nil
	return "lists dropped, " + rest.run()
}

func (c *comparison) differs(format string, args ...any) {
	c.Helper()
	objects, err := json.Marshal(objectsOf(c.set))
	if err != nil {
		c.Fatal(err)
	}
	c.Errorf("set %d: "+format+"\n%s", append(append([]any{c.seed}, args...), objects)...)
}

// rejectedByGuardAlone looks whether the guard rejects what MCO renders because no node
// could read it.
func (c *comparison) rejectedByGuardAlone(err error) string {
	c.Helper()
	var rejection *mirrors.Rejection
	if !errors.As(err, &rejection) {
		c.differs("%v", err)
		return "differs"
	}
	unreadable := slices.ContainsFunc(rejection.Reasons, func(r mirrors.Reason) bool {
		return r.Kind == mirrors.Unreadable || r.Kind == mirrors.DefinedTwice
	})
	if unreadable && c.read() != nil {
		return "unreadable"
	}
	c.differs("MCO renders files, the guard rejects: %v (nodes: %v)", err, c.read())
	return "differs"
}

// read reads the files as a node does.
func (c *comparison) read() error {
	dir := c.TempDir()
	sys := &types.SystemContext{
		SystemRegistriesConfPath:    filepath.Join(dir, "registries.conf"),
		SystemRegistriesConfDirPath: filepath.Join(dir, "registries.conf.d"),
	}
	if err := errors.Join(
		os.Mkdir(sys.SystemRegistriesConfDirPath, 0o700),
		os.WriteFile(sys.SystemRegistriesConfPath, c.mco.Files[mirrors.RegistriesConfPath], 0o600),
		os.WriteFile(filepath.Join(sys.SystemRegistriesConfDirPath, "01.conf"), c.mco.Files[mirrors.SearchDropInPath], 0o600),
	); err != nil {
		c.Fatal(err)
	}
	_, err := sysregistriesv2.GetRegistries(sys)
	return errors.Join(err, searchError(sys))
}

func searchError(sys *types.SystemContext) error {
	_, err := sysregistriesv2.UnqualifiedSearchRegistries(sys)
	return err
}

// sameFile compares what `render` prints with the file, but for the order of its entries.
func (c *comparison) sameFile(table *mirrors.Table) {
	c.Helper()
	ours, err := mirrors.Resolution{Table: table, Set: c.set}.RegistriesConf()
	if err != nil {
		c.differs("%v", err)
		return
	}
	theirs, ok := c.mco.Files[mirrors.RegistriesConfPath]
	if !ok {
		return // what stands in the template holds; sameRoutes compares that
	}
	var conf sysregistriesv2.V2RegistriesConf
	if _, err := toml.Decode(string(theirs), &conf); err != nil {
		c.differs("%v", err)
		return
	}
	for i := range conf.Registries { // as a node reads them
		conf.Registries[i].Location = strings.TrimRight(conf.Registries[i].Location, "/")
	}
	slices.SortStableFunc(conf.Registries, func(a, b sysregistriesv2.Registry) int {
		return strings.Compare(cmp.Or(a.Prefix, a.Location), cmp.Or(b.Prefix, b.Location))
	})
	if search := c.set.Registries.ContainerRuntimeSearchRegistries; len(search) > 0 {
		conf.UnqualifiedSearchRegistries = search // which MCO puts into a file beside it
	}
	var sorted strings.Builder
	if err := toml.NewEncoder(&sorted).Encode(conf); err != nil {
		c.differs("%v", err)
		return
	}
	if diff := gocmp.Diff(withoutComments(sorted.String()), withoutComments(ours)); diff != "" {
		c.differs("registries.conf, MCO's with -, the guard's with +:\n%s", diff)
	}
}

func withoutComments(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
}

// sameFiles compares what the guard forecasts by with MCO's files, byte by byte: a rollout
// takes place if one differs.
func (c *comparison) sameFiles() {
	c.Helper()
	ours, err := mirrors.Rendered(c.set)
	if err != nil {
		c.differs("%v", err)
		return
	}
	theirs := withBase(c.mco.Files)
	// MCO's pin of the library writes other empty settings.
	var conf sysregistriesv2.V2RegistriesConf
	if _, generated := c.mco.Files[mirrors.RegistriesConfPath]; generated {
		if _, err := toml.Decode(string(theirs[mirrors.RegistriesConfPath]), &conf); err != nil {
			c.differs("%v", err)
			return
		}
		theirs[mirrors.RegistriesConfPath] = encode(conf)
	}
	if diff := gocmp.Diff(texts(theirs), texts(ours)); diff != "" {
		c.differs("files, MCO's with -, the guard's with +:\n%s", diff)
	}
}

func texts(files map[string][]byte) map[string][]string {
	lines := map[string][]string{}
	for path, data := range files {
		lines[path] = strings.Split(string(data), "\n")
	}
	return lines
}

// sameRoutes compares what the guard makes of the objects with what it makes of the files,
// policy.json among them.
func (c *comparison) sameRoutes(table *mirrors.Table) {
	c.Helper()
	applied, err := mirrors.ResolveApplied(mirrors.Set{Applied: &mirrors.Applied{Files: c.mco.Files}})
	if err != nil {
		c.differs("the guard cannot read MCO's files: %v", err)
		return
	}
	if diff := gocmp.Diff(applied.Config(), table.Config(), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(sysregistriesv2.V2RegistriesConf{})); diff != "" {
		c.differs("the configuration by the files with -, by the objects with +:\n%s", diff)
	}
	if differences := mirrors.PolicyDifferences(table, applied); len(differences) > 0 {
		c.differs("rollout verify would find %+v", differences)
	}
	r := newRandom(c.seed)
	for range 30 {
		image := r.image(c.set)
		ours, err := table.Route(image, "")
		theirs, appliedErr := applied.Route(image, "")
		if (err == nil) != (appliedErr == nil) {
			c.differs("%s: by the files %v, by the objects %v", image, appliedErr, err)
			continue
		}
		if diff := gocmp.Diff(plain(theirs), plain(ours), cmpopts.EquateEmpty(), cmpopts.EquateErrors()); diff != "" {
			c.differs("%s: the route by the files with -, by the objects with +:\n%s", image, diff)
		}
	}
}

// plain leaves out in which words a route says what it says.
func plain(route mirrors.Route) mirrors.Route {
	if route.Refused != "" {
		route.Refused = "refused"
	}
	if route.Err != nil {
		route.Err = cmpopts.AnyError
	}
	return route
}

// bootstrap compares RunImageBootstrap with the running controller. The one difference is
// meant by nobody: it takes the allowed registries twice, so that they can never be those
// one of the release image alone, which is allowed beside blocked ones.
func (c *comparison) bootstrap(b oracle.Files) {
	c.Helper()
	sources := c.set.Registries
	if len(sources.AllowedRegistries) > 0 && len(sources.BlockedRegistries) > 0 {
		return // also where the controller drops them
	}
	if len(c.set.Policies) > 0 && b.Error != "" && c.mco.Error != "" {
		return // MCO goes through them in the order of a map
	}
	if b.Error != c.mco.Error {
		c.differs("RunImageBootstrap says %q, the controller %q", b.Error, c.mco.Error)
	}
	if diff := gocmp.Diff(c.mco.Files, b.Files, cmpopts.EquateEmpty()); diff != "" {
		c.differs("the controller's files with -, those of RunImageBootstrap with +:\n%s", diff)
	}
}
