package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// TestServeWithoutAnAPIServer: while the API server is out of reach for the guard,
// nothing is admitted, from its start on and in the midst of its work; and it needs no
// restart when the server is back. (F23; F16 is in package inventory.)
func TestServeWithoutAnAPIServer(t *testing.T) {
	c := cluster.New(t)
	c.Apply(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`)
	c.Apply(t, clitest.CartDeployment)
	wire, err := cluster.NewWire(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Close() })
	wire.Cut()
	g := startTestGuard(t, wire.Config, clitest.RegistryAt(t, holdsAll)...)

	early := sendReview(t, g, clitest.ShopMirror, 15*time.Second)
	if early.Code != http.StatusServiceUnavailable || early.Header().Get("Retry-After") != "1" {
		t.Errorf("at the start: status %d, headers %v, want 503 and a request to try again", early.Code, early.Header())
	}
	wire.Mend()
	waitUntilReady(t, g)
	if answer := askGuard(t, g, clitest.ShopMirror, 30*time.Second); !answer.Allowed {
		t.Errorf("refused, though all is well: %s", answer.Result.Message)
	}

	wire.Cut()
	answer := askGuard(t, g, clitest.ShopMirror, 15*time.Second)
	const want = "ImageTagMirrorSet shop is refused because there is no verdict: reading the mirror configuration in force: "
	if answer.Allowed || !strings.HasPrefix(answer.Result.Message, want) {
		t.Errorf("cut off: allowed %t, %v, want %q...", answer.Allowed, answer.Result, want)
	}
	wire.Mend()
	eventually(t, "admitted, as the API server is back", func() bool { return askGuard(t, g, clitest.ShopMirror, 30*time.Second).Allowed })
}
