package images

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"

	_ "crypto/sha256" // reference.Parse knows only the digest algorithms that are linked in
)

// settings read the environment and arguments of the containers of a pod,
// which name the images of future pods. An operator deploys these, a job runs or a tool starts
// them; the routers', for example, is known only to the ingress operator until it rolls them out.
// Env IMAGE, *_IMAGE, *_IMAGES and RELATED_IMAGE_*, and arguments like --release-image= or
// -images=, hold images by their names. Any other setting that reads like a whole reference is a
// guess. The rule is the same for every pod spec, as nothing in a spec says who acts on it.
type settings struct {
	holder     *Holder
	attributes Reference
	// seen are the images in holder, by themselves and with the setting that names each. It is
	// made when it is needed, which for most pods is never.
	seen map[setting]bool
}

// A setting is an image and what names it, "" for anything.
type setting struct{ image, field string }

// addSettings adds the images in the settings of the containers of spec, with those attributes of the
// pod that say whether it has a future. With which pull secrets they will be pulled is not
// known.
func (h *Holder) addSettings(spec *corev1.PodSpec, t Reference) {
	s := settings{holder: h, attributes: Reference{Use: policy.Referenced, Keeper: t.Keeper, Ending: t.Ending}}
	if t.Use == policy.History {
		s.attributes.Use = policy.History
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			for _, e := range c.Env {
				s.addEnv(e.Name, e.Value)
			}
			s.addArgs(slices.Concat(c.Command, c.Args))
		}
	}
}

func (s *settings) addEnv(name, value string) {
	s.add("env "+name, value, isImageVariable(name), isImagesVariable(name))
}

func isImageVariable(name string) bool {
	return name == "IMAGE" || strings.HasSuffix(name, "_IMAGE") || strings.HasPrefix(name, "RELATED_IMAGE_")
}

func isImagesVariable(name string) bool {
	return name == "IMAGES" || strings.HasSuffix(name, "_IMAGES") || strings.HasPrefix(name, "IMAGE_")
}

var (
	// imageFlag matches -image, --any-image and their plurals, with or without a value.
	// The Prometheus operator's flag for the image of the config reloader is named after it
	// (prometheus-operator, cmd/operator/main.go).
	imageFlag = regexp.MustCompile(`^(--?(?:[A-Za-z0-9-]+-)?image(s?)|--?prometheus-config-reloader)(?:=(?s:(.*)))?$`)
	// otherFlag matches the name of any flag with a value.
	otherFlag = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9._-]*=`)
)

func (s *settings) addArgs(args []string) {
	for i, arg := range args {
		m := imageFlag.FindStringSubmatch(arg)
		switch {
		case m == nil:
			flag := otherFlag.FindString(arg)
			s.add(strings.TrimSpace("arg "+strings.TrimSuffix(flag, "=")), arg[len(flag):], false, false)
		case strings.Contains(arg, "="):
			s.add("arg "+m[1], m[3], m[2] == "", true)
		case i+1 < len(args):
			s.add("arg "+m[1], args[i+1], m[2] == "", true)
		}
	}
}

// add adds the images in value. An image needs a registry's name in front, even
// if the name of the setting is that of one: a variable called LOGO_IMAGE may hold
// "logo.png" just as well, and that must not be reported as a reference no node can parse.
// Where the name is that of several, which IMAGE_REGISTRY could be, it needs a tag or a
// digest too, and where the name says nothing, it is a guess. Several containers are often
// told the same; it is added once.
func (s *settings) add(field, value string, one, several bool) {
	isImage := isWhole
	if one {
		isImage = isQualified
	}
	guessed := !one && !several
	for _, image := range imagesIn(value, isImage) {
		if s.has(setting{image, field}) || guessed && s.has(setting{image, ""}) {
			continue
		}
		s.seen[setting{image, field}], s.seen[setting{image, ""}] = true, true
		t := s.attributes
		t.Guessed = guessed
		s.holder.add(t.to(image, field, "", ""))
	}
}

func (s *settings) has(what setting) bool {
	if s.seen == nil {
		s.seen = map[setting]bool{}
		for _, r := range s.holder.References {
			s.seen[setting{r.Image, r.Container}], s.seen[setting{r.Image, ""}] = true, true
		}
	}
	return s.seen[what]
}

// maxText is the length up to which a text is searched for images, in bytes. The longest
// lists known, images.json of the machine-config operator, have 8 kB.
const maxText = 64 << 10

// imagesIn returns the images in a setting: one, or a list with a separator or in JSON,
// where each may have a key in front, as in Strimzi's lines "4.1.0=quay.io/strimzi/kafka:1".
func imagesIn(value string, isImage func(string) bool) []string {
	value = strings.TrimSpace(value)
	if len(value) > maxText || !strings.Contains(value, "/") {
		return nil
	}
	if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		var document any
		if json.Unmarshal([]byte(value), &document) == nil {
			return textsIn(document, isImage, nil)
		}
	}
	var images []string
	for _, word := range strings.FieldsFunc(value, isSeparator) {
		word = strings.Trim(word[strings.LastIndex(word, "=")+1:], `"'`)
		word = strings.TrimPrefix(word, "docker://")
		if isImage(word) {
			images = append(images, word)
		}
	}
	return images
}

// isSeparator reports whether r cannot be part of an image and stands between those of a
// list.
func isSeparator(r rune) bool { return r <= ' ' || r == ',' || r == ';' || r == '|' }

// textsIn adds the images in a JSON document to images, in the order of its keys.
func textsIn(document any, isImage func(string) bool, images []string) []string {
	switch v := document.(type) {
	case string:
		if text := strings.TrimSpace(v); isImage(text) {
			images = append(images, text)
		}
	case []any:
		for _, item := range v {
			images = textsIn(item, isImage, images)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			images = textsIn(v[key], isImage, images)
		}
	}
	return images
}

// isQualified reports whether s is a reference that begins with a registry's
// host name, by the rule that tells it from a Docker Hub user
// (github.com/distribution/reference, splitDockerDomain).
func isQualified(s string) bool {
	host, _, found := strings.Cut(s, "/")
	if !found || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		return false
	}
	_, err := reference.ParseNormalizedNamed(s)
	return err == nil
}

// isWhole reports whether s is a reference with the name of a registry, a path, and a tag
// or a digest, and nothing else that is known to look like one.
func isWhole(s string) bool {
	if !isQualified(s) || strings.HasPrefix(s, "localhost/") {
		return false
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil || reference.IsNameOnly(named) {
		return false
	}
	tagged, ok := named.(reference.Tagged)
	return !ok || !taintEffects[tagged.Tag()]
}

// taintEffects end taints and tolerations ("node-role.kubernetes.io/infra:NoSchedule").
var taintEffects = map[string]bool{
	string(corev1.TaintEffectNoSchedule): true, string(corev1.TaintEffectPreferNoSchedule): true, string(corev1.TaintEffectNoExecute): true,
}
