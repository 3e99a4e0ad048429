package serve

import (
	"testing"
	"time"
)

func TestStandingFlags(t *testing.T) {
	for _, tt := range []struct {
		name     string
		standing standingFlags
		want     string
	}{
		{"nothing", standingFlags{}, ""},
		{"backwards", standingFlags{every: -time.Minute}, "--verify-every -1m0s: must not be negative; 0 means never"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := serveOptions{standing: tt.standing}
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
