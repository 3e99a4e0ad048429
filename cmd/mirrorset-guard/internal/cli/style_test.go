package cli

import "testing"

// TestHasColours: who decides whether there are colours.
func TestHasColours(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"a terminal", true, nil, true},
		{"a pipe", false, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"CLICOLOR=0", true, map[string]string{"CLICOLOR": "0"}, false},
		{"forced", false, map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{"not forced", false, map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{"NO_COLOR is stronger", true, map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, false},
	} {
		if got := hasColours(tt.terminal, func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%s: colours %v", tt.reason, got)
		}
	}
}
