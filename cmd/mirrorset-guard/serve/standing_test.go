package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

func TestStandingFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "facts")
	if err := os.WriteFile(file, []byte("damaged is no mistake of the flag"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		factFile string
		standing standingFlags
		want     string
	}{
		{"nothing", "", standingFlags{}, ""},
		{"a file that is there", file, standingFlags{}, ""},
		{"a file that is not", filepath.Join(dir, "other"), standingFlags{}, ""},
		{"a folder", dir, standingFlags{}, `--fact-file "` + dir + `": exists and is not a regular file`},
		{"no folder", dir + "/none/facts", standingFlags{}, `--fact-file "` + dir + `/none/facts": there is no folder ` + dir + "/none"},
		{"backwards", "", standingFlags{every: -time.Minute}, "--verify-every -1m0s: must not be negative; 0 means never"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := serveOptions{registries: cli.RegistryFlags{FactFile: tt.factFile}, standing: tt.standing}
			got := ""
			if err := o.validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
