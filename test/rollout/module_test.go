package rollout

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// TestModule: this module has the versions of the guard's, so that the guard that is compared
// is the one that is shipped.
func TestModule(t *testing.T) {
	guard, here := requirements(t, "../.."), requirements(t, ".")
	if len(guard) < 50 || len(here) < 50 {
		t.Fatalf("the guard requires %d modules, this one %d: these are not all", len(guard), len(here))
	}
	for module, version := range here {
		switch {
		case module == "github.com/mirrorset-guard/mirrorset-guard":
		case guard[module] == "":
			t.Errorf("%s is no requirement of the guard", module)
		case guard[module] != version:
			t.Errorf("%s is at %s, the guard at %s: run go mod tidy here", module, version, guard[module])
		}
	}
}

// requirements returns the versions that the go.mod of a folder asks for.
func requirements(t *testing.T, folder string) map[string]string {
	t.Helper()
	command := exec.Command("go", "mod", "edit", "-json")
	command.Dir = folder
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	return versions
}
