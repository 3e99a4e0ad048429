package skip

import (
	"errors"
	"fmt"
	"testing"
)

// A recorder is a test that writes down how it ends.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper()          {}
func (r *recorder) Log(args ...any)  { r.end += "logged: " + fmt.Sprint(args...) }
func (r *recorder) Skip(args ...any) { r.end += "skipped: " + fmt.Sprint(args...) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.end += "failed: " + fmt.Sprintf(format, args...)
	panic(r)
}

func ending(skip func(testing.TB)) string {
	r := new(recorder)
	func() {
		defer func() { _ = recover() }() // a real Fatalf does not return either
		skip(r)
	}()
	return r.end
}

func TestSkip(t *testing.T) {
	for _, tc := range []struct {
		reason, value string
		skip          func(testing.TB, any)
		want          string
	}{
		{"at a reader's", "", Now, "skipped: no registry"},
		{"in CI", "1", Now, "failed: NO_SKIP is set, and this would be skipped: no registry"},
		{"a part at a reader's", "", Part, "logged: no registry"},
		{"a part in CI", "1", Part, "failed: NO_SKIP is set, and a part of this would be left out: no registry"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Setenv(variable, tc.value)
			if got := ending(func(t testing.TB) { tc.skip(t, errors.New("no registry")) }); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUnlessIntegration(t *testing.T) {
	want := map[bool]string{false: "skipped: make integration runs it", true: ""}[Integration()]
	if got := ending(UnlessIntegration); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
