package cli

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestAgain: a command that is printed names the cluster as the one did that prints it, in words that a shell takes for nothing else.
func TestAgain(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--from", "site A's.yaml", "--allow-loopback", "--for-user", "ann"}, ` --from 'site A'\''s.yaml'`},
		{[]string{"--kubeconfig=k", "--context", "ann@c;id", "--registry-ca", "a.pem", "--registry-ca", "$(id)"}, ` --context 'ann@c;id' --kubeconfig k --registry-ca a.pem --registry-ca '$(id)'`},
	} {
		flags := pflag.NewFlagSet("check", pflag.ContinueOnError)
		var r ReviewFlags
		r.AddFlags(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if got := r.Again(); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.args, got, tt.want)
		}
	}
}
