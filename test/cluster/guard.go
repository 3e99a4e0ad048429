package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// Programs that were built beforehand, by the variables that name them: make integration sets both.
const (
	guardVariable = "GUARD"
	raceVariable  = "GUARD_RACE" // with the race detector
)

// BuildGuard puts the command mirrorset-guard at file: with the race detector if one was built
// beforehand. It is to be started with GORACE.
func BuildGuard(file string) error {
	if built := os.Getenv(raceVariable); built != "" {
		return os.Symlink(built, file)
	}
	return BuildRelease(file)
}

// BuildRelease puts the command at file as it is released, without the race detector, which takes several
// times as much of a processor.
func BuildRelease(file string) error {
	if built := os.Getenv(guardVariable); built != "" {
		return os.Symlink(built, file)
	}
	return BuildVersion(file, "devel")
}

// BuildVersion builds the command as another version.
func BuildVersion(file, version string) error {
	return build(file, append(os.Environ(), "CGO_ENABLED=0"), "-ldflags=-w -X main.version="+version)
}

// build takes the last of several -ldflags.
func build(file string, env []string, flags ...string) error {
	// Without what debuggers want, linking takes half as long.
	build := exec.Command("go", append(append([]string{"build", "-ldflags=-w", "-o", file}, flags...), "./cmd/mirrorset-guard")...)
	build.Dir, build.Env = repo.Root(), env
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the guard: %w\n%s", err, out)
	}
	return touchSources()
}

// GORACE is what the variable of that name has to be for a guard with the race detector: a
// race ends the guard. Before it exits, any process with the race detector waits for reports
// that are still being written, by default a whole second.
const GORACE = "halt_on_error=1 atexit_sleep_ms=50"

// touchSources opens the guard's sources. The test does not import them, so without this
// go test would reuse a cached result although the guard has changed.
func touchSources() error {
	for _, folder := range []string{"cmd", "webhook", "review", "policy", "inventory", "certs", "manifests"} {
		err := filepath.WalkDir(filepath.Join(repo.Root(), folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, err = os.Stat(path)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
