package manifests

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

const root = ".."

// instructions returns the instructions of the Dockerfile, each on one line,
// without comments.
func instructions(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	continued := false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part := strings.TrimSpace(strings.TrimSuffix(line, `\`))
		if continued {
			out[len(out)-1] += " " + part
		} else {
			out = append(out, part)
		}
		continued = strings.HasSuffix(line, `\`)
	}
	return out
}

// lastStage returns the instructions of the last stage.
func lastStage(all []string) []string {
	start := 0
	for i, instruction := range all {
		if strings.HasPrefix(instruction, "FROM ") {
			start = i
		}
	}
	return all[start:]
}

func TestDockerfileBuildsAStaticBinaryForTheTarget(t *testing.T) {
	all := instructions(t)
	for _, want := range []string{
		"FROM --platform=$BUILDPLATFORM docker.io/library/golang:" + goVersion(t) + " AS build",
		"ARG TARGETOS",
		"ARG TARGETARCH",
		"RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH " +
			`go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /mirrorset-guard ./cmd/mirrorset-guard`,
	} {
		if !slices.Contains(all, want) {
			t.Errorf("missing: %s\nin:\n%s", want, strings.Join(all, "\n"))
		}
	}
}

// goVersion returns the Go version that go.mod requires, without the patch.
func goVersion(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if version, ok := strings.CutPrefix(line, "go "); ok {
			parts := strings.Split(strings.TrimSpace(version), ".")
			return strings.Join(parts[:2], ".")
		}
	}
	t.Fatal("go.mod names no version of Go")
	return ""
}

// The image runs one binary, as a user that runAsNonRoot can distinguish from root. Its labels are
// compared with those of `make image` in test/image.
func TestDockerfileRunsOneBinaryAsNobody(t *testing.T) {
	want := []string{
		"FROM scratch",
		"ARG VERSION=devel",
		"COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt",
		"COPY LICENSE /licenses/LICENSE",
		"COPY --from=build /mirrorset-guard /mirrorset-guard",
		"USER 65532:65532",
		`ENTRYPOINT ["/mirrorset-guard"]`,
	}
	isLabel := func(instruction string) bool { return strings.HasPrefix(instruction, "LABEL ") }
	if got := slices.DeleteFunc(lastStage(instructions(t)), isLabel); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The deployment passes arguments to the image's entry point, and names the image as
// kustomize expects.
func TestDeploymentRunsTheImage(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	c := d.Spec.Template.Spec.Containers[0]
	var k kustomization
	read(t, kustomizationFile, &k)
	name, tag, _ := strings.Cut(c.Image, ":")
	if len(k.Images) != 1 || k.Images[0].Name != name || k.Images[0].NewTag != tag {
		t.Errorf("kustomize replaces %+v, the deployment runs %s", k.Images, c.Image)
	}
	if entry := `ENTRYPOINT ["/` + name + `"]`; !slices.Contains(instructions(t), entry) || len(c.Command) > 0 || c.Args[0] != "serve" {
		t.Errorf("the deployment runs %q %q in an image without %s", c.Command, c.Args, entry)
	}
}

// If .dockerignore keeps a folder with sources of the binary from the builder, nothing
// but the image breaks.
func TestDockerignoreLetsTheSourceThrough(t *testing.T) {
	data, err := os.ReadFile(root + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	let := strings.Split(string(data), "\n")
	const module = "github.com/mirrorset-guard/mirrorset-guard/"
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "./cmd/mirrorset-guard")
	list.Dir = root
	deps, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for dep := range strings.Lines(string(deps)) {
		folder, ours := strings.CutPrefix(strings.TrimSpace(dep), module)
		if !ours {
			continue
		}
		found++
		if top, _, _ := strings.Cut(folder, "/"); !slices.Contains(let, "!"+top) {
			t.Errorf("%s is needed, but .dockerignore keeps it out", folder)
		}
	}
	if found == 0 {
		t.Error("go list found none of our packages")
	}
}
