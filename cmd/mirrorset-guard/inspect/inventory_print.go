package inspect

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// printRefs leaves out what no node could parse, and says on stderr how much that is: a
// mirroring tool would stop there, or take one line for two.
func printRefs(s cli.Streams, images []policy.Image) error {
	out := bufio.NewWriter(s.Out)
	malformed := 0
	for _, img := range images {
		if _, err := reference.ParseDockerRef(img.Ref); err != nil {
			malformed++
			continue
		}
		fmt.Fprintln(out, img.Ref)
	}
	if malformed > 0 {
		s.Note("left out %s that no node could parse; -o table shows them", text.Count(malformed, "reference"))
	}
	return out.Flush()
}

// imagesTable names two consumers of an image, and counts the others.
func imagesTable(images []policy.Image) *answer.Answer {
	table := answer.Table{Head: []string{"IMAGE", "USE", "USERS"}}
	for _, img := range images {
		table.Rows = append(table.Rows, []answer.Line{answer.Say(img.Ref), useCell(img), answer.Say(img.ConsumerNames(2))})
	}
	return &answer.Answer{Blocks: []answer.Block{table}}
}

// wideTable leaves nothing out.
func wideTable(images []policy.Image) *answer.Answer {
	table := answer.Table{Head: []string{"IMAGE", "USE", "RUNNING", "NAMESPACES", "USERS"}}
	for _, img := range images {
		digests, namespaces := map[string]bool{}, map[string]bool{}
		for _, c := range img.Consumers {
			digests[c.Digest], namespaces[c.Namespace] = true, true
		}
		users := answer.Say(img.ConsumerNames(len(img.Consumers)))
		table.Rows = append(table.Rows, []answer.Line{answer.Say(img.Ref), useCell(img), answer.Say(named(digests)), answer.Say(named(namespaces)), users})
	}
	return &answer.Answer{Blocks: []answer.Block{table}}
}

func useCell(img policy.Image) answer.Line {
	tones := map[policy.Use]answer.Tone{policy.Running: answer.Good, policy.History: answer.Hint}
	return answer.Line{{Text: img.Use().String(), Tone: tones[img.Use()]}}
}

// named lists the names of a set except "", or "-" for none.
func named(set map[string]bool) string {
	delete(set, "")
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(set)), ","), "-")
}
