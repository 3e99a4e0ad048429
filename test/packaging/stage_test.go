package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

var (
	root        = repo.Root()
	chartFolder = filepath.Join(root, "manifests", "chart")
)

// kustomize builds a folder of manifests with kubectl itself, with the image of the chart's values.
func kustomize(t *testing.T, folder string) string {
	t.Helper()
	dir := manifestsCopy(t)
	text := "resources: [../" + folder + "]\nimages: [{name: mirrorset-guard, newName: " + repository + ", digest: \"" + digest + "\"}, {name: oauth-proxy, newName: quay.io/openshift-release-dev/ocp-v4.0-art-dev, digest: \"" + digest + "\"}]\n"
	write(t, filepath.Join(dir, "mine", "kustomization.yaml"), text)
	return kubectlKustomize(t, filepath.Join(dir, "mine"))
}

func kubectlKustomize(t *testing.T, folder string) string {
	t.Helper()
	assets, err := repo.Assets()
	if err != nil {
		skip.Now(t, err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "kustomize", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", folder, err, out)
	}
	return string(out)
}

// manifestsCopy returns a copy of the manifests in which the overlay own-certificate has the files that it
// is to be given.
func manifestsCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"base", "components", "monitoring", "overlays"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(root, "manifests", part))); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(dir, "overlays", "own-certificate")
	ca, err := certificates.SelfSigned(own, []string{"mirrorset-guard.mirrorset-guard.svc"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(own, "ca.crt"), string(ca))
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// objects returns the documents of a text, by kind, namespace and name.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if o == nil {
			continue
		}
		metadata := o["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		key := o["kind"].(string) + " " + namespace + "/" + metadata["name"].(string)
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = o
	}
	return all
}
