package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	isRendered  = regexp.MustCompile(`(?s)kind: MachineConfig\n.*name: (rendered-\S+)\n`)
	readsConfig = regexp.MustCompile(`To do: let the guard read MachineConfig (\S+), or add it to the dump`)
	allows      = regexp.MustCompile(`To do: use AllowContactingSource in (\S+) ([\w-]+)`)
	gives       = regexp.MustCompile(`To do: give (\S+), in an Image(Tag|Digest)MirrorSet, the mirror (\S+)`)
	byOverride  = regexp.MustCompile(`To do: .*override`)
	leadsBack   = regexp.MustCompile(`NoRoute: Never|RejectedByMCO: `)
)

// TestRemedyOfObjects: the edit of a mirror set that a refusal asks for is not refused for what it is to mend, and a mirror that is to come first
// is admitted.
func TestRemedyOfObjects(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, s := range all {
		if _, invalid := s.Invalid(); invalid {
			continue
		}
		message := askPolicy(t, &s).Message
		allow, give := allows.FindStringSubmatch(message), gives.FindStringSubmatch(message)
		switch {
		case byOverride.MatchString(message), allow == nil && give == nil:
			continue
		case allow != nil:
			named := regexp.MustCompile("(?s)kind: " + allow[1] + "\n *metadata: {name: " + allow[2] + "}")
			k := slices.IndexFunc(s.Before, named.MatchString)
			if k >= 0 {
				s.Change, s.Delete = s.Before[k:k+1], false
			}
			s.Change = []string{strings.ReplaceAll(s.Change[0], "NeverContactSource", "AllowContactingSource")}
		default:
			contact := map[bool]string{true: "NeverContactSource", false: "AllowContactingSource"}[strings.Contains(s.Change[0], "NeverContactSource")]
			s.Change, s.Delete = []string{fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: Image%[2]sMirrorSet\nmetadata: {name: remedy}\nspec: {image%[2]sMirrors: [{source: %[1]q, mirrors: [%[3]s], mirrorSourcePolicy: %[4]s}]}\n", give[1], give[2], give[3], contact)}, false
		}
		if again := askPolicy(t, &s); leadsBack.MatchString(again.Message) || give != nil && !again.Allowed {
			t.Errorf("%s: what is to be done:\n%s", s.Name, again)
		}
		done++
	}
	if done < 8 {
		t.Errorf("%d are carried out: too few", done)
	}
}

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
