package cli

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
)

// TestNoArgs: an argument too many says where it belongs, and a flag without a text which one it is.
func TestNoArgs(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--release=next", "-f", "a.yaml", "--untagged"}, ""},
		{[]string{"a.yaml"}, `x takes no argument, and was given "a.yaml"; is it the value of -f: -f a.yaml?`},
		{[]string{"--untagged", "true"}, `x takes no argument, and was given "true"; is it the value of -f: -f true?`},
		{[]string{"-f", "a.yaml", "-f", ""}, "--filename: it is empty; is a variable of the shell not set?"},
	} {
		cmd := &cobra.Command{Use: "x", Args: NoArgs, PreRunE: refuseEmpty, SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
		cmd.Flags().String("release", "", "")
		cmd.Flags().Bool("untagged", false, "")
		cmd.Flags().StringArrayP("filename", "f", nil, "")
		cmd.SetArgs(tc.args)
		cmd.SetOut(io.Discard)
		got := ""
		if err := cmd.Execute(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q: %s\nwant %s", tc.args, got, tc.want)
		}
	}
}
