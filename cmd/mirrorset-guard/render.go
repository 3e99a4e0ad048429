package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// renderOptions are the choices of the command render.
type renderOptions struct {
	world  world
	change change
	output output
}

func newRender() *cobra.Command {
	o := renderOptions{output: output{format: "toml", formats: []string{"toml", "diff", "json", "yaml"}}}
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the registries.conf that nodes get, before and after a change",
		Long: `render prints the registries.conf that the Machine Config Operator makes of the
mirror objects: of those in force, or with -f, of those after the change. -o diff
prints what the change does to it.

On standard error it says whether the Machine Config Operator has applied the
objects in force, by what MachineConfig ` + generatedRegistries + `
holds. A difference means that it is still at work, or stuck.

Exit code 0: rendered. 2: the Machine Config Operator would reject the objects, or
used wrongly.`,
		Example: `  mirrorset-guard render
  mirrorset-guard render -f itms.yaml -o diff
  mirrorset-guard render --from must-gather/ -f itms.yaml --delete -o diff`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), streamsOf(cmd))
		},
	}
	o.world.addFlags(cmd.Flags())
	o.change.addFlags(cmd.Flags())
	o.output.addFlags(cmd.Flags())
	return cmd
}

func (o *renderOptions) run(ctx context.Context, io streams) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	edit, err := o.change.readOptional(io)
	if err != nil {
		return err
	}
	configs, io := o.machineConfigs(io)
	w, err := o.world.openMirrors(ctx, io)
	if err != nil {
		return err
	}
	defer w.close()
	set, err := w.inventory.Mirrors(ctx)
	if err != nil {
		return err
	}
	r, err := newRendering(set, edit(set), o.needsBefore())
	if err != nil {
		return err
	}
	r.MachineConfig = r.compare(ctx, set, configs)
	return o.print(io, r)
}

// needsBefore reports whether the configuration in force is printed. Where it is
// not, a change that repairs an invalid one can be rendered.
func (o *renderOptions) needsBefore() bool {
	return len(o.change.files) == 0 || o.output.format != "toml"
}

func (o *renderOptions) print(to streams, r *rendering) error {
	var err error
	switch o.output.format {
	case "toml":
		_, err = io.WriteString(to.out, r.After)
	case "diff":
		_, err = io.WriteString(to.out, r.Diff)
	default:
		return o.output.write(to.out, r) // MachineConfig is in it
	}
	fmt.Fprint(to.err, r.MachineConfig.text())
	return err
}

// A rendering is registries.conf before and after a change (kind Rendering).
type rendering struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Before and After are TOML. They are equal without a change.
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is the unified diff of the two, "" if they are equal.
	Diff string `json:"diff"`
	// MachineConfig compares the objects in force with what nodes are given.
	MachineConfig comparison `json:"machineConfig"`

	inForce  *mirrors.Table // nil if rejected
	rejected error
}

// newRendering renders both sides. A rejection of the first one is an error only
// if it is needed.
func newRendering(before, after mirrors.Set, needsBefore bool) (*rendering, error) {
	r := &rendering{APIVersion: review.APIVersion, Kind: "Rendering"}
	was, err := newSide(before, "in force")
	if err != nil && needsBefore {
		return nil, err
	}
	r.inForce, r.rejected = was.table, err
	is, err := newSide(after, "after the change")
	if err != nil {
		return nil, err
	}
	if r.After, err = is.registriesConf(); err != nil {
		return nil, err
	}
	if r.rejected != nil {
		return r, nil
	}
	if r.Before, err = was.registriesConf(); err != nil {
		return nil, err
	}
	r.Diff, err = difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: splitLines(r.Before), FromFile: "registries.conf in force",
		B: splitLines(r.After), ToFile: "registries.conf after the change",
		Context: 3,
	})
	return r, err
}

