package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

func TestSurveyFlag(t *testing.T) {
	o := serveOptions{surveyEvery: time.Millisecond}
	const want = "--survey-every 1ms: want 1s or more"
	if err := o.validate(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

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
		{"nowhere", "", standingFlags{elect: true}, `--leader-elect-namespace "": the Lease needs a namespace`},
		{"nowhere, and not needed", "", standingFlags{}, ""},
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

func TestFollowingFlags(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "", time.Minute: "", time.Millisecond: "--rollout-stall-after 1ms: want 1s or more; 0 means that rollouts are not followed",
	} {
		o := serveOptions{standing: standingFlags{following: followingFlags{stallAfter: after}}}
		if got := o.validate(); got == nil && want != "" || got != nil && got.Error() != want {
			t.Errorf("%s: got %v, want %q", after, got, want)
		}
	}
}
