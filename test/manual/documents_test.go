package manual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiserver "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientconfig "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	guardv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

const guardHeader = "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"

// TestDocuments: YAML and JSON that the manual shows is read by what it is for, which takes no field
// that it does not know.
func TestDocuments(t *testing.T) {
	documents := 0
	for _, p := range pages(t) {
		for _, b := range p.Blocks {
			if !b.isDocument() || b.Reason != "" || b.World != "" {
				continue
			}
			for text := range strings.SplitSeq(b.Text, "\n---\n") {
				documents++
				if err := read(t, text); err != nil {
					t.Errorf("%s:%d: %v", b.Page, b.Line, err)
				}
			}
		}
	}
	if documents < 5 {
		t.Errorf("only %d documents were found", documents)
	}
}

// isDocument reports whether a block is YAML or JSON: by its language, or as it is an object.
func (b Block) isDocument() bool {
	switch b.Language {
	case "yaml", "json":
		return true
	case "":
		var object map[string]any
		return !b.IsTyped() && yaml.Unmarshal([]byte(b.Text), &object) == nil && (object["kind"] != nil || isGuardFragment(object))
	default:
		return false
	}
}

// isGuardFragment reports whether object has only fields of the guard's configuration.
func isGuardFragment(object map[string]any) bool {
	known := map[string]bool{}
	for field := range reflect.TypeFor[guardv1alpha1.GuardConfiguration]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
	}
	for name := range object {
		if !known[name] {
			return false
		}
	}
	return len(object) > 0
}

// read reads one document as what it is for would.
func read(t *testing.T, text string) error {
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		return err
	}
	kind := struct{ Kind, APIVersion string }{}
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		return err
	}
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	switch {
	case gvk.Kind == "" && isGuardFragment(object):
		_, err := config.Parse([]byte(guardHeader + text))
		return err
	case gvk.Kind == "GuardConfiguration":
		_, err := config.Parse([]byte(text))
		return err
	case gvk.Kind == "" || gvk.Kind == "Kustomization":
		return kustomize(t, object)
	case crd.Knows(gvk):
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return err
		}
		return crd.Validate(gvk, data, nil).ToAggregate()
	default:
		return readKubernetes(gvk, text)
	}
}

// readKubernetes reads objects of Kubernetes, and files of its programs.
func readKubernetes(gvk schema.GroupVersionKind, text string) error {
	if gvk.GroupKind() == (schema.GroupKind{Kind: "Config"}) {
		return yaml.UnmarshalStrict([]byte(text), &clientconfig.Config{})
	}
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	utilruntime.Must(apiserver.AddToScheme(kinds))
	if !kinds.Recognizes(gvk) {
		return fmt.Errorf("%s is nothing that this test could read; mark the block with the reason why it is not, or the test that reads it", gvk)
	}
	_, _, err := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer().Decode([]byte(text), nil, nil)
	return err
}

// kustomize builds a kustomization with the base of this repository, by kubectl.
func kustomize(t *testing.T, object map[string]any) error {
	if !skip.Integration() { // which has kubectl
		return nil
	}
	assets, err := repo.Assets()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(repo.Root(), "kustomization-*.out") // kustomize reads files that are below no other root
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of a test
	if object["resources"] == nil {
		object["resources"] = []string{"github.com/mirrorset-guard/mirrorset-guard/manifests/base"}
	}
	object["resources"] = strings.Split(strings.ReplaceAll(strings.Trim(fmt.Sprint(object["resources"]), "[]"), "github.com/mirrorset-guard/mirrorset-guard/", "../"), " ")
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	data = bytes.ReplaceAll(data, []byte(`"sha256:..."`), []byte(`"sha256:`+strings.Repeat("a", 64)+`"`))
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), data, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "kustomize", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl kustomize: %w\n%s", err, out)
	}
	return nil
}