// splitLines keeps the line feeds, and unlike difflib's function of that name
// makes no line of the nothing after the last one.
func splitLines(text string) []string { return slices.Collect(strings.Lines(text)) }

// registriesConf returns the file that MCO writes, encoded by the same library
// from the same type. MCO's order of the entries, which means nothing to a node,
// comes from the lists it goes through; here they are sorted by scope, so that a
// diff shows what has changed.
func (s side) registriesConf() (string, error) {
	conf := s.table.Config()
	conf.Registries = slices.Clone(conf.Registries)
	for i := range conf.Registries {
		if r := &conf.Registries[i]; r.Prefix == r.Location {
			r.Prefix = "" // as the generator has it; reading the file fills it in
		}
	}
	var b bytes.Buffer
	if len(s.set.Registries.ContainerRuntimeSearchRegistries) > 0 {
		b.WriteString("# On nodes, this list of search registries stands in\n# " + searchDropIn + ".\n")
	}
	if err := toml.NewEncoder(&b).Encode(conf); err != nil {
		return "", fmt.Errorf("encoding registries.conf: %w", err)
	}
	return b.String(), nil
}

// The names that MCO gives (pkg/controller/container-runtime-config/helpers.go).
// All pools have the same registries.conf, so that one is enough to look at.
const (
	generatedRegistries = "99-worker-generated-registries"
	registriesPath      = "/etc/containers/registries.conf"
	searchDropIn        = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf"
)

// A comparison says whether MCO has applied the objects in force.
type comparison struct {
	Name  string `json:"name"`
	State string `json:"state"` // one of those below
	// Detail is why the state is not known, "" otherwise.
	Detail string `json:"detail"`
	// Differences are the entries that differ, sorted by scope.
	Differences []difference `json:"differences"`

	hint string
}

// The states of a comparison.
const (
	stateApplied  = "applied"  // the MachineConfig says what the objects say
	stateDiffers  = "differs"  // it says something else
	stateRejected = "rejected" // MCO rejects the objects and applies nothing; where JSON is asked for, that is an error
	stateUnknown  = "unknown"  // it was not found or could not be read
)

// A difference is one entry of registries.conf, in words, "" where it is missing.
type difference struct {
	Scope         string `json:"scope"` // or "unqualified-search-registries"
	Objects       string `json:"objects"`
	MachineConfig string `json:"machineConfig"`
}

func (r *rendering) compare(ctx context.Context, set mirrors.Set, configs machineConfigSource) comparison {
	c := comparison{Name: generatedRegistries, Differences: []difference{}}
	if r.rejected != nil {
		c.State, c.Detail = stateRejected, r.rejected.Error()
		return c
	}
	applied, err := readApplied(ctx, configs)
	if err != nil {
		c.State, c.Detail = stateUnknown, err.Error()
		return c
	}
	c.Differences = differences(r.inForce.Config(), applied)
	c.State = stateApplied
	if len(c.Differences) > 0 {
		c.State, c.hint = stateDiffers, payloadHint(set, c.Differences)
	}
	return c
}

