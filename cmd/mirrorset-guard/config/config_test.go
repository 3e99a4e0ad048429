package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

const header = "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"

// TestMistakes: every mistake is named, with its path.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		reason, text string
		want         []string
	}{
		{
			"three mistakes, all named", header + "mode: enforced\nseverities: {ImageMising: warn}\nregistries: [{host: quay.io, requestsPerSecond: -1}]\n",
			[]string{
				`mode: Unsupported value: "enforced": supported values: "enforce", "warn", "audit"`,
				`registries[0].requestsPerSecond: Invalid value: -1: registries[0].requestsPerSecond in body should be greater than or equal to 0`,
				`severities[ImageMising]: Invalid value: no such rule: want RULE or RULE@protected`,
			},
		},
		{"an unknown field", header + "exemption: []\n", []string{
			`exemption: Forbidden: unknown field`,
		}},
		{"the case counts", header + "Mode: warn\n", []string{
			`Mode: Forbidden: unknown field`,
		}},
		{"unknown fields in a list", header + "exemptions: [{name: a, image: [x.io]}, {name: b, user: [c], namespaces: [d]}]\n", []string{
			`exemptions[0].image: Forbidden: unknown field`,
			`exemptions[1].user: Forbidden: unknown field`,
			`exemptions[0]: Invalid value: "a": the exemption restricts nothing: it exempts everything; if that is meant, say mode: warn`,
		}},
		{"wrong types, and what else there is", header + "mode: [warn]\nallowSourceFallback: \"yes\"\nfactLifetime: 5\nprotectedNamespaces: a\nverifyBlobs: maybe\nregistries: [quay.io, null]\nexemption: []\n", []string{
			`allowSourceFallback: Invalid value: "string": allowSourceFallback in body must be of type boolean: "string"`,
			`exemption: Forbidden: unknown field`,
			`factLifetime: Invalid value: "integer": factLifetime in body must be of type string: "integer"`,
			`mode: Invalid value: "array": mode in body must be of type string: "array"`,
			`mode: Unsupported value: ["warn"]: supported values: "enforce", "warn", "audit"`,
			`protectedNamespaces: Invalid value: "string": protectedNamespaces in body must be of type array: "string"`,
			`registries[0]: Invalid value: "string": registries[0] in body must be of type object: "string"`,
			`registries[1]: Invalid value: "null": registries[1] in body must be of type object: "null"`,
			`verifyBlobs: Unsupported value: "maybe": supported values: "all", "protected", "none"`,
		}},
		{"keys twice, at any depth", header + "mode: warn\nmode: audit\nexemptions:\n- {name: a, name: b, users: [c]}\n", []string{
			`line 4: key "mode" already set in map; line 6: key "name" already set in map`,
		}},
		{"another version, whose fields mean something else", "apiVersion: config.mirrorset-guard.io/v2\nkind: GuardConfiguration\nmod: x\n", []string{
			`apiVersion: Unsupported value: "config.mirrorset-guard.io/v2": supported values: "config.mirrorset-guard.io/v1alpha1"`,
		}},
		{"an empty file", "", []string{
			`apiVersion: Required value: want config.mirrorset-guard.io/v1alpha1`,
			`kind: Required value: want GuardConfiguration`,
		}},
		{"comments only", "# nothing\n", []string{
			`apiVersion: Required value: want config.mirrorset-guard.io/v1alpha1`,
			`kind: Required value: want GuardConfiguration`,
		}},
		{"no mapping", "- a\n", []string{
			`it has no fields: want a mapping`,
		}},
		{"two documents", header + "---\n" + header, []string{
			`something follows the first document; a configuration is one document`,
		}},
		{"severities", header + "severities: {ImageMissing: fatal, NoRoute@all: warn}\n", []string{
			`severities.ImageMissing: Unsupported value: "fatal": supported values: "deny", "warn", "info"`,
			`severities[NoRoute@all]: Invalid value: no such rule: want RULE or RULE@protected`,
		}},
		{"namespaces", header + "protectedNamespaces: [\"a*b\", \"\", Shop]\nnamespaceSeverities: [{namespace: x, severity: info}, {severity: warn}]\n", []string{
			`namespaceSeverities[0].severity: Unsupported value: "info": supported values: "deny", "warn"`,
			`namespaceSeverities[1].namespace: Required value`,
			`protectedNamespaces[0]: Invalid value: "a*b": protectedNamespaces[0] in body should match '^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}[*])$'`,
			`protectedNamespaces[1]: Invalid value: "": protectedNamespaces[1] in body should match '^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}[*])$'`,
			`protectedNamespaces[2]: Invalid value: "Shop": protectedNamespaces[2] in body should match '^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}[*])$'`,
		}},
		{"exemptions", header + "exemptions:\n- {images: [nginx, \"quay.io/a:b:c\"], users: [\"a*b\"]}\n- {name: a b, groups: [\"\"]}\n- {name: c, users: [d]}\n- {name: c, users: [d]}\n", []string{
			`exemptions[0].name: Required value`,
			`exemptions[0].users[0]: Invalid value: "a*b": exemptions[0].users[0] in body should match '^([^*]+[*]?|[*])$'`,
			`exemptions[1].groups[0]: Invalid value: "": exemptions[1].groups[0] in body should match '^([^*]+[*]?|[*])$'`,
			`exemptions[1].name: Invalid value: "a b": exemptions[1].name in body should match '^[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$'`,
			`exemptions[0].images[0]: Invalid value: "nginx": want a host, a repository with its host, an image with its host, *.DOMAIN or *`,
			`exemptions[0].images[1]: Invalid value: "quay.io/a:b:c": want a host, a repository with its host, an image with its host, *.DOMAIN or *`,
			`exemptions[3].name: Duplicate value: "c"`,
		}},
		{"updates", header + "updates: always\n", []string{
			`updates: Unsupported value: "always": supported values: "off", "desired", "recommended"`,
		}},
		{"updates that are on", header + "updates: on\n", []string{
			`updates: Invalid value: "boolean": updates in body must be of type string: "boolean"`,
			`updates: Unsupported value: true: supported values: "off", "desired", "recommended"`,
		}},
		{"an audit log that is no path", header + "auditLog: audit.log\n", []string{"auditLog: Invalid value: \"audit.log\": auditLog in body should match '^(stdout|none|/.*)$'"}},
		{"too long a lifetime", header + "factLifetime: 25h\n", []string{
			`factLifetime: Invalid value: "25h": want from 0s to 24h`,
		}},
		{"a lifetime that no number of hours is", header + "factLifetime: 9999999999h\n", []string{
			`factLifetime: Invalid value: "9999999999h": factLifetime in body should match '^([0-9]{1,6}([.][0-9]+)?(ns|us|ms|s|m|h))+$'`,
		}},
		{"registries", header + "registries:\n- {host: docker.io, requestsPerSecond: 1000001}\n- {host: registry-1.docker.io}\n- {host: quay.io/team}\n- {}\n- {host: 'x.example.com:655350'}\n- {host: 'x.example.com:65535'}\n", []string{
			`registries[0].requestsPerSecond: Invalid value: 1000001: registries[0].requestsPerSecond in body should be less than or equal to 1000000`,
			`registries[2].host: Invalid value: "quay.io/team": registries[2].host in body should match '^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[1-9][0-9]{0,4})?$'`,
			`registries[3].host: Required value`,
			`registries[4].host: Invalid value: "x.example.com:655350": registries[4].host in body should match '^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[1-9][0-9]{0,4})?$'`,
			`registries[1].host: Duplicate value: "docker.io"`,
		}},
		{"no numbers", header + "registries: [{host: quay.io, requestsPerSecond: .nan}]\n", []string{
			`json: unsupported value: NaN`,
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

// TestEverything: an exemption that exempts everything is refused, however it says so.
func TestEverything(t *testing.T) {
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
	} {
		t.Run(tt.exemption, func(t *testing.T) {
			text := header + "exemptions: [{" + tt.exemption
			if _, err := Parse([]byte(text + "}]\n")); (err != nil) != tt.everything {
				t.Errorf("got %v", err)
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
	for _, text := range []string{header, string(text), header + "mode: null\nexemptions:\nregistries:\n"} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Default().GuardConfiguration, c.GuardConfiguration); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if diff := cmp.Diff(settings.Settings{Protected: policy.DefaultProtected}.Protected, Default().Settings().Protected); diff != "" {
		t.Error(diff)
	}
	rest := Default().Settings()
	rest.Protected = nil
	if diff := cmp.Diff(settings.Settings{}, rest, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the defaults of the policy are others (-want +got):\n%s", diff)
	}
}

// TestSettings: each field reaches what goes by it.
func TestSettings(t *testing.T) {
	c, err := Parse([]byte(header + `mode: warn
protectedNamespaces: [vault]
severities: {NoEffect: deny, ImageMissing@protected: warn}
namespaceSeverities: [{namespace: "sandbox-*", severity: warn}]
verifyBlobs: all
allowSourceFallback: true
exemptions: [{name: legacy, images: [quay.io/legacy], groups: [ops], protected: true}]
factLifetime: 1h
caches: [harbor.example.com/quay-proxy]
registries: [{host: mirror.example.com}, {host: docker.io, requestsPerSecond: 5}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Settings{
		Mode: policy.ModeWarn, Protected: []string{"mirrorset-guard", "vault"}, AllowSourceFallback: true, Blobs: settings.BlobsOfAll,
		Exemptions: []settings.Exemption{{Name: "legacy", Images: []string{"quay.io/legacy"}, Groups: []string{"ops"}, Protected: true}},
		Severities: map[string]policy.Severity{"NoEffect": policy.Deny, "ImageMissing@protected": policy.Warn},
		Namespaces: []settings.NamespaceSeverity{{Pattern: "sandbox-*", Severity: policy.Warn}},
		Caches:     []string{"harbor.example.com/quay-proxy"},
	}
	if diff := cmp.Diff(want, c.Settings(), cmpopts.IgnoreUnexported(settings.Exemption{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"docker.io": 5, "quay.io": 450}, c.Rates()); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
	if l := c.FactLifetimes(); l.PresentDigest != time.Hour || l.PresentTag != 2*time.Minute {
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
	golden.File(t, filepath.Join(docs, "configuration.schema.json"), string(schema))
}

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
		header + "updates: off\nregistries: [{host: quay.io, requestsPerSecond: 1.5}, {host: docker.io}]\n": true,
		header + "registries: [{host: x, requestsPerSecond: x}]\n":                                          false,
		header + "registries: [{}]\n":                   false,
		header + "exemptions: [{name: a, user: [x]}]\n": false,
		header + "mode: Warn\n":                         false,
		header + "Mode: warn\n":                         false,
		header + "factLifetime: 5\n":                    false,
		"mode: warn\n":                                  false,
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
	golden.Part(t, filepath.Join(docs, "configuration.md"), "<!-- begin: made from the types -->\n", "<!-- end -->\n", markdown())
}

// markdown returns the reference as a table for the documentation.
func markdown() string {
	var b strings.Builder
	b.WriteString("| field | type | default | meaning |\n|---|---|---|---|\n")
	walk("", Schema(), func(path string, s apiextensionsv1.JSONSchemaProps) {
		def := ""
		if s.Default != nil {
			def = "`" + string(s.Default.Raw) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", path, typeName(s), def, s.Description)
	})
	return b.String()
}

// walk has visit see each field below s.
func walk(path string, s apiextensionsv1.JSONSchemaProps, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	for _, name := range names(inner(s)) {
		below, at := inner(s).Properties[name], strings.TrimPrefix(path+"."+name, ".")
		visit(at, below)
		walk(at, below, visit)
	}
}

// TestEveryFieldHasAComment: the reference and the schema are made from the comments.
func TestEveryFieldHasAComment(t *testing.T) {
	fields := 0
	walk("", Schema(), func(path string, s apiextensionsv1.JSONSchemaProps) {
		fields++
		if !strings.HasSuffix(s.Description, ".") {
			t.Errorf("%q: %q", path, s.Description)
		}
	})
	if fields < 20 {
		t.Errorf("%d fields: these are not all", fields)
	}
}

// names returns the names of the fields of s, sorted.
func names(s apiextensionsv1.JSONSchemaProps) []string { return slices.Sorted(maps.Keys(s.Properties)) }

// inner returns the schema of what s is a list or a map of, or s.
func inner(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	switch {
	case s.Items != nil:
		return *s.Items.Schema
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return *s.AdditionalProperties.Schema
	default:
		return s
	}
}

func typeName(s apiextensionsv1.JSONSchemaProps) string {
	name := inner(s).Type
	switch {
	case s.Items != nil:
		name = "list of " + name + "s"
	case s.AdditionalProperties != nil:
		name = "map from string to " + name
	}
	if values := inner(s).Enum; len(values) > 0 {
		name += ": " + strings.Join(convert.Each(values, func(v apiextensionsv1.JSON) string { return strings.Trim(string(v.Raw), `"`) }), ", ")
	}
	return name
}

// FuzzParse: nothing makes it panic, and what it accepts goes round.
func FuzzParse(f *testing.F) {
	f.Add(header)
	f.Add(header + "exemptions: [{name: a, images: ['*.x', quay.io/a@sha256:b]}]\nseverities: {a@b: c}\n")
	f.Add(`{"apiVersion": "config.mirrorset-guard.io/v1alpha1", "kind": "GuardConfiguration", "registries": [{"host": "a", "requestsPerSecond": 1e400}, null]}`)
	f.Add(header + "factLifetime: 1.5h\n? [a]\n: b\n")
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
