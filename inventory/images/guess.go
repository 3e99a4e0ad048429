package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Guess returns the images that an object of any kind seems to name, judging by its shape:
//
//   - a container anywhere in it: a map with an image, in a list that is called so or with
//     other fields of a container, its arguments and its environment included;
//   - a text whose key is that of an image ("image", "baseImage", "imageURL"), if it is a
//     reference with a registry's name, a path, and a tag or a digest;
//   - the image of an image volume, a list of images, and images in pieces
//     (repository and tag).
//
// An image is history if only the status names it, or an object that has done its work: a status
// reports, and pulls nothing. Kinds that Decode knows are better left to it.
func Guess(kind schema.GroupKind, o *unstructured.Unstructured) Holder {
	g := guesser{
		holder: Holder{Kind: GuessedKind(kind), Namespace: o.GetNamespace(), Name: o.GetName()},
		seen:   map[[2]string]bool{},
	}
	if pastKinds[kind] || finishedKinds[kind].isSetIn(o.Object) {
		g.use = policy.History
	}
	g.fields(o.Object)
	return g.holder
}

// GuessedKind returns what a kind that is not known here is called. It includes the API
// group, as two groups may have a kind of the same name.
func GuessedKind(kind schema.GroupKind) string { return kind.String() }

// pastKinds hold past states, kept for a rollback.
var pastKinds = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "ControllerRevision"}: true,
}

// finishedKinds run once. A status says when they have ended.
var finishedKinds = map[schema.GroupKind]statusField{
	{Group: "tekton.dev", Kind: "TaskRun"}:     "completionTime",
	{Group: "tekton.dev", Kind: "PipelineRun"}: "completionTime",
	{Group: "argoproj.io", Kind: "Workflow"}:   "finishedAt",
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}: "terminalState",
}

// A statusField names a field of a status that is set once the object has finished.
type statusField string

func (f statusField) isSetIn(o map[string]any) bool {
	text, _, _ := unstructured.NestedString(o, "status", string(f))
	return f != "" && text != ""
}

// The bounds of the search in one object. Objects are at most 3 MiB in any case.
const (
	maxGuessDepth = 40
	maxGuesses    = 256
)

// A guesser collects the images that an object seems to name.
type guesser struct {
	holder Holder
	use    policy.Use
	seen   map[[2]string]bool // image and place
}

// fields searches an object except for its metadata.
func (g *guesser) fields(o map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		use := g.use
		if key == "status" {
			g.use = policy.History
		}
		if key != "metadata" {
			g.value(place{path: key, key: key}, o[key])
		}
		g.use = use
	}
}

// A place is the position of a value in an object.
type place struct {
	path string
	// key is the last key of the path; for items of a list, the key of the list.
	key   string
	depth int
	// images is set within a field whose key names a list of images.
	images bool
	// own is set below a pull secret, and doubtful below one that may be OpenShift's.
	own, doubtful bool
}

func (p place) at(key string) place {
	p.path += "." + key
	p.key = key
	p.depth++
	return p
}

func (g *guesser) value(p place, value any) {
	if p.depth > maxGuessDepth || len(g.holder.References) >= maxGuesses {
		return
	}
	switch v := value.(type) {
	case string:
		g.text(p, v)
	case []any:
		for i, item := range v {
			below := p
			below.path = fmt.Sprintf("%s[%s]", p.path, itemName(i, item))
			below.depth++
			g.value(below, item)
		}
	case map[string]any:
		g.object(p, v)
	}
}

// notLookedAt are keys below which people and other programs keep their own texts.
var notLookedAt = map[string]bool{"annotations": true, "labels": true, "managedFields": true, "description": true}

func (g *guesser) object(p place, o map[string]any) {
	if secrets, ok := o["imagePullSecrets"].([]any); ok && len(secrets) > 0 {
		own, doubtful := pullSecretsIn(secrets)
		p.own, p.doubtful = p.own || own, p.doubtful || doubtful
	}
	container := isContainer(p, o)
	if container {
		g.container(p, o)
	}
	g.pieces(p, o)
	g.named(p, o)
	if ref, ok := o["reference"].(string); ok && p.key == "image" && isReference(ref) { // of a volume
		g.add(p.at("reference"), ref)
	}
	p.images = isImagesKey(p.key)
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if notLookedAt[key] || container && ofContainer[key] {
			continue
		}
		g.value(p.at(key), o[key])
	}
}

// containerLists are the names of lists of containers. Tekton calls them steps.
var containerLists = map[string]bool{
	"containers": true, "initContainers": true, "ephemeralContainers": true, "steps": true, "sidecars": true,
}

// ofContainer are the fields of a container that are read as such.
var ofContainer = map[string]bool{"image": true, "env": true, "args": true, "command": true}

// otherFields are those that only a container has beside an image.
var otherFields = []string{"command", "args", "env", "envFrom", "volumeMounts", "imagePullPolicy", "securityContext", "script"}

func isContainer(p place, o map[string]any) bool {
	if _, ok := o["image"].(string); !ok {
		return false
	}
	return containerLists[p.key] || slices.ContainsFunc(otherFields, func(f string) bool { return o[f] != nil })
}