// text tells the comparison to a person.
func (c comparison) text() string {
	switch c.State {
	case stateApplied:
		return fmt.Sprintf("MachineConfig %s says what the objects in force say: the Machine Config Operator has applied them.\n", c.Name)
	case stateRejected:
		return fmt.Sprintf("The Machine Config Operator is stuck, and will stay so until the objects are repaired.\n%s\n", c.Detail)
	case stateUnknown:
		return fmt.Sprintf("Whether the Machine Config Operator has applied the objects in force is not known: %s.\n", c.Detail)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MachineConfig %s is not what the objects in force say:\n", c.Name)
	for i, d := range c.Differences {
		if i == maxDifferences {
			fmt.Fprintf(&b, "- and %d more\n", len(c.Differences)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n    objects:       %s\n    MachineConfig: %s\n", d.Scope, orNone(d.Objects), orNone(d.MachineConfig))
	}
	b.WriteString(c.hint + `The Machine Config Operator is still at work, or stuck. Nodes keep what the
MachineConfig says. To find out why:
  oc -n openshift-machine-config-operator logs deploy/machine-config-controller
`)
	return b.String()
}

// maxDifferences keeps the advice below them on the screen.
const maxDifferences = 6

func orNone(text string) string {
	if text == "" {
		return "(no entry)"
	}
	return text
}

// payloadHint explains a difference that is meant: MCO leaves out of
// blockedRegistries what would block the release image, if that has no mirror
// (getValidBlockedAndAllowedRegistries).
func payloadHint(set mirrors.Set, all []difference) string {
	for _, d := range all {
		if slices.ContainsFunc(set.Registries.BlockedRegistries, func(listed string) bool { return sameScope(listed, d.Scope) }) &&
			strings.HasPrefix(d.Objects, "blocked") && !strings.HasPrefix(d.MachineConfig, "blocked") {
			return "A blocked registry that holds the release image and has no mirror is left out on purpose.\n"
		}
	}
	return ""
}

// differences compares two files entry by entry, in the form the runtime gives
// them when it reads them.
func differences(objects, applied sysregistriesv2.V2RegistriesConf) []difference {
	all := []difference{}
	was, is := entriesByScope(objects), entriesByScope(applied)
	for _, scope := range slices.Sorted(maps.Keys(union(was, is))) {
		if was[scope] != is[scope] {
			all = append(all, difference{scope, was[scope], is[scope]})
		}
	}
	const search = "unqualified-search-registries"
	if o, m := objects.UnqualifiedSearchRegistries, applied.UnqualifiedSearchRegistries; !slices.Equal(o, m) {
		all = append(all, difference{search, strings.Join(o, ", "), strings.Join(m, ", ")})
	}
	return all
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// entriesByScope puts each entry into words that are equal if and only if a node
// does the same.
func entriesByScope(conf sysregistriesv2.V2RegistriesConf) map[string]string {
	entries := map[string]string{}
	for _, r := range conf.Registries {
		scope := strings.TrimRight(r.Prefix, "/")
		if scope == "" {
			scope = strings.TrimRight(r.Location, "/")
		}
		entries[scope] = entryInWords(scope, r)
	}
	return entries
}

func entryInWords(scope string, r sysregistriesv2.Registry) string {
	var words []string
	if r.Blocked {
		words = append(words, "blocked")
	}
	if r.Insecure {
		words = append(words, "insecure")
	}
	if location := strings.TrimRight(r.Location, "/"); location != "" && location != scope {
		words = append(words, "location "+location)
	}
	for _, m := range r.Mirrors {
		words = append(words, mirrorInWords(m, r.MirrorByDigestOnly))
	}
	if len(words) == 0 {
		return "no setting"
	}
	return strings.Join(words, ", ")
}

// mirrorInWords takes MCO's old way to say that all mirrors of an entry are for
// digests for the new one.
func mirrorInWords(m sysregistriesv2.Endpoint, digestOnly bool) string {
	kind := "all pulls"
	switch {
	case digestOnly || m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly:
		kind = "digests"
	case m.PullFromMirror == sysregistriesv2.MirrorByTagOnly:
		kind = "tags"
	}
	if m.Insecure {
		kind += ", insecure"
	}
	return fmt.Sprintf("mirror %s (%s)", strings.TrimRight(m.Location, "/"), kind)
}

// A machineConfigSource returns a MachineConfig as JSON or YAML, or why it
// cannot.
type machineConfigSource func(ctx context.Context, name string) ([]byte, error)

// readApplied returns what nodes are given.
func readApplied(ctx context.Context, configs machineConfigSource) (sysregistriesv2.V2RegistriesConf, error) {
	var conf sysregistriesv2.V2RegistriesConf
	data, err := configs(ctx, generatedRegistries)
	if err != nil {
		return conf, err
	}
	var mc machineConfig
	if err := yaml.Unmarshal(data, &mc); err != nil {
		return conf, fmt.Errorf("reading MachineConfig %s: %w", generatedRegistries, err)
	}
	if conf, err = mc.registries(); err != nil {
		return conf, fmt.Errorf("reading MachineConfig %s: %w", generatedRegistries, err)
	}
	return conf, nil
}

// machineConfig is what is wanted of a MachineConfig: the files in its Ignition
// configuration, of which versions 2 and 3 have these fields alike.
type machineConfig struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Config struct {
			Storage struct {
				Files []ignitionFile `json:"files"`
			} `json:"storage"`
		} `json:"config"`
	} `json:"spec"`
}

type ignitionFile struct {
	Path     string `json:"path"`
	Contents struct {
		Source      string `json:"source"`
		Compression string `json:"compression"`
	} `json:"contents"`
}

// registries returns the configuration that mc gives to nodes. Without objects,
// MCO writes no registries.conf and the one that comes with the system holds.
func (mc machineConfig) registries() (sysregistriesv2.V2RegistriesConf, error) {
	none, err := mirrors.Resolve(mirrors.Set{})
	if err != nil {
		return sysregistriesv2.V2RegistriesConf{}, err
	}
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: none.Config().UnqualifiedSearchRegistries}
	if err := mc.decode(registriesPath, &conf); err != nil {
		return conf, err
	}
	search := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: conf.UnqualifiedSearchRegistries}
	err = mc.decode(searchDropIn, &search)
	conf.UnqualifiedSearchRegistries = search.UnqualifiedSearchRegistries // which the runtime reads last
	return conf, err
}

