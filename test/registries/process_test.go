package registries

import (
	"io"
	"net/http"
	"testing"
)

func TestProcess(t *testing.T) {
	p, err := StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + p.Addr + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /v2/: %s", resp.Status)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + p.Addr + "/v2/"); err == nil {
		t.Error("it still answers")
	}
}
