package serve

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestConfigure: what a new file says is in force from the next review on; what cannot be put
// in force changes nothing.
func TestConfigure(t *testing.T) {
	server := clitest.RegistryAt(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	g := guardOf(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"cart"},
		"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/shop/cart:v1"}]}}}}`, &bytes.Buffer{}, server...)
	g.options = new(serveOptions)
	var err error
	if g.updates, err = nextrelease.New(nextrelease.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := g.prepareAudit(config.Default().AuditLog); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		err  string
		mode policy.Mode
	}{
		{clitest.ConfigHeader + "mode: warn\n", "", policy.ModeWarn},
		{clitest.ConfigHeader + "mode: audit\nauditLog: /dev/null/audit.log\n", "opening the audit file: mkdir /dev/null: not a directory", policy.ModeWarn},
		{clitest.ConfigHeader, "", policy.ModeEnforce},
	} {
		file, err := config.Parse([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		message := ""
		if err := g.configure(file); err != nil {
			message = err.Error()
		}
		if s := g.currentSettings(); message != tt.err || s.Mode != tt.mode {
			t.Errorf("%q: %q, settings %+v", tt.text, message, s)
		}
	}
}
