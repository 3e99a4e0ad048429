package inspect

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// entryText says which entry of registries.conf decides, what made it, and whose
// mirrors it has where they are not its own.
func entryText(r mirrors.Resolution, scope string) string {
	if scope == "" {
		return "no entry of registries.conf covers it"
	}
	o := r.Origin(scope)
	if o.MachineConfig != "" {
		return fmt.Sprintf("entry %s, made by a file of MachineConfig %s", scope, o.MachineConfig)
	}
	line := fmt.Sprintf("entry %s, made by %s", scope, text.Names(o.Makers, maxMakers))
	if o.InheritedFrom != "" {
		line += fmt.Sprintf("; mirrors inherited from %s, made by %s", o.InheritedFrom, text.Names(o.InheritedMakers, maxMakers))
	}
	return line
}

// maxMakers is how many objects are named for one entry: more do not help to
// find the one that is to be changed.
const maxMakers = 4

// blockText says which entry blocks a place, and what it comes from.
func blockText(r mirrors.Resolution, scope string) string {
	o := r.BlockOrigin(scope)
	if o.MachineConfig != "" {
		return fmt.Sprintf("blocked by the entry %s (a file of MachineConfig %s)", scope, o.MachineConfig)
	}
	var by []string
	if len(o.Never) > 0 {
		by = append(by, "NeverContactSource in "+text.Names(o.Never, maxMakers))
	}
	switch {
	case o.ListedItself:
		by = append(by, mirrors.BlockedList)
	case o.Listed != "":
		by = append(by, fmt.Sprintf("%s in %s", o.Listed, mirrors.BlockedList))
	}
	return fmt.Sprintf("blocked by the entry %s (%s)", scope, strings.Join(by, "; "))
}
