package registries

import (
	"io"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// Need skips a test that wants distribution's own registry, except in make integration.
func Need(t testing.TB) {
	t.Helper()
	skip.UnlessIntegration(t)
	if _, err := Binary(); err != nil {
		skip.Now(t, err)
	}
}

// Run starts a registry in plain HTTP that ends with the test: distribution's in make integration,
// one in this process elsewhere.
func Run(t testing.TB) *Process {
	t.Helper()
	if !skip.Integration() {
		return ending(t, StartHere())
	}
	Need(t)
	p, err := StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return ending(t, p)
}

func ending(t testing.TB, p *Process) *Process {
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Start starts a Front before a registry as Run does. Both end with the test.
func Start(t testing.TB) *Front {
	t.Helper()
	front, err := NewFront(Run(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		front.Close()
		if err := front.Kill(); err != nil { // it may be another than that of Run by now
			t.Error(err)
		}
	})
	return front
}

// PushImage pushes the image of a name (see Image) under a reference.
func (f *Front) PushImage(t testing.TB, ref, name string) {
	t.Helper()
	img, err := Image(name)
	if err == nil {
		err = f.Push(ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}