// decode reads a file of mc, if there is one of this name, over conf.
func (mc machineConfig) decode(name string, conf *sysregistriesv2.V2RegistriesConf) error {
	for _, f := range mc.Spec.Config.Storage.Files {
		if f.Path != name {
			continue
		}
		text, err := f.text()
		if err == nil {
			_, err = toml.Decode(string(text), conf)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// text returns the content of a file, which Ignition has as a data URL (RFC
// 2397).
func (f ignitionFile) text() ([]byte, error) {
	rest, ok := strings.CutPrefix(f.Contents.Source, "data:")
	meta, data, found := strings.Cut(rest, ",")
	if !ok || !found {
		return nil, errors.New("its contents are not a data URL")
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		return nil, err
	}
	content := []byte(plain)
	if strings.HasSuffix(meta, ";base64") {
		if content, err = base64.StdEncoding.DecodeString(plain); err != nil {
			return nil, err
		}
	}
	switch f.Contents.Compression {
	case "":
		return content, nil
	case "gzip":
		return unzip(content)
	default:
		return nil, fmt.Errorf("its compression %q is not known", f.Contents.Compression)
	}
}

// maxUnzipped is many times what a MachineConfig may hold (1,572,864 bytes).
const maxUnzipped = 64 << 20

func unzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnzipped+1))
	if len(text) > maxUnzipped {
		return nil, fmt.Errorf("larger than %d MiB", maxUnzipped>>20)
	}
	return text, err
}

// machineConfigs returns where MachineConfigs come from, and the streams for who
// reads the rest of the world: a dump on standard input can be read only once.
func (o *renderOptions) machineConfigs(from streams) (machineConfigSource, streams) {
	switch o.world.from {
	case "":
		return o.world.cluster.machineConfig, from
	case "-":
		var seen bytes.Buffer
		from.in = io.TeeReader(from.in, &seen)
		return inDump(func(name string) ([]byte, error) { return machineConfigIn(&seen, name) }), from
	default:
		return inDump(func(name string) ([]byte, error) { return machineConfigBelow(o.world.from, name) }), from
	}
}

