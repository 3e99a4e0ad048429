package policy

import (
	"os/exec"
	"strings"
	"testing"
)

// pure is what policy and the packages below it may import, each with its
// reason. Everything that they decide on must come in through their arguments:
// no network, no client, no clock, no logger, no context. Only direct imports
// are looked at, because the API types alone drag net/http in behind them.
var pure = map[string]string{
	"bytes": "", "cmp": "", "errors": "", "fmt": "", "maps": "", "reflect": "", "regexp": "", "slices": "", "strconv": "", "strings": "",
	"crypto/sha256": "links the digest algorithm in",
	"time":          "the time of a fact, as a value",
	"path":          "takes the paths of nodes' files apart, as text",
	"encoding/json": "reads policy.json from bytes",

	"github.com/BurntSushi/toml": "reads registries.conf from bytes, by the library that nodes read it with",

	"encoding/base64": "the length of what MCO encodes",

	"k8s.io/apimachinery/pkg/api/equality":                      "compares specs as API servers do",
	"k8s.io/apimachinery/pkg/apis/meta/v1":                      "types",
	"k8s.io/apimachinery/pkg/runtime/schema":                    "types",
	"sigs.k8s.io/yaml":                                          "reads an object from bytes",
	"github.com/openshift/api/config/v1":                        "types",
	"github.com/openshift/api/operator/v1alpha1":                "types",
	"github.com/openshift/runtime-utils/pkg/registries":         "what MCO writes, by MCO's own code",
	"github.com/containers/image/v5/docker/policyconfiguration": "the scopes of policy.json, by the runtime's own code",
	"github.com/containers/image/v5/docker/reference":           "parses references as nodes do",
	"github.com/containers/image/v5/pkg/sysregistriesv2":        "rewrites references by the runtime's own code",
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors": "",
	"github.com/mirrorset-guard/mirrorset-guard/internal/text":  "what a person reads, without what does not print",
}

// forbidden are functions of allowed packages that reach for the world.
var forbidden = []string{"time.Now", "time.Since", "time.After", "time.Sleep", "sysregistriesv2.FindRegistry", "sysregistriesv2.TryUpdatingCache", "fmt.Print"}

func TestPure(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, imported, found := strings.Cut(strings.TrimSpace(line), " ")
		if _, ok := pure[imported]; found && !ok {
			t.Errorf("%s imports %s; policy may import only types and pure functions", pkg, imported)
		}
	}
	for _, call := range forbidden {
		out, _ := exec.Command("grep", "-rnF", "--include=*.go", "--exclude=*_test.go", call+"(", ".").Output() // exit 1: none
		if len(out) > 0 {
			t.Errorf("policy calls %s:\n%s", call, out)
		}
	}
}
