package evidence

import "testing"

func TestLongerEntry(t *testing.T) {
	for entry, want := range map[string]string{"a.io": "a.io/b", "a.io/b": "a.io/b/c", "a.io/b/c": "", "https://a.io/v1/": "a.io/b"} {
		if got := longerEntry("a.io/b/c", entry); got != want {
			t.Errorf("beside %s: got %q, want %q", entry, got, want)
		}
	}
}