// inDump is a source that finds nil where there is nothing.
func inDump(find func(name string) ([]byte, error)) machineConfigSource {
	return func(_ context.Context, name string) ([]byte, error) {
		data, err := find(name)
		if err == nil && data == nil {
			return nil, fmt.Errorf("the dump has no MachineConfig %s", name)
		}
		return data, err
	}
}

// machineConfig reads one from the cluster.
func (c *clusterFlags) machineConfig(ctx context.Context, name string) ([]byte, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for MachineConfigs: %w", err)
	}
	o, err := client.Resource(machineConfigs).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // of the kind or of the name: both mean that no MCO has been at work
		return nil, fmt.Errorf("the cluster has no MachineConfig %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", name, err)
	}
	return o.MarshalJSON()
}

var machineConfigs = schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigs"}

// machineConfigBelow looks for a MachineConfig in a dump: a file, or a folder of
// files. It returns nil if there is none. Package snapshot keeps no raw objects.
func machineConfigBelow(dump, name string) ([]byte, error) {
	var found []byte
	err := filepath.WalkDir(dump, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || file != dump && !isManifest(file) {
			return err
		}
		if found, err = machineConfigInFile(file, name); found != nil {
			return fs.SkipAll
		}
		return err
	})
	return found, err
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

func machineConfigInFile(file, name string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return machineConfigIn(f, name)
}

// machineConfigIn looks for a MachineConfig in a stream: documents, or a tar
// archive of such files, either of them compressed with gzip or not.
func machineConfigIn(stream io.Reader, name string) ([]byte, error) {
	buffered := bufio.NewReader(stream)
	if head, _ := buffered.Peek(2); string(head) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		buffered = bufio.NewReader(unzipped)
	}
	if head, _ := buffered.Peek(262); !bytes.HasSuffix(head, []byte("ustar")) {
		text, err := io.ReadAll(buffered)
		return machineConfigInText(text, name), err
	}
	for archive := tar.NewReader(buffered); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !isManifest(entry.Name) {
			continue
		}
		text, err := io.ReadAll(archive)
		if found := machineConfigInText(text, name); found != nil || err != nil {
			return found, err
		}
	}
}

// machineConfigInText looks for a MachineConfig in documents. Nothing is parsed
// that does not have its name in it, and the items of YAML lists are looked at one
// by one first: parsing a list of 30 MB as a whole takes 1 GB of memory.
func machineConfigInText(text []byte, name string) []byte {
	if !bytes.Contains(text, []byte(name)) {
		return nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return machineConfigInJSON(text, name)
	}
	for item := range bytes.SplitSeq(text, []byte("\n- ")) {
		if found := machineConfigInYAML(firstItem(item), name); found != nil {
			return found
		}
	}
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		if found := machineConfigInYAML(document, name); found != nil {
			return found
		}
	}
	return nil
}

// firstItem returns what follows "- " in the first column as a document, without
// what comes after the list.
func firstItem(text []byte) []byte {
	item := []byte("  ")
	for line := range bytes.Lines(text) {
		if len(item) > len("  ") && line[0] != ' ' && line[0] != '\n' {
			break
		}
		item = append(item, line...)
	}
	return item
}

// machineConfigInYAML looks at one document. What cannot be parsed has been told
// of when the dump was read.
func machineConfigInYAML(text []byte, name string) []byte {
	if !bytes.Contains(text, []byte(name)) {
		return nil
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil
	}
	return machineConfigInJSON(data, name)
}

// machineConfigInJSON looks at a stream of objects and lists of them.
func machineConfigInJSON(text []byte, name string) []byte {
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var data json.RawMessage
		if err := decoder.Decode(&data); err != nil {
			return nil
		}
		var o struct {
			machineConfig
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &o); err != nil {
			continue // an object of another shape
		}
		if o.Kind == "MachineConfig" && o.Metadata.Name == name {
			return data
		}
		for _, item := range o.Items {
			if found := machineConfigInJSON(item, name); found != nil {
				return found
			}
		}
	}
}
