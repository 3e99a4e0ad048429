package wire

import (
	"runtime"
	"testing"
	"weak"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
)

// TestKept: what is learned by credentials is known to all who ask by them, to nobody else, and goes with them.
func TestKept(t *testing.T) {
	type kept struct{ endpoint *Endpoint } // as what is kept may lead to credentials
	c := NewClient(Options{})
	defer c.Close()
	of := func() *kept { return Kept[kept](&Exchange{endpoint: c.Endpoint(web)}) }
	of().endpoint = c.Endpoint(web)
	old := weak.Make(of())
	if old.Value() == nil || old.Value().endpoint == nil {
		t.Error("it is not kept")
	}
	credentials, err := pullsecret.Parse([]byte(`{"auths":{"` + host + `":{"auth":"dXNlcjpuZXc="}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c.SetCredentials(credentials)
	if of().endpoint != nil {
		t.Error("it is known to who asks by other credentials")
	}
	runtime.GC()
	if old.Value() != nil {
		t.Error("it is still in memory")
	}
}