// container adds the image of a container, which need not have the name of a registry,
// and what its settings name.
func (g *guesser) container(p place, o map[string]any) {
	if image, _ := o["image"].(string); isReference(image) {
		g.add(p, image)
	}
	env, _ := o["env"].([]any)
	for _, item := range env {
		variable, _ := item.(map[string]any)
		name, _ := variable["name"].(string)
		value, _ := variable["value"].(string)
		g.setting(p, func(s *settings) { s.addEnv(name, value) })
	}
	var args []string
	for _, key := range []string{"command", "args"} {
		list, _ := o[key].([]any)
		for _, item := range list {
			text, _ := item.(string)
			args = append(args, text)
		}
	}
	g.setting(p, func(s *settings) { s.addArgs(args) })
}

// setting adds the images in a container's environment and arguments.
func (g *guesser) setting(p place, addTo func(*settings)) {
	var told Holder
	addTo(&settings{holder: &told})
	for _, r := range told.References {
		g.add(place{path: p.path + " " + r.Container, own: p.own, doubtful: p.doubtful}, r.Image)
	}
}

// pieces adds an image that is in pieces: repository and tag, as Helm charts have it, or
// repository, image and version, as NVIDIA's GPU operator does. A version other than a digest
// is only part of a tag: the node's system is appended to the driver's.
func (g *guesser) pieces(p place, o map[string]any) {
	repository, _ := o["repository"].(string)
	if repository == "" {
		return
	}
	if registry, _ := o["registry"].(string); registry != "" {
		repository = registry + "/" + repository
	}
	if name, _ := o["image"].(string); name != "" && !strings.Contains(name, "/") {
		repository += "/" + name
	}
	for _, key := range []string{"digest", "sha", "tag", "version"} {
		version, _ := o[key].(string)
		if version == "" || key == "version" && !strings.HasPrefix(version, "sha256:") {
			continue
		}
		separator := ":"
		if strings.HasPrefix(version, "sha256:") {
			separator = "@"
		}
		if image := repository + separator + version; isWhole(image) {
			g.add(p, image)
			return
		}
	}
}

// named adds the value of something that has a name: a parameter of a pipeline, or a
// variable outside of a container, as in the configuration of OLM's Subscriptions.
func (g *guesser) named(p place, o map[string]any) {
	name, _ := o["name"].(string)
	if p.key != "env" && !isImageKey(strings.ToLower(name)) && !isImagesKey(name) {
		return
	}
	for _, key := range []string{"default", "value"} {
		text, _ := o[key].(string)
		for _, image := range imagesIn(text, isWhole) {
			g.add(p.at(key), image)
		}
	}
}

// text adds a text if its key says that it is an image, or its scheme.
func (g *guesser) text(p place, text string) {
	if len(text) > maxText {
		return
	}
	switch lower := strings.ToLower(p.key); {
	case isImageKey(lower), isImagesKey(lower), p.images:
		for _, image := range imagesIn(text, isWhole) {
			g.add(p, image)
		}
	case lower == "storageuri":
		// An image that KServe mounts, where nodes may take the newest
		// (kserve.github.io/website, "Modelcars").
		if image, ok := strings.CutPrefix(text, "oci://"); ok && isQualified(image) {
			g.add(p, image)
		}
	case strings.HasPrefix(text, "docker://"):
		if image := strings.TrimPrefix(text, "docker://"); isQualified(image) {
			g.add(p, image)
		}
	}
}

// imageKeys are what the keys of images end with, in lower case.
var imageKeys = []string{"image", "imageref", "imageurl", "imageuri", "imagename", "pullspec", "imagereference"}

func isImageKey(lower string) bool {
	return slices.ContainsFunc(imageKeys, func(end string) bool { return strings.HasSuffix(lower, end) })
}

func isImagesKey(key string) bool { return strings.HasSuffix(strings.ToLower(key), "images") }

// isReference reports whether a node could parse s. Templates cannot be: "$(params.image)".
func isReference(s string) bool {
	_, err := reference.ParseNormalizedNamed(strings.TrimSpace(s))
	return err == nil
}

func (g *guesser) add(p place, image string) {
	image = strings.TrimSpace(image)
	key := [2]string{image, p.path}
	if g.seen[key] || len(g.holder.References) >= maxGuesses {
		return
	}
	g.seen[key] = true
	g.holder.add(Reference{Image: image, Container: p.path, Use: g.use, Guessed: true, OwnPullSecret: p.own || p.doubtful, PullSecretUnknown: p.doubtful && !p.own})
}

// pullSecretsIn says whether there is one of PullSecrets for an object without a type, and one that
// may be OpenShift's. Whose service account it would be is not known.
func pullSecretsIn(secrets []any) (own, doubtful bool) {
	for _, s := range secrets {
		object, _ := s.(map[string]any)
		switch name, _ := object["name"].(string); {
		case name == "":
		case generatedSecret.MatchString(name):
			doubtful = true
		default:
			own = true
		}
	}
	return own, doubtful
}
