package images

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// dockerfileField is where a build has its Dockerfile if it is not in a repository of sources.
const dockerfileField = "spec.source.dockerfile"

// containerfileField is where a MachineOSConfig has that by which the image of a pool's nodes is built.
const containerfileField = "spec.containerFile[].content"

// layeringStages are the stages that MCO puts before those of a MachineOSConfig (machine-config-operator,
// pkg/controller/build/buildrequest/assets/Containerfile.on-cluster-build-template).
var layeringStages = []string{"extract", "configs"}

// addDockerfiles adds the images that inline Dockerfiles of a build begin with, which are at a path in an
// object and follow these stages.
func (h *Holder) addDockerfiles(object map[string]any, path string, before []string, use policy.Use) {
	visitField(object, path, func(field string, value any) {
		if text, _ := value.(string); text != "" {
			h.addDockerfile(object, field, text, before, use)
		}
	})
}

func (h *Holder) addDockerfile(object map[string]any, field, text string, before []string, use policy.Use) {
	d := dockerfile{
		given: map[string]string{}, others: map[string]bool{}, stages: map[string]bool{},
		replacesLast: textAt(object, "spec.strategy.dockerStrategy.from.name") != "",
	}
	visitField(object, "spec.strategy.dockerStrategy.buildArgs[]", func(_ string, value any) {
		arg, _ := value.(map[string]any)
		name, _ := arg["name"].(string)
		d.given[name], _ = arg["value"].(string)
	})
	visitField(object, "spec.source.images[].as[]", func(_ string, value any) {
		name, _ := value.(string)
		d.others[name] = true
	})
	for _, stage := range before {
		d.stages[stage] = true
	}
	for _, image := range d.images(text) {
		h.add(Reference{Image: image, Container: field, Use: use})
	}
}

// A dockerfile finds the images that FROM lines name, as OpenShift's builds read them
// (openshift/builder, pkg/build/builder/common.go, addBuildParameters; openshift/imagebuilder,
// dispatchers.go). It leaves out names that depend on the architecture of the build ("$TARGETARCH"),
// and those that no builder could parse.
type dockerfile struct {
	given map[string]string // the arguments that the strategy gives
	// others are the names that stand for image sources of the build (spec.source.images[].as).
	others map[string]bool
	// replacesLast is set if the strategy has an image for the last stage.
	replacesLast bool

	args   map[string]string // those above the first FROM, with their values: only they count in FROM
	stages map[string]bool   // the names of the stages so far, in lower case
}

// maxInDockerfile is how many images of one Dockerfile are read, each once. In 1 MiB may be 70,000, for 28 MiB of memory: no object names
// as many in fewer bytes. A build that names more is not known in full; a gap of the inventory for it would let any tenant have
// all changes refused, while an image that a build cannot pull refuses none.
const maxInDockerfile = 1000

func (d *dockerfile) images(text string) []string {
	d.args = map[string]string{}
	found := map[string]bool{}
	add := func(image string) {
		if image != "" && image != "scratch" && !d.others[image] && len(found) < maxInDockerfile && isReference(image) {
			found[image] = true
		}
	}
	begun, last := false, "" // the image of the stage that is read
	for words := range instructions(text) {
		switch instruction := strings.ToUpper(words[0]); {
		case instruction == "ARG" && !begun:
			d.arg(words[1:])
		case instruction == "FROM":
			add(last)
			begun, last = true, d.from(words[1:])
		}
	}
	if !d.replacesLast {
		add(last)
	}
	return slices.Sorted(maps.Keys(found))
}

// arg reads ARG NAME[=DEFAULT]...
func (d *dockerfile) arg(words []string) {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		value, known := d.expand(value)
		if given, ok := d.given[name]; ok {
			value = given
		}
		if known {
			d.args[name] = value
		}
	}
}

// from begins a stage: FROM [--FLAG]... IMAGE [AS NAME]. It returns the image, "" for a stage
// that begins with another.
func (d *dockerfile) from(words []string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return strings.HasPrefix(word, "--") })
	image := ""
	if len(words) > 0 {
		image, _ = d.expand(words[0])
	}
	if d.stages[strings.ToLower(image)] {
		image = ""
	}
	if len(words) == 3 && strings.EqualFold(words[1], "as") {
		d.stages[strings.ToLower(words[2])] = true
	}
	return image
}

var (
	// variable matches the innermost $NAME, ${NAME} or ${NAME:-DEFAULT} of a word.
	variable = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^{}$]*))?\})`)
	// builtIn are the arguments that tell a build its platform.
	builtIn = regexp.MustCompile(`^(?:TARGET|BUILD)(?:PLATFORM|OS|ARCH|VARIANT)$`)
)

// The bounds of a word: a text that doubles with each argument must not grow for ever.
const (
	maxExpanded   = 4096
	maxExpansions = 8
)

// expand replaces the variables in a word; those that are not set are empty. It reports false if
// the value is not known here.
func (d *dockerfile) expand(word string) (string, bool) {
	known := true
	for range maxExpansions {
		if len(word) > maxExpanded {
			return "", false
		}
		word = variable.ReplaceAllStringFunc(word, func(match string) string {
			m := variable.FindStringSubmatch(match)
			name, operator, operand := m[1]+m[2], m[3], m[4]
			value, isSet := d.args[name]
			if strings.HasPrefix(operator, ":") {
				isSet = value != ""
			}
			switch {
			case strings.HasSuffix(operator, "-") && !isSet, strings.HasSuffix(operator, "+") && isSet:
				return operand
			case strings.HasSuffix(operator, "+"):
				return ""
			}
			known = known && (isSet || !builtIn.MatchString(name))
			return value
		})
	}
	if !known {
		return "", false
	}
	return strings.Trim(word, `"'`), true
}

var (
	// escapeDirective is the directive that changes the character by which a line is continued.
	escapeDirective = regexp.MustCompile("(?i)^(?:\\s*#\\s*syntax\\s*=[^\\n]*\\n)?\\s*#\\s*escape\\s*=\\s*([\\\\`])")
	// takesText matches the instructions that here-documents may follow, and heredoc the beginning of one.
	takesText = regexp.MustCompile(`(?i)^(?:RUN|COPY|ADD)$`)
	heredoc   = regexp.MustCompile(`<<-?["']?([A-Za-z_]\w*)`)
)

// instructions yields the words of each instruction of a Dockerfile: without comments, continued lines joined,
// and without the texts of here-documents, in which a line may begin with FROM.
func instructions(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		text = strings.TrimPrefix(text, "\ufeff")
		escape := `\`
		if m := escapeDirective.FindStringSubmatch(text); m != nil {
			escape = m[1]
		}
		var words, ends []string // ends are those of here-documents
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			switch {
			case len(ends) > 0:
				if line == ends[0] {
					ends = ends[1:]
				}
				continue
			case line == "", line[0] == '#':
				continue
			}
			before, continues := strings.CutSuffix(line, escape)
			words = append(words, strings.Fields(before)...)
			if continues || len(words) == 0 {
				continue
			}
			for _, word := range words[1:] {
				if m := heredoc.FindStringSubmatch(word); m != nil && takesText.MatchString(words[0]) {
					ends = append(ends, m[1])
				}
			}
			if !yield(words) {
				return
			}
			words = nil
		}
		if len(words) > 0 {
			yield(words)
		}
	}
}
