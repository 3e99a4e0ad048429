package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

var update = flag.Bool("update", false, "write the files in docs that are made from the types")

const header = "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"

// TestMistakes: every mistake is named, with its path.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		reason, text string
		want         []string
	}{
		{
			"three mistakes, all named", header + "mode: enforced\nseverities: {ImageMising: warn}\nminutesPerNode: {least: 20, most: 15}\n",
			[]string{
				`mode: Unsupported value: "enforced": supported values: "enforce", "warn", "audit"`,
				`severities[ImageMising]: Invalid value: no such rule; did you mean "ImageMissing"?`,
				`minutesPerNode.least: Invalid value: 20: want no more than most, which is 15`,
			},
		},
		{"an unknown field", header + "exemption: []\n", []string{`exemption: Invalid value: unknown field; did you mean "exemptions"?`}},
		{"an unknown field that resembles none", header + "lifetimes: {zzzzzzzzzz: 5m}\n", []string{`lifetimes.zzzzzzzzzz: Invalid value: unknown field; there are found, foundByTag, recalled, trouble`}},
		{"the case counts", header + "Mode: warn\n", []string{`Mode: Invalid value: unknown field; did you mean "mode"?`}},
		{"unknown fields in a list", header + "exemptions: [{name: a, image: [x.io]}, {name: b, user: [c], namespaces: [d]}]\n", []string{
			`exemptions[0].image: Invalid value: unknown field; did you mean "images"?`,
			`exemptions[1].user: Invalid value: unknown field; did you mean "users"?`,
			`exemptions[0].everything: Required value: the exemption restricts nothing: it exempts everything; if that is meant, say so with everything: true`,
		}},
		{"wrong types, and what else there is", header + "mode: [warn]\nallowSourceFallback: \"yes\"\nminutesPerNode: {least: 1.5, most: 3}\nlifetimes: {found: 5}\nprotectedNamespaces: a\nguesses: maybe\nregistries: [quay.io]\n", []string{
			`allowSourceFallback: Invalid value: "yes": it is a string, want true or false`,
			`lifetimes.found: Invalid value: 5: it is a number, want a duration such as 90s or 5m`,
			`minutesPerNode.least: Invalid value: 1.5: it is a number, want a whole number`,
			`mode: Invalid value: ["warn"]: it is a list, want a string`,
			`protectedNamespaces: Invalid value: "a": it is a string, want a list`,
			`registries[0]: Invalid value: "quay.io": it is a string, want fields and values`,
			`guesses: Unsupported value: "maybe": supported values: "deny", "warn", "ignore"`,
		}},
		{"keys twice, at any depth", header + "mode: warn\nmode: audit\nlifetimes: {found: 1m, found: 2m}\nexemptions:\n- {name: a, name: b, users: [c]}\n", []string{
			`mode: Duplicate value`, `lifetimes.found: Duplicate value`, `exemptions[0].name: Duplicate value`,
		}},
		{"another version, whose fields mean something else", "apiVersion: config.mirrorset-guard.io/v2\nkind: GuardConfiguration\nmod: x\n", []string{
			`apiVersion: Unsupported value: "config.mirrorset-guard.io/v2": supported values: "config.mirrorset-guard.io/v1alpha1"`,
		}},
		{"an empty file", "", []string{`apiVersion: Required value: want config.mirrorset-guard.io/v1alpha1`, `kind: Required value: want GuardConfiguration`}},
		{"comments only", "# nothing\n", []string{`apiVersion: Required value: want config.mirrorset-guard.io/v1alpha1`, `kind: Required value: want GuardConfiguration`}},
		{"no mapping", "- a\n", []string{`it is a list, want fields and values`}},
		{"two documents", header + "---\n" + header, []string{"something follows the first document; a configuration is one document"}},
		{"severities", header + "severities: {ImageMissing: fatal, NoRoute@all: warn, NoEffect: null}\n", []string{
			`severities[NoEffect]: Invalid value: null: it is empty, want a string`,
			`severities[ImageMissing]: Unsupported value: "fatal": supported values: "deny", "warn", "info"`,
			`severities[NoRoute@all]: Invalid value: want NoRoute or NoRoute@protected`,
		}},
		{"namespaces", header + "protectedNamespaces: [\"a*b\", \"\", Shop]\nnamespaceSeverities: [{namespace: x, severity: info}, {severity: warn}]\n", []string{
			`protectedNamespaces[0]: Invalid value: "a*b": not the name of a namespace, with or without a trailing *`,
			`protectedNamespaces[1]: Required value: the name of a namespace; a trailing * matches any ending`,
			`protectedNamespaces[2]: Invalid value: "Shop": not the name of a namespace, with or without a trailing *`,
			`namespaceSeverities[0].severity: Unsupported value: "info": supported values: "deny", "warn"`,
			`namespaceSeverities[1].namespace: Required value: the name of a namespace; a trailing * matches any ending`,
		}},
		{"exemptions", header + "exemptions:\n- {images: [nginx, \"quay.io/a:b:c\", \"*\"], users: [\"a*b\"]}\n- {name: a b, groups: [\"\"]}\n- {name: c, users: [d], everything: true}\n- {name: c, users: [d]}\n", []string{
			`exemptions[0].name: Required value: what warnings and records call the exemption`,
			`exemptions[0].images[0]: Invalid value: "nginx": want a host, a repository with its host, an image with its host, *.DOMAIN or *`,
			`exemptions[0].images[1]: Invalid value: "quay.io/a:b:c": want a host, a repository with its host, an image with its host, *.DOMAIN or *`,
			`exemptions[0].users[0]: Invalid value: "a*b": want a name; a * may stand at its end only`,
			`exemptions[1].name: Invalid value: "a b": want at most 63 letters, digits, dashes, dots and underscores, with a letter or digit at either end`,
			`exemptions[1].groups[0]: Invalid value: "": want a name; a * may stand at its end only`,
			`exemptions[2].everything: Invalid value: true: the exemption does not exempt everything; leave this out`,
			`exemptions[3].name: Duplicate value: "c"`,
		}},
		{"updates", header + "updates: always\n", []string{`updates: Unsupported value: "always": supported values: "off", "desired", "recommended"`}},
		{"updates that are on", header + "updates: on\n", []string{`updates: Invalid value: true: it is true or false, want a string`}},
		{"half a range", header + "minutesPerNode: {least: 3}\n", []string{`minutesPerNode.most: Invalid value: 0: want from 1 to 1440`}},
		{"no range", header + "minutesPerNode: 5\n", []string{`minutesPerNode: Invalid value: 5: it is a number, want fields and values`}},
		{"an audit log that is no path", header + "auditLog: audit.log\n", []string{`auditLog: Invalid value: "audit.log": want stdout, none or a path that begins with /`}},
		{"an audit log with settings", header + "auditLog: {path: /x}\n", []string{`auditLog: Invalid value: {"path":"/x"}: it is a mapping, want a string`}},
		{"lifetimes", header + "lifetimes: {found: 25h, foundByTag: 0s, recalled: -1s, trouble: 11m}\n", []string{
			`lifetimes.found: Invalid value: "25h": want from 1s to 24h`,
			`lifetimes.foundByTag: Invalid value: "0s": want from 1s to 1h`,
			`lifetimes.recalled: Invalid value: "-1s": want from 1s to 10m`,
			`lifetimes.trouble: Invalid value: "11m": want from 1s to 10m`,
		}},
		{"registries", header + "registries:\n- {host: docker.io, requestsPerSecond: -1}\n- {host: registry-1.docker.io, concurrency: 65, depth: exists}\n- {host: quay.io/team}\n- {}\n- {host: x.example.com, concurrency: 0}\n- {host: 'x.example.com:65536'}\n- {host: 'x.example.com:65535'}\n", []string{
			`registries[0].requestsPerSecond: Invalid value: -1: want from 0 to 1000000`,
			`registries[1].host: Duplicate value: "registry-1.docker.io"`,
			`registries[1].concurrency: Invalid value: 65: want from 1 to 64`,
			`registries[1].depth: Unsupported value: "exists": supported values: "manifest", "blobs"`,
			`registries[2].host: Invalid value: "quay.io/team": want HOST or HOST:PORT`,
			`registries[3].host: Required value: the host of a registry`,
			`registries[4].concurrency: Invalid value: 0: want from 1 to 64`,
			`registries[5].host: Invalid value: "x.example.com:65536": want HOST or HOST:PORT`,
		}},
		{"no numbers", header + "registries: [{host: quay.io, requestsPerSecond: .nan}, {host: docker.io, requestsPerSecond: .inf}]\n", []string{
			`registries[0].requestsPerSecond: Invalid value: "NaN": want a finite number`,
			`registries[1].requestsPerSecond: Invalid value: "+Inf": want a finite number`,
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if err == nil {
				t.Fatal("no mistake")
			}
			got := []string{err.Error()}
			if mistakes, ok := err.(*Error); ok { //nolint:errorlint // Parse returns it as it is
				got = nil
				for _, m := range mistakes.Mistakes {
					got = append(got, m.Error())
				}
				for _, m := range got {
					if !strings.Contains(err.Error(), m) {
						t.Errorf("%s is not in the message", m)
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestEverythingIsSaidTwice: an exemption that exempts everything is refused, however it says
// so, unless it says so twice.
func TestEverythingIsSaidTwice(t *testing.T) {
	for _, tt := range []struct {
		exemption  string
		everything bool
	}{
		{"name: a", true},
		{"name: a, protected: true", true},
		{"name: a, images: ['*']", true},
		{"name: a, images: [quay.io, '*'], namespaces: ['*'], mirrorSets: [b, '*']", true},
		{"name: a, groups: ['system:authenticated']", true},
		{"name: a, groups: ['system:*']", true},
		{"name: a, users: [b], groups: ['*']", true},
		{"name: a, users: ['*']", true},
		{"name: a, images: ['*'], namespaces: [b]", false},
		{"name: a, users: [b], images: ['*']", false},
		{"name: a, groups: ['system:serviceaccounts']", false},
		{"name: a, mirrorSetLabels: {b: c}", false},
	} {
		t.Run(tt.exemption, func(t *testing.T) {
			text := header + "exemptions: [{" + tt.exemption
			_, once := Parse([]byte(text + "}]\n"))
			_, twice := Parse([]byte(text + ", everything: true}]\n"))
			if (once != nil) != tt.everything || (twice != nil) == tt.everything {
				t.Errorf("said once: %v\nsaid twice: %v", once, twice)
			}
		})
	}
}

// TestDefaults: a file that sets nothing, the file of defaults, and the settings that no flags
// make are the same.
func TestDefaults(t *testing.T) {
	text, err := Default().YAML()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), header+"mode: enforce\nprotectedNamespaces:\n- mirrorset-guard\n") {
		t.Errorf("the fields are out of order:\n%s", text)
	}
	for _, text := range []string{header, string(text), header + "mode: null\nlifetimes: {}\nexemptions:\n"} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Default().GuardConfiguration, c.GuardConfiguration); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if diff := cmp.Diff(policy.Settings{Protected: policy.DefaultProtected}.Protected, Default().Settings().Protected); diff != "" {
		t.Error(diff)
	}
	rest := Default().Settings()
	rest.Protected = nil
	if diff := cmp.Diff(policy.Settings{}, rest, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the defaults of the policy are others (-want +got):\n%s", diff)
	}
}

// TestSays: null sets nothing, and what is set is known by its path.
func TestSays(t *testing.T) {
	c, err := Parse([]byte(header + "mode: enforce\nguesses:\nregistries: [{host: quay.io, requestsPerSecond: 450}]\nlifetimes: {found: 5m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"mode": true, "guesses": false, "severities": false, "registries.requestsPerSecond": true, "lifetimes.found": true, "lifetimes.foundByTag": false} {
		if c.Says(path) != want {
			t.Errorf("Says(%q) = %v", path, !want)
		}
	}
}

// TestSettings: each field reaches what goes by it.
func TestSettings(t *testing.T) {
	c, err := Parse([]byte(header + `mode: warn
protectedNamespaces: [vault]
severities: {NoEffect: deny, ImageMissing@protected: warn}
namespaceSeverities: [{namespace: "sandbox-*", severity: warn}]
guesses: ignore
verifyBlobs: all
allowSourceFallback: true
exemptions: [{name: legacy, images: [quay.io/legacy], groups: [ops], protected: true}]
minutesPerNode: {least: 3, most: 9}
lifetimes: {found: 1h, trouble: 1s}
registries:
- {host: docker.io, requestsPerSecond: 5, concurrency: 2, depth: manifest}
- {host: "mirror.example.com:8443", depth: blobs}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Settings()
	want := `{"Mode":1,"Exemptions":[{"Name":"legacy","Images":["quay.io/legacy"],"Namespaces":null,"MirrorSets":null,"MirrorSetLabels":null,"Users":null,"Groups":["ops"],"Protected":true}],` +
		`"Protected":["mirrorset-guard","vault"],"AllowSourceFallback":true,"Blobs":1,"Depths":{"docker.io":1,"mirror.example.com:8443":2},"Guesses":2,` +
		`"Severities":{"ImageMissing@protected":1,"NoEffect":2},"Namespaces":[{"Pattern":"sandbox-*","Severity":1}],"Times":{"Drain":{"Min":180000000000,"Max":540000000000}`
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	paces := c.Paces()
	if paces.Rates["registry-1.docker.io"] != 5 || paces.AtOnce["registry-1.docker.io"] != 2 || paces.Rates["quay.io"] != 450 || len(paces.Rates) != 2 {
		t.Errorf("paces %+v", paces)
	}
	if l := c.FactLifetimes(); l.PresentDigest.Hours() != 1 || l.PresentTag.Minutes() != 2 || l.Trouble.Seconds() != 1 || l.Recalled.Seconds() != 90 {
		t.Errorf("lifetimes %+v", l)
	}
}

const docs = "../../../docs"

// TestSchema: the schema in the documentation is that of the types.
func TestSchema(t *testing.T) {
	schema, err := SchemaJSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "configuration.schema.json", schema, func(file []byte) []byte { return file }, func([]byte) []byte { return schema })
}

const beginReference, endReference = "<!-- begin: made from the types -->\n", "<!-- end -->\n"

// TestSchemaAgrees: by the schema, what is a good file to the program is one, and what has other
// fields, types or values is not.
func TestSchemaAgrees(t *testing.T) {
	data, err := SchemaJSON()
	if err != nil {
		t.Fatal(err)
	}
	var external apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(data, &external); err != nil {
		t.Fatal(err)
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &schema, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&schema)
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Default().YAML()
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		header:           true,
		string(defaults): true,
		header + "minutesPerNode: {least: 5, most: 10}\nregistries: [{host: quay.io, requestsPerSecond: 1.5, concurrency: 2}, {host: docker.io, concurrency: null}]\n": true,
		header + "minutesPerNode: 5\n":              false,
		header + "minutesPerNode: {leest: 5}\n":     false,
		header + "registries: [{concurrency: x}]\n": false,
		header + "mode: Warn\n":                     false,
		header + "Mode: warn\n":                     false,
		header + "lifetimes: {found: 5}\n":          false,
		"mode: warn\n":                              false,
	} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		mistakes := validation.ValidateCustomResource(nil, value, validator)
		if (len(mistakes) == 0) != good {
			t.Errorf("%s\nby the schema: %v", text, mistakes)
		}
		if _, err := Parse([]byte(text)); (err == nil) != good {
			t.Errorf("%s\nby the program: %v", text, err)
		}
	}
}

// TestReference: the table in the documentation is made from the types.
func TestReference(t *testing.T) {
	golden(t, "configuration.md", []byte(markdown()), func(file []byte) []byte {
		_, rest, _ := bytes.Cut(file, []byte(beginReference))
		table, _, _ := bytes.Cut(rest, []byte(endReference))
		return table
	}, func(file []byte) []byte {
		before, rest, _ := bytes.Cut(file, []byte(beginReference))
		_, after, _ := bytes.Cut(rest, []byte(endReference))
		return slices.Concat(before, []byte(beginReference), []byte(markdown()), []byte(endReference), after)
	})
}

// markdown returns the reference as a table for the documentation.
func markdown() string {
	var b strings.Builder
	b.WriteString("| field | type | default | meaning |\n|---|---|---|---|\n")
	for _, f := range Reference().Fields {
		f.writeRows(&b)
	}
	return b.String()
}

func (f Field) writeRows(b *strings.Builder) {
	kind, def := f.Type, ""
	if len(f.Values) > 0 {
		kind += ": " + strings.Join(f.Values, ", ")
	}
	if f.Default != "" {
		def = "`" + f.Default + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Path, kind, def, f.Description)
	for _, c := range f.Fields {
		c.writeRows(b)
	}
}

// golden holds a part of a file in the documentation to what is made from the types, or puts
// it there.
func golden(t *testing.T, name string, want []byte, part, with func(file []byte) []byte) {
	t.Helper()
	path := filepath.Join(docs, name)
	file, err := os.ReadFile(path)
	if *update {
		if err := os.WriteFile(path, with(file), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(part(file))); diff != "" {
		t.Errorf("docs/%s is out of date (-want +got); go test ./cmd/mirrorset-guard/config -update writes it:\n%s", name, diff)
	}
}

// TestEveryFieldHasAComment: explanations and the schema are made from the comments.
func TestEveryFieldHasAComment(t *testing.T) {
	fields := 0
	var walk func(f Field)
	walk = func(f Field) {
		fields++
		if !strings.HasSuffix(f.Description, ".") {
			t.Errorf("%q: %q", f.Path, f.Description)
		}
		for _, c := range f.Fields {
			walk(c)
		}
	}
	walk(Reference())
	if fields < 35 {
		t.Errorf("%d fields: these are not all", fields)
	}
}

func TestExplain(t *testing.T) {
	for path, want := range map[string]string{
		"mode": "mode: string\n  one of enforce, warn, audit\n  default: \"enforce\"\n\nmode says what becomes of a change that the rules deny. enforce refuses it. warn\n",
		"exemptions[0].users": "exemptions.users: list of strings\n\nusers are those who make the change, as the API server knows them; they or the\n" +
			"groups have to match. A trailing * matches any ending.\n",
		"lifetimes": "lifetimes: object\n\nlifetimes say how long answers of registries count before they are asked again.\n\nFields:\n  found                duration\n",
		"":          "GuardConfiguration, config.mirrorset-guard.io/v1alpha1\n\nA GuardConfiguration says",
	} {
		if got, err := Explain(path); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %v\n%s\nwant\n%s", path, err, got, want)
		}
	}
	for path, want := range map[string]string{
		"exemptions.image": `no field "exemptions.image"; did you mean "images"?`,
		"mode.x":           "mode has no fields",
	} {
		if _, err := Explain(path); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
}

// FuzzParse: nothing makes it panic, and what it accepts goes round.
func FuzzParse(f *testing.F) {
	f.Add(header)
	f.Add(header + "exemptions: [{name: a, images: ['*.x', quay.io/a@sha256:b], everything: true}]\nseverities: {a@b: c}\n")
	f.Add(`{"apiVersion": "config.mirrorset-guard.io/v1alpha1", "kind": "GuardConfiguration", "registries": [{"host": "a", "requestsPerSecond": 1e400}, null]}`)
	f.Add(header + "lifetimes: {found: 1.5h}\n? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text))
		if err != nil {
			return
		}
		again, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		c2, err := Parse(again)
		if diff := cmp.Diff(c.Settings(), c2.Settings(), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// TestUpdates: off is off, whether or not the reader of YAML takes it for false.
func TestUpdates(t *testing.T) {
	for text, want := range map[string]v1alpha1.Updates{
		"": "off", "updates: off\n": "off", "updates: \"off\"\n": "off", "updates: false\n": "off", "updates: desired\n": "desired", "updates: recommended\n": "recommended",
	} {
		c, err := Parse([]byte(header + text))
		if err != nil || c.Updates != want {
			t.Errorf("%q: got %q, %v, want %q", text, c.Updates, err, want)
		}
	}
}
