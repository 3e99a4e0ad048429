package registries

import (
	"io"
	"net/http"
	"testing"
)

func TestProcess(t *testing.T) {
	Need(t)
	p, err := StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + p.Addr + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /v2/: %s", resp.Status)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if resp, err := http.Get("http://" + p.Addr + "/v2/"); err == nil {
		defer resp.Body.Close()
		t.Error("it still answers")
	}
}
