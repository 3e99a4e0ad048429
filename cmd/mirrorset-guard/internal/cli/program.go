package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ownName is what the program is called where it is no plugin, and what texts call it.
const ownName = "mirrorset-guard"

// A Program is the name by which the user calls this program: "mirrorset-guard", or "kubectl mirrorset".
type Program string

// plugins are the names under which kubectl and oc call the program, and those under which they ask it
// for completions (k8s.io/kubectl, pkg/cmd/plugin).
var plugins = map[string]call{
	"kubectl-mirrorset":          {program: "kubectl mirrorset"},
	"oc-mirrorset":               {program: "oc mirrorset"},
	"kubectl_complete-mirrorset": {program: "kubectl mirrorset", completes: true},
	"oc_complete-mirrorset":      {program: "oc mirrorset", completes: true},
}

// A call is one start of the program under a name.
type call struct {
	program   Program
	completes bool
}

// callBy returns how the program was called whose first argument is argv0. The error is one for a name
// that makes it a plugin, and not one of these: help and completion would name a command that there is
// not.
func callBy(argv0 string) (call, error) {
	name := filepath.Base(argv0)
	if ext := filepath.Ext(name); strings.EqualFold(ext, ".exe") {
		name = strings.TrimSuffix(name, ext)
	}
	c, known := plugins[name]
	switch {
	case known:
		return c, nil
	case pluginName.MatchString(name):
		return call{program: ownName}, fmt.Errorf("this program does not know its name %q: as a plugin it is called kubectl-mirrorset or oc-mirrorset, and kubectl_complete-mirrorset or oc_complete-mirrorset for completion", name)
	default:
		return call{program: ownName}, nil
	}
}

var pluginName = regexp.MustCompile(`^(kubectl|oc)(_complete)?-`)

// In returns text, which names the program and its commands as mirrorset-guard, in the words of a user
// who calls it otherwise.
func (p Program) In(text string) string {
	if p == "" || p == ownName {
		return text
	}
	return named.ReplaceAllString(text, string(p)+" $1")
}

// named matches a command of this program in a text.
var named = regexp.MustCompile(`\b` + ownName + ` (check|plan|pin|release|deletion|keep|sync|explain|render|inventory|snapshot|rollout|config|serve|version)\b`)

// words puts p's name into what cmd and the commands below it say of themselves.
func (p Program) words(cmd *cobra.Command) {
	cmd.Long, cmd.Example = p.In(cmd.Long), p.In(cmd.Example)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = p.In(f.Usage) })
	for _, below := range cmd.Commands() {
		p.words(below)
	}
}
