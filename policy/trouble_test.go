package policy

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestHelp: each cause that a place can have for no usable answer has a remedy of its own, and only one that did not answer is to
// be made to.
func TestHelp(t *testing.T) {
	const at = "m.local:5000/t/x:1"
	change := Change{After: set(itms("a", "quay.io/t", never, "m.local:5000/t"))}
	change.After.Registries = configv1.RegistrySources{InsecureRegistries: []string{"m.local"}}
	words := map[Cause]string{
		Silent: "make the registry answer", Overloaded: "is well", Strange: "what serves m.local:5000", Nameless: "the DNS", BehindProxy: "noProxy",
		NeverAsked: "an address", Redirecting: "redirects to", PlainHTTP: "lists m.local without its port: list m.local:5000",
		UnknownAuthority: "key m.local..5000", BadCertificate: "valid now", BadHandshake: "TLS 1.2", NoEntry: "add credentials for m.local:5000",
		EmptyEntry: `give the entry "m.local:5000"`, BrokenEntry: `repair the entry "m.local:5000"`,
		RefusedEntry: `add an entry "m.local:5000/t" to Secret openshift-config/pull-secret, beside "m.local:5000"`, HelperEntry: "credential helper",
	}
	for cause := Silent; cause <= HelperEntry; cause++ {
		f := &Fact{Presence: Unreachable, AsNodes: true, Trouble: &Trouble{Cause: cause, Entry: "m.local:5000"}}
		if cause >= NoEntry && cause != HelperEntry {
			f.Presence = Denied
		}
		plan := shallow(change, []Image{{"quay.io/t/x:1", running}}, Settings{})
		plan.Reroutes[0].site = plan.site
		v := plan.Decide(Facts{mirrors.Location{Ref: at}: f})
		if len(v.Findings) == 0 {
			t.Fatalf("cause %d: admitted", cause)
		}
		remedy := strings.Join(v.Findings[0].Remedy, "; ")
		if words[cause] == "" || !strings.Contains(remedy, words[cause]) || strings.Contains(remedy, "answer, then") != (cause == Silent) {
			t.Errorf("cause %d: %s, want %q", cause, remedy, words[cause])
		}
	}
}

func TestLongerEntry(t *testing.T) {
	for entry, want := range map[string]string{"a.io": "a.io/b", "a.io/b": "a.io/b/c", "a.io/b/c": "", "https://a.io/v1/": "a.io/b"} {
		if got := longerEntry("a.io/b/c", entry); got != want {
			t.Errorf("beside %s: got %q, want %q", entry, got, want)
		}
	}
}
