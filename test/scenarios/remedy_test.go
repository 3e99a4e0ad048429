package scenarios

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	isRendered  = regexp.MustCompile(`(?s)kind: MachineConfig\n.*name: (rendered-\S+)\n`)
	readsConfig = regexp.MustCompile(`To do: let the guard read MachineConfig (\S+), or add it to the dump`)
)

// TestRemedyOfUnreadConfig: where a change is admitted for what nodes have by a rendered config, it is
// refused without that. The refusal names the MachineConfig, and with that one added to the dump, as it
// says, the change is admitted.
func TestRemedyOfUnreadConfig(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var carriedOut []string
	for _, s := range all {
		if _, invalid := s.Invalid(); invalid {
			continue
		}
		objects := strings.Split(strings.Join(s.Objects, "\n---\n"), "\n---\n")
		rendered := slices.DeleteFunc(slices.Clone(objects), func(o string) bool { return !isRendered.MatchString(o) })
		if len(rendered) == 0 || !askPolicy(t, &s).Allowed {
			continue
		}
		less := s
		less.Objects = slices.DeleteFunc(slices.Clone(objects), isRendered.MatchString)
		refused := askPolicy(t, &less)
		if refused.Allowed {
			continue // it did not depend on that
		}
		asked := readsConfig.FindStringSubmatch(refused.String())
		if asked == nil {
			t.Errorf("%s: no remedy says what to read:\n%s", s.Name, refused)
			continue
		}
		wanted := slices.IndexFunc(rendered, func(o string) bool { return isRendered.FindStringSubmatch(o)[1] == asked[1] })
		if wanted < 0 {
			t.Errorf("%s: there is no MachineConfig %s", s.Name, asked[1])
			continue
		}
		less.Objects = append(less.Objects, rendered[wanted])
		if again := askPolicy(t, &less); !again.Allowed {
			t.Errorf("%s: refused with MachineConfig %s as well:\n%s", s.Name, asked[1], again)
		}
		carriedOut = append(carriedOut, s.Name)
	}
	if len(carriedOut) == 0 {
		t.Error("in no story does it depend on a rendered config")
	}
	t.Logf("carried out in %q", carriedOut)
}
