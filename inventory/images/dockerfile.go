package images

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
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

// addDockerfiles adds the images that a build pulls for its inline Dockerfiles, which are at a path in an
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

// A dockerfile finds the images in a Dockerfile as OpenShift's builds read it
// (openshift/builder, pkg/build/builder/common.go, addBuildParameters; openshift/imagebuilder,
// dispatchers.go). What depends on the architecture of the build ("$TARGETARCH") is left out,
// and so is what no builder could parse.
type dockerfile struct {
	given map[string]string // the arguments that the strategy gives
	// others are the names that stand for image sources of the build (spec.source.images[].as).
	others map[string]bool
	// replacesLast is set if the strategy has an image for the last stage.
	replacesLast bool

	global map[string]string // the arguments above the first FROM, with their values
	local  map[string]string // those of the stage that is read; nil above the first FROM
	stages map[string]bool   // the names of the stages so far, in lower case
	found  map[string]bool
}

func (d *dockerfile) images(text string) []string {
	d.global, d.found = map[string]string{}, map[string]bool{}
	last := "" // the image of the stage that is read
	for instruction := range instructions(text) {
		words := instruction[1:]
		switch strings.ToUpper(instruction[0]) {
		case "ARG":
			d.arg(words)
		case "FROM":
			d.add(last)
			last = d.from(words)
		case "COPY", "RUN", "ADD":
			d.copied(words)
		}
	}
	if !d.replacesLast {
		d.add(last)
	}
	return slices.Sorted(maps.Keys(d.found))
}

// maxInDockerfile is how many images of one Dockerfile are read, each once. In 1 MiB may be 70,000, for 28 MiB of memory: no object names
// as many in fewer bytes. A build that names more is not known in full, for which a gap of the inventory would let any tenant have
// all changes refused; what a build cannot pull refuses none.
const maxInDockerfile = 1000

func (d *dockerfile) add(image string) {
	if d.found[image] || len(d.found) >= maxInDockerfile {
		return
	}
	if image != "" && image != "scratch" && isReference(image) && !d.others[image] {
		d.found[image] = true
	}
}

// arg reads ARG NAME[=DEFAULT]...
func (d *dockerfile) arg(words []string) {
	for _, word := range words {
		name, value, hasValue := strings.Cut(word, "=")
		value, ok := d.expand(value)
		if given, isGiven := d.given[name]; isGiven {
			value, hasValue = given, true
		}
		scope := d.local
		if scope == nil {
			scope = d.global
		} else if global, isGlobal := d.global[name]; isGlobal && !hasValue {
			value = global
		}
		if ok {
			scope[name] = value
		}
	}
}

// from begins a stage: FROM [--FLAG]... IMAGE [AS NAME]. It returns the image, "" for a stage
// that begins with another.
func (d *dockerfile) from(words []string) string {
	d.local = nil // only the arguments above all stages count in FROM
	words = slices.DeleteFunc(words, func(word string) bool { return strings.HasPrefix(word, "--") })
	image := ""
	if len(words) > 0 {
		image, _ = d.expand(words[0])
	}
	if d.isStage(image) {
		image = ""
	}
	if len(words) == 3 && strings.EqualFold(words[1], "as") {
		d.stages[strings.ToLower(words[2])] = true
	}
	d.local = map[string]string{}
	return image
}

// fromFlag is what instructions name other stages and images with: COPY --from=, and the
// mounts of RUN.
var fromFlag = regexp.MustCompile(`^(?:--from=|--mount=(?:.*,)?from=)([^,]+)`)

func (d *dockerfile) copied(words []string) {
	for _, word := range words {
		if !strings.HasPrefix(word, "--") {
			return // flags come first
		}
		if m := fromFlag.FindStringSubmatch(word); m != nil {
			image, _ := d.expand(m[1])
			if _, err := strconv.Atoi(image); err != nil && !d.isStage(image) {
				d.add(image)
			}
		}
	}
}

func (d *dockerfile) isStage(name string) bool { return d.stages[strings.ToLower(name)] }

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
		if !strings.Contains(word, "$") {
			break
		}
		word = variable.ReplaceAllStringFunc(word, func(match string) string {
			m := variable.FindStringSubmatch(match)
			value, isKnown := d.value(m[1]+m[2], m[3], m[4])
			known = known && isKnown
			return value
		})
	}
	if !known {
		return "", false
	}
	return strings.Trim(word, `"'`), true
}

// value returns the value of a variable with an operator, such as ":-", and its operand.
func (d *dockerfile) value(name, operator, operand string) (value string, known bool) {
	value, isSet := d.local[name]
	if d.local == nil {
		value, isSet = d.global[name]
	}
	if strings.HasPrefix(operator, ":") {
		isSet = value != ""
	}
	switch {
	case strings.HasSuffix(operator, "-") && !isSet, strings.HasSuffix(operator, "+") && isSet:
		return operand, true
	case strings.HasSuffix(operator, "+"):
		return "", true
	default:
		return value, isSet || !builtIn.MatchString(name)
	}
}

// heredoc matches the beginning of a text that continues an instruction.
var heredoc = regexp.MustCompile(`<<-?["']?([A-Za-z_]\w*)`)

// instructions yields the words of each instruction of a Dockerfile: without comments, continued lines joined,
// and without the texts of here-documents.
func instructions(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		text = strings.TrimPrefix(text, "\ufeff")
		escape := `\`
		if m := escapeDirective.FindStringSubmatch(text); m != nil {
			escape = m[1]
		}
		var instruction, ends []string // ends are those of here-documents
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
			instruction = append(instruction, strings.Fields(before)...)
			if continues || len(instruction) == 0 {
				continue
			}
			ends = heredocs(instruction)
			if !yield(instruction) {
				return
			}
			instruction = nil
		}
		if len(instruction) > 0 {
			yield(instruction)
		}
	}
}

// escapeDirective is the directive that changes the character by which a line is continued.
var escapeDirective = regexp.MustCompile("(?i)^(?:\\s*#\\s*syntax\\s*=[^\\n]*\\n)?\\s*#\\s*escape\\s*=\\s*([\\\\`])")

// heredocs returns the lines that end the here-documents of an instruction, in order.
func heredocs(instruction []string) []string {
	if !slices.Contains([]string{"RUN", "COPY", "ADD"}, strings.ToUpper(instruction[0])) {
		return nil
	}
	var ends []string
	for _, word := range instruction[1:] {
		if m := heredoc.FindStringSubmatch(word); m != nil {
			ends = append(ends, m[1])
		}
	}
	return ends
}
