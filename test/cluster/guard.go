package cluster

import (
	"fmt"
	"os"
	"os/exec"
)

// BuildGuard builds the command mirrorset-guard as file. In a test with the race
// detector it gets the race detector as well: a race is then the end of it where
// GORACE says halt_on_error=1, and what was compiled for the test serves twice.
func BuildGuard(file string) error {
	args := []string{"build", "-o", file}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if raceEnabled {
		args, env = append(args, "-race"), append(os.Environ(), "CGO_ENABLED=1")
	}
	build := exec.Command("go", append(args, "./cmd/mirrorset-guard")...)
	build.Dir, build.Env = Root(), env
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the guard: %w\n%s", err, out)
	}
	return nil
}
