package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// maxTreeConsumers is how many consumers of an image a tree names: JSON has all.
const maxTreeConsumers = 20

// A branch is a line of a tree, wrapped where it is too long, and the branches below it.
type branch struct {
	text  string
	below []branch
}

// printTree prints the routes as trees, for a terminal: image, routes, places with the facts about them,
// and who uses it.
func (e explanation) printTree(w io.Writer, changed bool) {
	for i, img := range e.Images {
		if i > 0 {
			fmt.Fprintln(w)
		}
		cli.WriteLines(w, cli.Wrapped(text.ShortDigests(img.Image), cli.TableWidth), 0)
		writeBranches(w, e.branches(img, changed), "")
	}
	e.printVariants(w)
}

func (e explanation) branches(img review.ImageRoutes, changed bool) []branch {
	route := func(what string, r mirrors.Resolution, route mirrors.Route) branch {
		b := routeBranch(e.paragraphs(r, img.Image, route))
		b.text = strings.TrimSuffix(what+": "+b.text, ": ")
		return b
	}
	before, after := route("before the change", e.Before, img.Before), route("after the change", e.After, img.After)
	var all []branch
	switch {
	case !changed:
		all = append(all, routeBranch(e.paragraphs(e.After, img.Image, img.After)))
	case slices.Equal(e.paragraphs(e.Before, img.Image, img.Before), e.paragraphs(e.After, img.Image, img.After)):
		all = append(all, route("the same before and after the change", e.After, img.After))
	default:
		all = append(all, before, after)
	}
	for _, note := range img.Notes() {
		all = append(all, branch{text: "Note: " + note})
	}
	switch {
	case img.Consumers == nil:
		return all
	case len(img.Consumers) == 0:
		return append(all, branch{text: "nothing in the cluster uses it"})
	}
	used := branch{text: "used by " + text.Plural(len(img.Consumers), "consumer", "consumers")}
	for _, c := range img.Consumers[:min(len(img.Consumers), maxTreeConsumers)] {
		used.below = append(used.below, branch{text: consumerText(c)})
	}
	if more := len(img.Consumers) - len(used.below); more > 0 {
		used.below = append(used.below, branch{text: fmt.Sprintf("and %s more, which -o json has", text.Number(more))})
	}
	return append(all, used)
}

// routeBranch makes a branch of the paragraphs of a route: places are below the remark before them.
func routeBranch(ps []paragraph) branch {
	if len(ps) == 0 {
		return branch{text: "no route"}
	}
	root := branch{text: ps[0].head}
	for _, p := range ps[1:] {
		line := strings.TrimSpace(p.label + " " + p.head)
		if p.body == "" {
			root.below = append(root.below, branch{text: line})
			continue
		}
		root.below = append(root.below, branch{text: line, below: []branch{{text: p.body}}})
	}
	return root
}

func consumerText(c policy.Consumer) string {
	s := c.String()
	if c.Guessed {
		s += ", by the look of the object"
	}
	return text.Line(s) + ": " + c.Use.String()
}

func writeBranches(w io.Writer, all []branch, indent string) {
	for i, b := range all {
		first, rest := "├─ ", "│  "
		if i == len(all)-1 {
			first, rest = "└─ ", "   "
		}
		for k, line := range cli.Wrapped(b.text, max(40, cli.TableWidth-len([]rune(indent+first)))) {
			if k > 0 {
				first = rest
			}
			fmt.Fprintln(w, indent+first+line)
		}
		writeBranches(w, b.below, indent+rest)
	}
}
