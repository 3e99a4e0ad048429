package manual

import (
	"fmt"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Command has the words typed for one program, without redirections.
type Command struct {
	// Page and Line are where it stands.
	Page string
	Line int
	// Words are the program and its arguments. Expansions of the shell are left as they are written
	// ("$(oc whoami -t)"), and the commands in there are commands of their own.
	Words []string
}

// String returns its place and its words.
func (c Command) String() string {
	return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, strings.Join(c.Words, " "))
}

// A Step is one command line of a block, and what it writes.
type Step struct {
	Line   int
	Script string
	// Output is nil where the block does not show any.
	Output []string
}

// typed begins a block that shows commands, of programs that the manual uses.
var typed = regexp.MustCompile(`^(\$ |#|[A-Z_]+=\S+ |(mirrorset-guard|make|oc|kubectl|skopeo|oras|curl|openssl|go|git|cd|for|export|podman|helm|argocd|opm|flux|tkn|krew|cosign|sed|if|while)\b)`)

// IsTyped reports whether a block shows commands typed into a shell.
func (b Block) IsTyped() bool {
	switch b.Language {
	case "sh", "shell", "bash", "console":
		return true
	case "", "text":
		return typed.MatchString(strings.TrimLeft(b.Text, " \n"))
	default:
		return false
	}
}

// Steps returns the command lines of a block: those after "$ ", with the output that follows each, or
// else the whole block as one script. A line that ends in a backslash goes on.
func (b Block) Steps() []Step {
	lines := strings.Split(strings.TrimRight(b.Text, "\n"), "\n")
	if !strings.HasPrefix(b.Text, "$ ") {
		return []Step{{b.Line, b.Text, nil}}
	}
	var steps []Step
	for i := 0; i < len(lines); i++ {
		command, isCommand := strings.CutPrefix(lines[i], "$ ")
		if !isCommand {
			last := &steps[len(steps)-1]
			last.Output = append(last.Output, lines[i])
			continue
		}
		step := Step{Line: b.Line + i, Script: command, Output: []string{}}
		for strings.HasSuffix(lines[i], `\`) && i+1 < len(lines) {
			i++
			step.Script += "\n" + lines[i]
		}
		steps = append(steps, step)
	}
	return steps
}

// Commands returns the commands of a block for which IsTyped holds, in its steps and all that the shell
// would run for them.
func (b Block) Commands() ([]Command, error) {
	var all []Command
	for _, step := range b.Steps() {
		commands, err := parse(b.Page, step.Line, step.Script)
		if err != nil {
			return nil, err
		}
		all = append(all, commands...)
	}
	return all, nil
}

func parse(page string, line int, script string) ([]Command, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, fmt.Errorf("%s:%d: no shell would take this: %w", page, line, err)
	}
	var commands []Command
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			c := Command{Page: page, Line: line + int(call.Pos().Line()) - 1}
			for _, word := range call.Args {
				c.Words = append(c.Words, literal(script, word))
			}
			commands = append(commands, c)
		}
		return true
	})
	return commands, nil
}

// literal returns a word as a program would get it, by the parts known without running it.
func literal(script string, w *syntax.Word) string {
	var b strings.Builder
	var add func([]syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(part.Value, "\\\n", ""))
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				add(part.Parts)
			default:
				b.WriteString(script[part.Pos().Offset():part.End().Offset()])
			}
		}
	}
	add(w.Parts)
	return b.String()
}

// Commands returns the commands of one of programs, wherever a page shows them: in blocks, and in
// sentences if they have arguments. Mistakes are blocks that no shell would take.
func Commands(pages []Page, programs ...string) (commands []Command, mistakes []error) {
	wanted := map[string]bool{}
	for _, program := range programs {
		wanted[program] = true
	}
	keep := func(found []Command, err error) {
		if err != nil {
			mistakes = append(mistakes, err)
		}
		for _, c := range found {
			if wanted[c.Words[0]] {
				commands = append(commands, c)
			}
		}
	}
	for _, p := range pages {
		for _, b := range p.Blocks {
			if b.IsTyped() {
				keep(b.Commands())
			}
		}
		for _, s := range p.Spans {
			if program, arguments, _ := strings.Cut(s.Text, " "); wanted[program] && arguments != "" && arguments != "..." {
				keep(parse(p.Path, s.Line, s.Text))
			}
		}
	}
	return commands, mistakes
}
