package manual

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// others are programs that the manual uses, beside those that are looked at below.
var others = strings.Fields("base64 bash cat cd chmod cp curl docker echo export flux git go grep head helm jq ln openssl podman sed sh sha256sum sort tail tee test umask xargs")

// onlyOC are commands that oc has and kubectl has not, with the flags that it documents for them.
var onlyOC = map[string][]string{
	"adm must-gather":       nil,
	"adm node-logs":         {"--role", "--path"},
	"adm policy who-can":    nil,
	"adm release mirror":    nil,
	"adm upgrade recommend": {"--version", "--accept"},
	"debug":                 nil,
	"image mirror":          {"--keep-manifest-list", "--insecure", "-a", "-f"},
	"mirror":                {"--v2", "-c", "--config", "--workspace", "--dry-run", "--generate"}, // a plugin
	"whoami":                {"-t"},
}

// ofKubectl are commands that oc has under another name than kubectl.
var ofKubectl = map[string]string{"adm top": "top", "adm uncordon": "uncordon", "adm cordon": "cordon", "adm drain": "drain"}

// TestCommands: the programs, subcommands and flags that the manual names exist. The program itself
// says so: with --help after everything else it has understood it.
func TestCommands(t *testing.T) {
	programs := map[string]program{"mirrorset-guard": func(ctx context.Context, args []string) (string, error) {
		var out bytes.Buffer
		if code := app.Run(ctx, append([]string{"mirrorset-guard"}, args...), strings.NewReader(""), &out, &out); code != 0 {
			return out.String(), fmt.Errorf("exit code %d", code)
		}
		return out.String(), nil
	}}
	if skip.Integration() {
		assets, err := repo.Assets()
		if err != nil {
			skip.Now(t, err)
		}
		programs["kubectl"], programs["skopeo"] = command(filepath.Join(assets, "kubectl")), command("skopeo")
	}
	var checks errgroup.Group
	checks.SetLimit(4)
	asked := map[string]bool{}
	for _, c := range everyCommand(t) {
		words := c.Words
		switch {
		case (words[0] == "oc" || words[0] == "kubectl") && words[1] == "mirrorset": // the guard as a plugin
			words = append([]string{"mirrorset-guard"}, words[2:]...)
		case words[0] == "kubectl" && words[1] == "krew":
			words = nil
		case words[0] == "oc":
			words = asKubectl(t, c)
		}
		if len(words) < 2 || words[1] == "COMMAND" || programs[words[0]] == nil || asked[strings.Join(words, " ")] {
			continue
		}
		asked[strings.Join(words, " ")] = true
		checks.Go(func() error {
			if err := understood(t.Context(), programs[words[0]], words[1:]); err != nil {
				t.Errorf("%s: %v", c, err)
			}
			return nil
		})
	}
	_ = checks.Wait()
	least := 50 // of the guard's own
	if skip.Integration() {
		least = 100
	}
	if len(asked) < least {
		t.Errorf("only %d commands were found", len(asked))
	}
}

// A program runs one with arguments, and returns what it writes.
type program func(ctx context.Context, args []string) (string, error)

// command is the program of a file, or of a name in the PATH.
func command(name string) program {
	return func(ctx context.Context, args []string) (string, error) {
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		return string(out), err
	}
}

// everyCommand returns all commands of the manual. The first words of commands in blocks are programs
// that are known.
func everyCommand(t *testing.T) []Command {
	t.Helper()
	known := slices.Concat([]string{"mirrorset-guard", "oc", "kubectl", "make", "skopeo", "oras"}, others)
	pages := pages(t)
	for _, p := range pages {
		for _, b := range p.Blocks {
			if !b.IsTyped() {
				continue
			}
			commands, err := b.Commands()
			if err != nil {
				t.Error(err)
			}
			for _, c := range commands {
				if program := c.Words[0]; !slices.Contains(known, program) && !existsBelow(top, program) {
					t.Errorf("%s: %s is no program that this test knows", c, program)
				}
			}
		}
	}
	commands, mistakes := Commands(pages, "mirrorset-guard", "oc", "kubectl", "skopeo", "make")
	for _, err := range mistakes {
		t.Error(err)
	}
	return commands
}

// asKubectl returns the words of a command of oc as kubectl takes them; nil if only oc has it.
func asKubectl(t *testing.T, c Command) []string {
	t.Helper()
	line := strings.Join(c.Words[1:], " ")
	for name, flags := range onlyOC {
		if line != name && !strings.HasPrefix(line, name+" ") {
			continue
		}
		for _, word := range c.Words[1:] {
			if word == "--" {
				break
			}
			if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(word, "-") && !slices.Contains(flags, flag) {
				t.Errorf("%s: %s is none of the flags that this test knows of oc %s: %q", c, flag, name, flags)
			}
		}
		return nil
	}
	for name, other := range ofKubectl {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Fields("kubectl " + other + rest)
		}
	}
	return append([]string{"kubectl"}, c.Words[1:]...)
}

// subcommands is how a program's help begins that wants one more word.
var subcommands = regexp.MustCompile(`(?m)^(Available Commands|Basic Commands)`)

// understood asks a program for help with arguments that it has to understand before.
func understood(ctx context.Context, ask program, args []string) error {
	var asked []string
	for _, arg := range args {
		if arg == "--" { // what comes after it is for another program
			break
		}
		asked = append(asked, arg)
	}
	out, err := ask(ctx, append(asked, "--help"))
	if err != nil {
		return fmt.Errorf("%w: %s", err, firstLine(out))
	}
	if usage := usageOf(out); subcommands.MatchString(out) && len(usage) > 0 {
		// A word that is no subcommand is an argument, which a command that has subcommands does not take.
		words := slices.DeleteFunc(slices.Clone(asked), func(arg string) bool { return strings.HasPrefix(arg, "-") })
		if next := len(usage) - 1; next < len(words) && !strings.HasPrefix(words[0], "-") && !strings.Contains(strings.Join(asked, " "), " -") {
			return fmt.Errorf("%s has no subcommand %q", strings.Join(usage, " "), words[next])
		}
	}
	return nil
}

var usage = regexp.MustCompile(`(?m)^Usage:\n  (.+)$`)

// usageOf returns the command that a help is about.
func usageOf(help string) []string {
	found := usage.FindStringSubmatch(help)
	if found == nil {
		return nil
	}
	var words []string
	for word := range strings.FieldsSeq(found[1]) {
		if strings.ToLower(word) != word || strings.HasPrefix(word, "[") {
			break
		}
		words = append(words, word)
	}
	return words
}

var (
	target   = regexp.MustCompile(`(?m)^([a-z-]+):.*## `)
	setting  = regexp.MustCompile(`^([A-Z_]+)=`)
	settable = regexp.MustCompile(`[A-Z][A-Z_]+`)
)

// TestMakeTargets: targets of make that the manual names exist, and the Makefile reads the variables
// that are set for them.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, found := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, found[1])
	}
	variables := append(settable.FindAllString(string(makefile), -1), "NO_SKIP")
	commands, _ := Commands(pages(t), "make")
	for _, c := range commands {
		for _, word := range c.Words[1:] {
			if found := setting.FindStringSubmatch(word); found != nil {
				if !slices.Contains(variables, found[1]) {
					t.Errorf("%s: the Makefile does not read %s", c, found[1])
				}
			} else if !slices.Contains(targets, word) {
				t.Errorf("%s: there is no target %q", c, word)
			}
		}
	}
	if len(commands) < 40 {
		t.Errorf("only %d commands were found", len(commands))
	}
}
