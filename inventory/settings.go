package inventory

import (
	"regexp"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"

	_ "crypto/sha256" // reference.Parse knows only the digest algorithms that are linked in
)

// addSettings adds the images that an operator is told to deploy: env IMAGE,
// *_IMAGE and RELATED_IMAGE_*, and arguments like --release-image=. They are the
// images of tomorrow's pods; the routers' is known only to the ingress operator
// until it rolls them out.
func (h *Holder) addSettings(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			h.addEnv(c.Env)
			h.addArgs(slices.Concat(c.Command, c.Args))
		}
	}
}

func (h *Holder) addEnv(env []corev1.EnvVar) {
	for _, e := range env {
		if isImageVariable(e.Name) {
			h.addSetting("env "+e.Name, e.Value)
		}
	}
}

func isImageVariable(name string) bool {
	return name == "IMAGE" || strings.HasSuffix(name, "_IMAGE") || strings.HasPrefix(name, "RELATED_IMAGE_")
}

// imageFlag matches -image and --any-image, with or without a value.
var imageFlag = regexp.MustCompile(`^(--?(?:[A-Za-z0-9-]+-)?image)(?:=(.*))?$`)

func (h *Holder) addArgs(args []string) {
	for i, arg := range args {
		m := imageFlag.FindStringSubmatch(arg)
		if m == nil {
			continue
		}
		value := m[2]
		if !strings.Contains(arg, "=") && i+1 < len(args) {
			value = args[i+1]
		}
		h.addSetting("arg "+m[1], value)
	}
}

// addSetting adds value if it is an image with a registry's name in front: a
// variable called LOGO_IMAGE may hold "logo.png" just as well, and that must not
// be reported as a reference no node can parse. Several containers are often
// told the same; it is added once.
func (h *Holder) addSetting(field, value string) {
	r := Reference{Image: strings.TrimSpace(value), Container: field}
	if !isQualified(r.Image) || slices.Contains(h.References, r) {
		return
	}
	h.add(Reference{Image: r.Image, Container: field, Use: policy.Referenced})
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
