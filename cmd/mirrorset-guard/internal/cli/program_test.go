package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCallBy: the name it was called by decides what the program calls itself.
func TestCallBy(t *testing.T) {
	const unknown = ": as a plugin it is called kubectl-mirrorset or oc-mirrorset, and kubectl_complete-mirrorset or oc_complete-mirrorset for completion"
	for _, tc := range []struct{ reason, argv0, want string }{
		{"from a folder", "/usr/local/bin/mirrorset-guard", "mirrorset-guard"},
		{"of kubectl", "/root/.krew/bin/kubectl-mirrorset", "kubectl mirrorset"},
		{"of oc, on Windows", "oc-mirrorset.EXE", "oc mirrorset"},
		{"what kubectl asks for completions", "kubectl_complete-mirrorset", "kubectl mirrorset completes"},
		{"what oc asks for completions", "oc_complete-mirrorset", "oc mirrorset completes"},
		{"renamed, which is no plugin", "./mirrorset-guard-v0.1.0", "mirrorset-guard"},
		{"another plugin", "kubectl-mirrors", `this program does not know its name "kubectl-mirrors"` + unknown},
		{"a part of the plugin", "oc-mirrorset-check", `this program does not know its name "oc-mirrorset-check"` + unknown},
		{"completion for another plugin", "kubectl_complete-x", `this program does not know its name "kubectl_complete-x"` + unknown},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c, err := callBy(tc.argv0)
			got := string(c.program)
			if c.completes {
				got += " completes"
			}
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestProgramIn: commands of the program are named as the user calls them, and nothing else is.
func TestProgramIn(t *testing.T) {
	const text = "oc -n mirrorset-guard logs x | mirrorset-guard sync -; (mirrorset-guard rollout diagnose) /var/log/mirrorset-guard mirrorset-guard.io/override"
	want := "oc -n mirrorset-guard logs x | oc mirrorset sync -; (oc mirrorset rollout diagnose) /var/log/mirrorset-guard mirrorset-guard.io/override"
	if got := Program("oc mirrorset").In(text); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, own := range []Program{"", "mirrorset-guard"} {
		if got := own.In(text); got != text {
			t.Errorf("%s\nwant %s", got, text)
		}
	}
}

// TestEveryFlagIsCompleted: with a list, or with files.
func TestEveryFlagIsCompleted(t *testing.T) {
	root := newRoot(ownName, []*cobra.Command{flagged()})
	root.Commands()[0].Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := root.Commands()[0].GetFlagCompletionFunc(f.Name); !ok {
			t.Errorf("--%s is not completed", f.Name)
		}
	})
}

// flagged returns a command with flags whose values can be listed.
func flagged() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Run: func(*cobra.Command, []string) {}}
	var c ConfigFlags
	c.AddFlags(cmd.Flags())
	var change ChangeFlags
	cmd.Flags().StringArrayVarP(&change.Files, "filename", "f", nil, "")
	o := SeveralFormats("table", "json")
	o.AddFlags(cmd.Flags())
	var cluster ClusterFlags
	cluster.AddFlags(cmd.Flags())
	return cmd
}

// TestCompletionOfValues: those of a list, of a pair, and of a file's format.
func TestCompletionOfValues(t *testing.T) {
	for args, want := range map[string]string{
		"check -o ":      "table json :4",
		"check -o json=": ":0",
		"check -f ":      ":0",
	} {
		var out strings.Builder
		code := Run(t.Context(), append([]string{ownName, "__completeNoDesc"}, strings.Split(args, " ")...), strings.NewReader(""), &out, io.Discard, flagged())
		if got := strings.Join(strings.Fields(out.String()), " "); got != want || code != 0 {
			t.Errorf("%q: %q, exit code %d; want %q", args, got, code, want)
		}
	}
}
