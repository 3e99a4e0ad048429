package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRegistryRates(t *testing.T) {
	flags := RegistryFlags{rates: []string{"docker.io=5", "mirror.example.com:8443=0.5", "quay.io=0"}}
	got, err := flags.registryRates()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"registry-1.docker.io": 5, "mirror.example.com:8443": 0.5, "quay.io": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, _ := new(RegistryFlags).registryRates(); !cmp.Equal(map[string]float64{"quay.io": 450}, got) {
		t.Errorf("without flags: %v", got)
	}
}
