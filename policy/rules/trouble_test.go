package rules

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestHelp: each cause that a place can have for no usable answer has a remedy of its own, and only one that did not answer is to
// be made to.
func TestHelp(t *testing.T) {
	const at = "m.local:5000/t/x:1"
	change := policy.Change{After: set(itms("a", "quay.io/t", never, "m.local:5000/t"))}
	change.After.Registries = configv1.RegistrySources{InsecureRegistries: []string{"m.local"}}
	words := map[policy.Cause]string{
		policy.Silent: "make the registry answer", policy.Overloaded: "is well", policy.Strange: "what serves m.local:5000", policy.Nameless: "the DNS", policy.BehindProxy: "noProxy",
		policy.NeverAsked: "an address", policy.Redirecting: "redirects to", policy.PlainHTTP: "lists m.local without its port: list m.local:5000",
		policy.UnknownAuthority: "key m.local..5000", policy.BadCertificate: "valid now", policy.BadHandshake: "TLS 1.2", policy.NoEntry: "add credentials for m.local:5000",
		policy.EmptyEntry: `give the entry "m.local:5000"`, policy.BrokenEntry: `repair the entry "m.local:5000"`,
		policy.RefusedEntry: `add an entry "m.local:5000/t" to Secret openshift-config/pull-secret, beside "m.local:5000"`, policy.HelperEntry: "credential helper",
	}
	for cause := policy.Silent; cause <= policy.HelperEntry; cause++ {
		f := &policy.Fact{Presence: policy.Unreachable, AsNodes: true, Trouble: &policy.Trouble{Cause: cause, Entry: "m.local:5000"}}
		if cause >= policy.NoEntry && cause != policy.HelperEntry {
			f.Presence = policy.Denied
		}
		plan := shallow(change, []policy.Image{{Ref: "quay.io/t/x:1", Consumers: running}}, settings.Settings{})
		plan.Reroutes[0].Site = plan.Site
		v := Decide(plan, policy.Facts{mirrors.Location{Ref: at}: f})
		if len(v.Findings) == 0 {
			t.Fatalf("cause %d: admitted", cause)
		}
		remedy := strings.Join(v.Findings[0].Remedy, "; ")
		if words[cause] == "" || !strings.Contains(remedy, words[cause]) || strings.Contains(remedy, "answer, then") != (cause == policy.Silent) {
			t.Errorf("cause %d: %s, want %q", cause, remedy, words[cause])
		}
	}
}
