package inspect

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// TestReleaseCatalog: with a catalog, a release is ready if what the updates of the installed operators need is there, too, and
// without any one part of it not; the part is named, with the operator that needs it.
func TestReleaseCatalog(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	release := len(s.Parts)
	s.PushCatalog(t, 4, 2)
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed)+s.Operators(2)+testrelease.WholeOperators) // op-3 is not installed
	s.Without()
	got := s.check(t, dump, testrelease.Version, "--catalog", testrelease.Catalog)
	wantOutcome(t, got, cli.ExitAdmitted, "READY: Release 4.21.3", "24 of 24 images can be pulled", // 5 of the release, the catalog, 3 operators of 2 bundles of 3 images
		"Catalog "+testrelease.Catalog+", read from "+s.Mirror+"/redhat/redhat-operator-index:v4.21: it has 3 packages that updates install",
		"- op-0 (Subscription ops/op-0): op-0.v1.0.0 -> op-0.v1.1.0 -> op-0.v1.2.0", "- op-2 (ClusterExtension op-2): op-2.v1.0.0 -> op-2.v1.1.0 -> op-2.v1.2.0")
	for _, part := range s.Parts {
		if asked := slices.ContainsFunc(s.Requests(), func(r string) bool { return strings.HasSuffix(r, part.Path) }); strings.HasPrefix(part.Name, "op-3") && asked {
			t.Errorf("%s was asked for, and is not installed", part.Path)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	parts := slices.DeleteFunc(slices.Clone(s.Parts[release:]), func(p testrelease.Part) bool { return strings.HasPrefix(p.Name, "op-3") })
	worlds := []testrelease.Part{s.PartOf("catalog", "image"), s.PartOf("catalog", "layer"), s.PartOf("op-0.v1.1.0", "image"), s.PartOf("op-2.v1.2.0", "layer")}
	for range *releaseWorlds {
		worlds = append(worlds, parts[random.IntN(len(parts))])
	}
	for _, part := range worlds {
		s.Without(part.Path)
		got := s.check(t, dump, testrelease.Version, "--catalog", testrelease.Catalog, "-o", "json")
		doc := decodeRelease(t, got)
		named := slices.ContainsFunc(doc.Images, func(i v1alpha1.ReleaseImage) bool {
			return i.State == "NOT READY" && len(i.Findings) > 0 && (strings.HasSuffix(i.Name, " of "+part.Name) && slices.Equal(i.Operators, []string{part.Name}) || i.Name == "catalog redhat-operator-index" && part.Name == "catalog")
		})
		if got.Code != cli.ExitDenied || doc.Verdict != "NOT READY" || !named || doc.Counts.NotReady != 1 {
			t.Errorf("seed %d: without the %s of %s (%s): exit code %d, %s, %+v", seed, part.What, part.Name, part.Path, got.Code, doc.Verdict, doc.Counts)
		}
	}
}

// TestReleaseCatalogSays: what is said of operators in each format.
func TestReleaseCatalogSays(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.PushCatalog(t, 2, 1)
	objects := s.Objects(s.Signed) + s.Operators(1) + testrelease.WholeOperators
	dump := clitest.Written(t, "dump.yaml", objects)
	part := s.PartOf("op-0.v1.2.0", "image")
	s.Without(part.Path)
	flags := []string{"--catalog", testrelease.Catalog}
	got := s.check(t, dump, testrelease.Version, flags...)
	wantOutcome(t, got, cli.ExitDenied, "NOT READY: Release 4.21.3", "after  bundle of op-0.v1.2.0  NOT READY", "   Needed by op-0.v1.2.0",
		"mirrorset-guard sync --release 4.21.3 --catalog "+testrelease.Catalog, "check --release 4.21.3 --catalog "+testrelease.Catalog+" --from "+dump+" --plan sh --missing > copy.sh && sh copy.sh")
	plan := s.check(t, dump, testrelease.Version, append(flags, "--plan", "sh", "--missing")...)
	wantOutcome(t, plan, cli.ExitTrouble, "whether "+testrelease.OperatorsSource+"/op-0@", "docker://"+testrelease.OperatorsSource+"/op-0@")
	file := filepath.Join(t.TempDir(), "release.html")
	doc := decodeRelease(t, s.check(t, dump, testrelease.Version, append(flags, "-o", "json", "-o", "html="+file)...))
	if len(doc.Catalogs) != 1 || len(doc.Catalogs[0].Packages) != 2 || !slices.Equal(doc.Catalogs[0].Packages[0].Bundles, []string{"op-0.v1.1.0", "op-0.v1.2.0"}) || doc.Catalogs[0].Packages[0].Installed != "op-0.v1.0.0" {
		t.Errorf("got %+v", doc.Catalogs)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, clitest.Outcome{Code: cli.ExitDenied, Out: string(page)}, cli.ExitDenied, "after, for op-0.v1.2.0", "bundle of op-0.v1.2.0", "Operators, by catalog", "<b>op-0</b> (Subscription ops/op-0): op-0.v1.0.0 → op-0.v1.1.0 → op-0.v1.2.0")
	markdown := s.check(t, dump, testrelease.Version, append(flags, "-o", "markdown")...)
	wantOutcome(t, markdown, cli.ExitDenied, "\nCatalog "+testrelease.Catalog+", read from", "\n\n- op-0 (Subscription ops/op-0): op-0.v1.0.0 -&gt; op-0.v1.1.0 -&gt; op-0.v1.2.0\n")
	type junitCase struct {
		Class   string `xml:"classname,attr"`
		Output  string `xml:"system-out"`
		Failure *struct {
			Text string `xml:",chardata"`
		} `xml:"failure"`
	}
	var suite struct {
		Cases []junitCase `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(s.check(t, dump, testrelease.Version, append(flags, "-o", "junit")...).Out), &suite); err != nil {
		t.Fatal(err)
	}
	operators, failed := 0, ""
	if !slices.ContainsFunc(suite.Cases, func(c junitCase) bool {
		return c.Class == "catalog" && c.Failure == nil && strings.Contains(c.Output, "op-0.v1.0.0 -> op-0.v1.1.0")
	}) {
		t.Errorf("no case for the catalog in %+v", suite)
	}
	for _, c := range suite.Cases {
		if c.Class == "operator" {
			operators++
			if c.Failure != nil {
				failed += c.Failure.Text
			}
		}
	}
	if operators != 9 || !strings.Contains(failed, "needed by op-0.v1.2.0") {
		t.Errorf("%d cases of operators, failed: %s", operators, failed)
	}
	s.Without()
	const stops = "how the package op-0 (Subscription ops/op-0) gets to op-0.v1.2.0: no update leads there from op-0.v0.1.0, and OLM would not get there by itself"
	stopped := clitest.Written(t, "stopped.yaml", strings.Replace(objects, "installedCSV: op-0.v1.0.0", "installedCSV: op-0.v0.1.0", 1))
	for _, format := range []string{"json", "yaml", "markdown", "junit", "html"} {
		got := s.check(t, stopped, testrelease.Version, append(flags, "-o", format)...)
		got.Out = strings.Join(strings.Fields(got.Out), " ") // YAML folds lines
		wantOutcome(t, got, cli.ExitAdmitted, stops)
	}
	for _, tt := range []struct {
		reason, old, by string
		code            int
		want            []string
	}{
		{"the catalog of a package was not given", "image: \"registry.redhat.io/redhat/redhat-operator-index:v4.20\"", "image: \"registry.redhat.io/redhat/certified-operator-index:v4.20\"", cli.ExitAdmitted, []string{"Not checked:", "- the package op-0 (Subscription ops/op-0), whose catalog was not given: it comes from registry.redhat.io/redhat/certified-operator-index:v4.20"}},
		{"a package that is no more", "spec: {name: op-0,", "spec: {name: gone,", cli.ExitAdmitted, []string{"the package gone (Subscription ops/op-0), which is in none of the catalogs given: OLM would not update it"}},
		{"a channel that is no more", "channel: stable,", "channel: old,", cli.ExitTrouble, []string{"UNKNOWN: which images the update of the package op-0 needs is not known (Subscription ops/op-0)", `it has no channel "old" (it has stable)`}},
		{"an installed bundle from elsewhere", "installedCSV: op-0.v1.0.0", "installedCSV: op-0.v0.1.0", cli.ExitAdmitted, []string{"op-0.v0.1.0 -> op-0.v1.2.0 (no update leads to the last one from the one before)", "- " + stops}},
		{"a range as OLM v1 reads it", "channels: [stable]}", `channels: [stable], version: "~1.1"}`, cli.ExitAdmitted, []string{"- op-1 (ClusterExtension op-1): op-1.v1.0.0 -> op-1.v1.1.0\n"}},
		{"a range that is none", "channels: [stable]}", `channels: [stable], version: soon}`, cli.ExitTrouble, []string{`the range of versions "soon" cannot be read`}},
		{"one of the channels is no more", "channels: [stable]}", "channels: [old, stable]}", cli.ExitAdmitted, []string{"- op-1 (ClusterExtension op-1): op-1.v1.0.0 -> op-1.v1.1.0 -> op-1.v1.2.0"}},
		{"updates that an administrator certifies", "channels: [stable]}", "channels: [stable], upgradeConstraintPolicy: SelfCertified}", cli.ExitAdmitted, []string{"- op-1 (ClusterExtension op-1): op-1.v1.0.0 -> op-1.v1.2.0"}},
		{"a package of which it is not known where it comes from", "packageName: op-1,", "packageName: gone,", cli.ExitTrouble, []string{"UNKNOWN: the package gone (ClusterExtension op-1) is in none of the catalogs given, and it is not known from which it comes"}},
		{"a CatalogSource by address", "sourceType: grpc, image: \"registry.redhat.io/redhat/redhat-operator-index:v4.20\"", "sourceType: grpc, address: 10.0.0.1", cli.ExitAdmitted, []string{"- op-0 (Subscription ops/op-0): op-0.v1.0.0 -> op-0.v1.1.0 -> op-0.v1.2.0"}},
		{"nothing is installed yet", "status: {installedCSV: op-0.v1.0.0}", "status: {}", cli.ExitAdmitted, []string{"- op-0 (Subscription ops/op-0): op-0.v1.2.0"}},
		{"the bundle to begin with", "channel: stable, source: redhat-operators, sourceNamespace: openshift-marketplace}\nstatus: {installedCSV: op-0.v1.0.0}", "startingCSV: op-0.v1.1.0, source: redhat-operators, sourceNamespace: openshift-marketplace}", cli.ExitAdmitted, []string{"- op-0 (Subscription ops/op-0): op-0.v1.1.0 -> op-0.v1.2.0"}},
	} {
		got := s.check(t, clitest.Written(t, "other.yaml", strings.Replace(objects, tt.old, tt.by, 1)), testrelease.Version, flags...)
		t.Log(tt.reason)
		wantOutcome(t, got, tt.code, tt.want...)
	}
	s.Without(s.PartOf("catalog", "layer").Path)
	wantOutcome(t, s.check(t, dump, testrelease.Version, flags...), cli.ExitDenied, "catalog redhat-operator-index  NOT READY", "UNKNOWN: what the catalog "+testrelease.Catalog+" has is not known")
}

// TestReleaseCatalogDependencies: what an update newly depends on is judged, or said not to be.
func TestReleaseCatalogDependencies(t *testing.T) {
	requires := func(what, versions string) []any {
		return []any{map[string]any{"type": "olm.package.required", "value": map[string]string{"packageName": what, "versionRange": versions}}}
	}
	kind := func(property string) map[string]any {
		return map[string]any{"type": property, "value": map[string]string{"group": "x.io", "version": "v1", "kind": "X"}}
	}
	for _, tt := range []struct {
		reason     string
		properties map[string][]any
		without    string // a bundle
		namespace  string // of op-1, if it is not that of op-0
		code       int
		want       []string
	}{
		{
			"a package that is not installed",
			map[string][]any{"op-0.v1.1.0": requires("op-3", "<1.2.0")},
			"", "",
			cli.ExitAdmitted,
			[]string{"20 of 20 images", "- op-3 (Subscription ops/op-0, whose bundle op-0.v1.1.0 requires it): op-3.v1.1.0"},
		},
		{"its images are missing", map[string][]any{"op-0.v1.1.0": requires("op-3", ">=1.0.0")}, "op-3.v1.2.0", "", cli.ExitDenied, []string{"bundle of op-3.v1.2.0  NOT READY"}},
		{
			"one that requires another",
			map[string][]any{"op-0.v1.2.0": requires("op-3", ">=1.0.0"), "op-3.v1.2.0": requires("op-4", ">=1.0.0")},
			"op-4.v1.2.0", "",
			cli.ExitDenied,
			[]string{"bundle of op-4.v1.2.0  NOT READY", "op-4 (Subscription ops/op-0, whose bundle op-0.v1.2.0 requires it, whose bundle op-3.v1.2.0 requires it)"},
		},
		{"each other", map[string][]any{"op-0.v1.2.0": requires("op-3", ">=1.0.0"), "op-3.v1.2.0": requires("op-0", ">=1.0.0")}, "", "", cli.ExitAdmitted, nil},
		{"an installed package", map[string][]any{"op-0.v1.1.0": requires("op-1", ">=1.0.0")}, "", "", cli.ExitAdmitted, []string{"18 of 18 images"}},
		{
			"one that is installed elsewhere, where OLM does not look",
			map[string][]any{"op-0.v1.1.0": requires("op-1", "<1.1.0")},
			"", "other",
			cli.ExitDenied,
			[]string{"bundle of op-1.v1.0.0  NOT READY"}, // which is not mirrored
		},
		{"what the installed bundle requires, too", map[string][]any{"op-0.v1.0.0": requires("gone", ">=1.0.0"), "op-0.v1.1.0": requires("gone", ">=1.0.0")}, "", "", cli.ExitAdmitted, nil},
		{
			"a package that the catalog does not have",
			map[string][]any{"op-0.v1.1.0": requires("gone", ">=1.0.0")},
			"", "",
			cli.ExitTrouble,
			[]string{"UNKNOWN: which images the update of the package op-0 needs is not known (Subscription ops/op-0)", "its bundle op-0.v1.1.0 requires the package gone >=1.0.0, which is not installed, and not in this catalog: the images for that were not judged"},
		},
		{"a version that it does not have", map[string][]any{"op-0.v1.1.0": requires("op-3", ">=2.0.0")}, "", "", cli.ExitTrouble, []string{`none of its bundles has a version in ">=2.0.0"`}},
		{
			"two versions",
			map[string][]any{"op-0.v1.1.0": requires("op-3", "<1.2.0"), "op-1.v1.1.0": requires("op-3", ">=1.2.0")},
			"", "",
			cli.ExitTrouble,
			[]string{"and another bundle requires op-3.v1.1.0 of it"},
		},
		{"a kind of an installed operator", map[string][]any{"op-0.v1.1.0": {kind("olm.gvk.required")}, "op-1.v1.0.0": {kind("olm.gvk")}}, "", "", cli.ExitAdmitted, nil},
		{"a kind of one that another requirement brings", map[string][]any{"op-0.v1.1.0": append(requires("op-3", ">=1.0.0"), kind("olm.gvk.required")), "op-3.v1.2.0": {kind("olm.gvk")}}, "", "", cli.ExitAdmitted, nil},
		{"a kind of its own", map[string][]any{"op-0.v1.1.0": {kind("olm.gvk.required"), kind("olm.gvk")}}, "", "", cli.ExitAdmitted, nil},
		{
			"a kind of one that is not installed",
			map[string][]any{"op-0.v1.1.0": {kind("olm.gvk.required")}, "op-3.v1.0.0": {kind("olm.gvk")}},
			"", "",
			cli.ExitTrouble,
			[]string{"its bundle op-0.v1.1.0 requires X of x.io/v1, and it is not known which operator provides it: the images for that were not judged"},
		},
		{
			"a kind of an operator elsewhere",
			map[string][]any{"op-0.v1.1.0": {kind("olm.gvk.required")}, "op-1.v1.0.0": {kind("olm.gvk")}},
			"", "other",
			cli.ExitTrouble,
			[]string{"and it is not known which operator provides it"},
		},
		{
			"a kind of an operator of OLM v1, which OLM does not look at",
			map[string][]any{"op-0.v1.1.0": {kind("olm.gvk.required")}, "op-2.v1.1.0": {kind("olm.gvk")}},
			"", "",
			cli.ExitTrouble,
			[]string{"and it is not known which operator provides it"},
		},
		{
			"a constraint of which it is not known what it asks for",
			map[string][]any{"op-0.v1.1.0": {map[string]any{"type": "olm.constraint", "value": map[string]any{"cel": map[string]string{"rule": "true"}}}}},
			"", "",
			cli.ExitTrouble,
			[]string{`requires what is not understood here: olm.constraint {"cel":{"rule":"true"}}, what OLM would install for it is not known`},
		},
		{
			"a dependency of an operator of OLM v1",
			map[string][]any{"op-2.v1.1.0": requires("op-1", ">=1.0.0")},
			"", "",
			cli.ExitTrouble,
			[]string{"(ClusterExtension op-2)", "its bundle op-2.v1.1.0 requires the package op-1 >=1.0.0, and OLM v1 installs no bundle that requires others"},
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			s := releaseStage{testrelease.Mirrored(t, 4)}
			s.Properties = tt.properties
			s.PushCatalog(t, 5, 1)
			s.Without()
			if tt.without != "" {
				s.Without(s.PartOf(tt.without, "image").Path)
			}
			objects := s.Objects(s.Signed) + s.Operators(2) + testrelease.WholeOperators
			if tt.namespace != "" {
				objects = strings.Replace(objects, "metadata: {name: op-1, namespace: ops}", "metadata: {name: op-1, namespace: "+tt.namespace+"}", 1)
			}
			wantOutcome(t, s.check(t, clitest.Written(t, "dump.yaml", objects), testrelease.Version, "--catalog", testrelease.Catalog), tt.code, tt.want...)
		})
	}
}

// TestReleaseCatalogBad: what is no catalog, or no question.
func TestReleaseCatalogBad(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.PushCatalog(t, 1, 1)
	s.Without()
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed)+s.Operators(0)+testrelease.WholeOperators)
	bare := clitest.Written(t, "bare.yaml", s.Objects(s.Signed))
	some := clitest.Written(t, "some.yaml", s.Objects(s.Signed)+s.Operators(0))
	wantOutcome(t, s.check(t, some, testrelease.Version, "--catalog", testrelease.Catalog), cli.ExitTrouble,
		"UNKNOWN: which operators are installed is not known", "the dump does not say that it has all Subscriptions and ClusterExtensions, as one by mirrorset-guard snapshot does")
	for format, title := range map[string]string{"html": "<b>The catalogs of operators</b>", "junit": `name="the catalogs of operators"><failure`, "json": `"about": "the catalogs of operators"`} {
		got := s.check(t, some, testrelease.Version, "--catalog", testrelease.Catalog, "-o", format)
		got.Out = strings.NewReplacer("\n", "", "    ", "").Replace(got.Out)
		wantOutcome(t, got, cli.ExitTrouble, title)
		if strings.Contains(got.Out, "<b>The configuration</b>") {
			t.Errorf("catalogs are called the configuration:\n%s", got.Out)
		}
	}
	wantOutcome(t, s.check(t, bare, testrelease.Version, "--catalog", s.Mirror+"/redhat/redhat-operator-index:v4.21"), cli.ExitTrouble,
		"UNKNOWN: which operators are installed is not known", "the dump has no Subscription and no ClusterExtension")
	wantOutcome(t, s.check(t, dump, testrelease.Version, "--catalog", testrelease.Source+"@"+s.Digest), cli.ExitTrouble,
		"UNKNOWN: what the catalog "+testrelease.Source+"@"+s.Digest+" has is not known", "it is no file-based catalog that can be read: it has no label")
	wantOutcome(t, s.check(t, dump, testrelease.Version, "--catalog", testrelease.Source+"@"+s.Digest, "--plan", "sh", "--missing"), cli.ExitTrouble,
		"# Not determined: what the catalog "+testrelease.Source+"@"+s.Digest+" has is not known: ", "--plan: not all could be determined")
	for _, tt := range []struct {
		want string
		args []string
	}{
		{`--catalog "redhat": it is no reference of an image`, []string{"--catalog", "redhat"}},
		{"--ack and --pin are about the release alone", []string{"--catalog", testrelease.Catalog, "--pin"}},
		{"--ack and --pin are about the release alone", []string{"--catalog", testrelease.Catalog, "--ack"}},
		{"--catalog: 21 catalogs, want no more than 20", many(21)},
	} {
		wantOutcome(t, s.check(t, dump, testrelease.Version, tt.args...), cli.ExitTrouble, tt.want)
	}
	wantOutcome(t, invoke(t, "", "check", "--catalog", testrelease.Catalog, "--from", dump), cli.ExitTrouble, "--catalog: only with --release")
}

func many(n int) []string {
	var args []string
	for i := range n {
		args = append(args, "--catalog", fmt.Sprintf("%s-%d:v4.21", testrelease.CatalogSource, i))
	}
	return args
}

// TestReleaseCatalogBeside: a catalog that does not come does not keep from the images of the release what time there is, nor from other catalogs.
func TestReleaseCatalogBeside(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 8)}
	parts := slices.Clone(s.Parts)
	digest := s.PushCatalog(t, 1, 1)
	layer := s.PartOf("catalog", "layer").Path
	s.Without()
	s.Hold(layer, func(waiting int, asked []string) bool {
		return waiting == 2 && !slices.ContainsFunc(parts, func(p testrelease.Part) bool {
			return !slices.ContainsFunc(asked, func(r string) bool { return strings.HasSuffix(r, p.Path) })
		})
	})
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed)+s.Operators(0)+testrelease.WholeOperators)
	got := s.check(t, dump, testrelease.Version, "--timeout", "2m", "--catalog", testrelease.Catalog, "--catalog", s.Mirror+"/redhat/redhat-operator-index@"+digest)
	wantOutcome(t, got, cli.ExitAdmitted, "READY: Release 4.21.3", "Catalog "+testrelease.Catalog+", read from", "Catalog "+s.Mirror+"/redhat/redhat-operator-index@"+digest+", read from")
}

// TestReleaseCatalogTooMany: more packages than are looked up are not taken to be ready.
func TestReleaseCatalogTooMany(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.PushCatalog(t, 1, 1)
	s.Without()
	got := s.check(t, clitest.Written(t, "dump.yaml", s.Objects(s.Signed)+s.Operators(1_001)+testrelease.WholeOperators), testrelease.Version, "--catalog", testrelease.Catalog)
	wantOutcome(t, got, cli.ExitTrouble, "UNKNOWN: Release 4.21.3", "UNKNOWN: 1,002 packages are installed, and only the first 1,000 were looked at")
}

// TestReleaseCatalogMany: 2,000 images of operators that are missing are judged, counted, and told about in a few.
func TestReleaseCatalogMany(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Absent = true
	s.PushCatalog(t, 20, 49) // 20 packages of 2 bundles of 50 images
	s.Without()
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed)+s.Operators(19)+testrelease.WholeOperators)
	got := s.check(t, dump, testrelease.Version, "--catalog", testrelease.Catalog)
	wantOutcome(t, got, cli.ExitDenied, "6 of 2,006 images can be pulled by all nodes that need them, 2,000 cannot.", "and 1,980 more: -o json has all.")
}

// readsSome is a user who may read all but ClusterExtensions.
const readsSome = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-some}
rules:
- apiGroups: ["", apps, batch, policy, config.openshift.io, image.openshift.io, machineconfiguration.openshift.io, operator.openshift.io, operators.coreos.com]
  resources: ["*"]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-some}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-some}
subjects: [{kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}]
`

// TestReleaseCatalogDoors: a live cluster and a snapshot of it give the same answer, also where not all operators that are installed can be read.
func TestReleaseCatalogDoors(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.PushCatalog(t, 2, 1)
	c := clitest.NewCluster(t)
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := c.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	define := func(definitions string) {
		t.Helper()
		c.Apply(t, definitions)
		kubectl("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s")
	}
	define(testrelease.OperatorCRDs)
	apply(t, c, s.Objects(s.Signed)+s.Operators(1))
	c.Apply(t, readsSome)
	ann := c.KubeconfigAs(t, "ann")
	secret := clitest.Written(t, "pull.json", "{}")
	asks := func(kubeconfig string) (clitest.Outcome, v1alpha1.ReleaseReview) {
		t.Helper()
		live := invoke(t, "", "check", "--release", "next", "--catalog", testrelease.Catalog, "--kubeconfig", kubeconfig, "--allow-loopback", "--pull-secret", secret, "-o", "json")
		file := filepath.Join(t.TempDir(), "cluster.json")
		if got := invoke(t, "", "snapshot", "--kubeconfig", kubeconfig, "-f", file); got.Code != 0 {
			t.Fatal(got.Err)
		}
		got := s.check(t, file, "next", "--catalog", testrelease.Catalog, "-o", "json", "--pull-secret", secret)
		if got.Code != live.Code || same(t, got) != same(t, live) {
			t.Errorf("by the snapshot, %d:\n%s\nlive, %d:\n%s", got.Code, same(t, got), live.Code, same(t, live))
		}
		return live, decodeRelease(t, live)
	}
	s.Without(s.PartOf("op-1.v1.1.0", "layer").Path)
	if live, doc := asks(c.Kubeconfig); live.Code != cli.ExitDenied || doc.Counts.Images != 5+1+8 || doc.Counts.NotReady != 1 {
		t.Fatalf("got %d, %s%s", live.Code, live.Out, live.Err)
	}
	s.Without()
	unknown := func(kubeconfig, why string) {
		t.Helper()
		live, doc := asks(kubeconfig)
		if problems := doc.Problems; live.Code != cli.ExitTrouble || len(problems) != 1 || problems[0].Reason != "which operators are installed is not known" || !slices.Equal(problems[0].Detail, []string{why}) {
			t.Errorf("got %d, %+v\n%s", live.Code, problems, live.Err)
		}
	}
	unknown(ann, "ClusterExtensions were not read, as the user may not")
	kubectl("delete", "customresourcedefinitions", "clusterextensions.olm.operatorframework.io")
	none := func(kubeconfig string, packages int) {
		t.Helper()
		if live, doc := asks(kubeconfig); live.Code != cli.ExitAdmitted || len(doc.Catalogs) != 1 || len(doc.Catalogs[0].Packages) != packages {
			t.Errorf("got %d, %+v %+v\n%s", live.Code, doc.Problems, doc.Catalogs, live.Err)
		}
	}
	none(ann, 1) // there are no ClusterExtensions that she could not read
	define(strings.ReplaceAll(testrelease.OperatorCRDs[strings.LastIndex(testrelease.OperatorCRDs, "---\n"):], "versions: [{name: v1,", "versions: [{name: v1alpha1,"))
	unknown(c.Kubeconfig, "ClusterExtensions were not read, as they are not served as v1, but as v1alpha1")
	kubectl("delete", "customresourcedefinitions", "clusterextensions.olm.operatorframework.io", "subscriptions.operators.coreos.com")
	none(c.Kubeconfig, 0)
}
