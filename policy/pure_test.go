package policy

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure is what policy and the packages below it may import, each with its
// reason. Everything that they decide on must come in through their arguments:
// no network, no client, no clock, no logger, no context. Only direct imports
// are looked at, because the API types alone drag net/http in behind them.
var pure = map[string]string{
	"cmp": "", "errors": "", "fmt": "", "maps": "", "reflect": "", "regexp": "", "slices": "", "strconv": "", "strings": "",
	"crypto/sha256": "links the digest algorithm in", "crypto/sha512": "as above",
	"crypto": "verifies signatures, as what follows does", "crypto/ecdsa": "", "crypto/ed25519": "", "crypto/rsa": "", "crypto/x509": "",
	"encoding/asn1": "", "encoding/hex": "", "encoding/pem": "",
	"io":            "the end of a text",
	"time":          "the time of a fact, as a value",
	"path":          "takes the paths of nodes' files apart, as text",
	"encoding/json": "reads policy.json from bytes",

	"sync":                       "keeps what was worked out",
	"bytes":                      "",
	"iter":                       "",
	"github.com/tidwall/btree":   "an ordered map whose copies cost nothing",
	"github.com/BurntSushi/toml": "reads registries.conf from bytes, by the library that nodes read it with",

	"encoding/binary": "numbers as bytes",
	"encoding/base64": "the length of what MCO encodes",

	"k8s.io/apimachinery/pkg/api/resource":                                 "quantities, as values",
	"k8s.io/apimachinery/pkg/api/equality":                                 "compares specs as API servers do",
	"k8s.io/api/core/v1":                                                   "types",
	"k8s.io/api/policy/v1":                                                 "types",
	"k8s.io/apimachinery/pkg/apis/meta/v1":                                 "types",
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity":              "which nodes a pod may run on, by the scheduler's own code",
	"k8s.io/component-helpers/scheduling/corev1":                           "as above",
	"k8s.io/apimachinery/pkg/labels":                                       "which nodes and MachineConfigs a pool selects, by MCO's own code",
	"k8s.io/apimachinery/pkg/util/intstr":                                  "rounds a maxUnavailable, by MCO's own code",
	"k8s.io/apimachinery/pkg/util/version":                                 "compares versions of kubelets",
	"k8s.io/apimachinery/pkg/runtime/schema":                               "types",
	"sigs.k8s.io/yaml":                                                     "reads an object from bytes",
	"github.com/openshift/api/config/v1":                                   "types",
	"github.com/openshift/api/operator/v1alpha1":                           "types",
	"github.com/openshift/api/operator/v1":                                 "types",
	"github.com/openshift/api/machineconfiguration/v1":                     "types",
	"github.com/openshift/runtime-utils/pkg/registries":                    "what MCO writes, by MCO's own code",
	"github.com/opencontainers/go-digest":                                  "digests, as values",
	"github.com/containers/image/v5/docker/policyconfiguration":            "the scopes of policy.json, by the runtime's own code",
	"github.com/containers/image/v5/docker/reference":                      "parses references as nodes do",
	"github.com/containers/image/v5/pkg/sysregistriesv2":                   "rewrites references by the runtime's own code",
	"github.com/mirrorset-guard/mirrorset-guard/policy":                    "its presence, for package status",
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors":            "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile": "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing":            "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout":            "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation": "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes":     "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status":     "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify":     "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress":   "",
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer":           "what a person is answered, as a value",
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert":          "slices of slices",
	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc":           "reads a document from bytes, whole",
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson":       "reads an edit from bytes, whole",
	"github.com/mirrorset-guard/mirrorset-guard/internal/text":             "what a person reads, without what does not print",

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/proof":      "",
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling": "",
}

// rooms are those of policy that each of them rests on.
var rooms = map[string][]string{
	".": nil, "words": {""}, "settings": {""}, "evidence": {"", "/settings"}, "plan": {"", "/settings", "/evidence"},
	"forecast": {"", "/settings", "/evidence", "/plan"}, "rules": {"", "/settings", "/evidence", "/plan", "/forecast"},
}

// forbidden are functions of allowed packages that reach for the world, with every
// function whose name goes on from there (time.AfterFunc, fmt.Println).
var forbidden = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "Sleep", "Tick", "NewTicker", "NewTimer"},
	"fmt":  {"Print"},
	"io":   {"Copy", "Read", "Write"},
	"github.com/containers/image/v5/pkg/sysregistriesv2": {"FindRegistry", "TryUpdatingCache"},
}

func TestPure(t *testing.T) {
	sources := map[string]int{} // by folder
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		sources[filepath.Dir(file)]++
		return checkPure(t, file)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{".", "evidence", "plan", "rules", "forecast", "words", "settings", "mirrors", "mirrors/policyfile", "rollout", "rollout/progress", "rollout/simulation", "rollout/simulation/proof", "rollout/simulation/scheduling", "rollout/status", "rollout/causes", "rollout/verify", "signing"} {
		if sources[folder] == 0 {
			t.Errorf("no source was found in folder %s", folder)
		}
	}
}

// checkPure reports what a file should not import, and what it should not call of the
// packages that it may import.
func checkPure(t *testing.T, file string) error {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	watched := map[string]string{} // name in this file -> import path
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		room := strings.TrimPrefix(imported, "github.com/mirrorset-guard/mirrorset-guard/policy")
		rests, inRoom := rooms[filepath.ToSlash(filepath.Dir(file))]
		if _, isRoom := rooms[cmp.Or(strings.TrimPrefix(room, "/"), ".")]; isRoom && inRoom {
			if !slices.Contains(rests, room) {
				t.Errorf("%s imports %s, which is not below it", fset.Position(spec.Pos()), imported)
			}
		} else if _, ok := pure[imported]; !ok {
			t.Errorf("%s imports %s; policy may import only types and pure functions", fset.Position(spec.Pos()), imported)
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			t.Errorf("%s: a dot import hides what is called", fset.Position(spec.Pos()))
		}
		if _, ok := forbidden[imported]; ok {
			watched[name] = imported
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		isForbidden := func(name string) bool { return strings.HasPrefix(selector.Sel.Name, name) }
		if slices.ContainsFunc(forbidden[watched[pkg.Name]], isForbidden) {
			t.Errorf("%s: policy uses %s.%s", fset.Position(n.Pos()), pkg.Name, selector.Sel.Name)
		}
		return true
	})
	return nil
}
