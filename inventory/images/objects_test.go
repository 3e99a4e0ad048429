package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	osappsv1 "github.com/openshift/api/apps/v1"
	buildv1 "github.com/openshift/api/build/v1"
	configv1 "github.com/openshift/api/config/v1"
	imagev1 "github.com/openshift/api/image/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// TestObjects holds the images that the objects in testdata name to what stands there below each. Of kinds that a module of Kubernetes
// or OpenShift has, no field may be unknown, so that a misspelt one cannot hide.
func TestObjects(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, osappsv1.Install, buildv1.Install, configv1.Install, imagev1.Install, mcfgv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range archive.Files {
			story := &archive.Files[i]
			t.Run(filepath.Base(file)+"/"+story.Name, func(t *testing.T) {
				object, want, ok := strings.Cut(string(story.Data), "=>\n")
				if _, _, err := strict.Decode([]byte(object), nil, nil); !ok || runtime.IsStrictDecodingError(err) {
					t.Fatal(ok, err)
				}
				h := readHolder(t, object)
				seen[h.Kind] = true
				if got := told(h); *golden.Update {
					story.Data = []byte(object + "=>\n" + got)
				} else if got != want {
					t.Errorf("go test ./inventory/images -run TestObjects -update writes it; got\n%swant\n%s", got, want)
				}
			})
		}
		if *golden.Update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, k := range customKinds {
		if !seen[k.Kind] {
			t.Errorf("no object of kind %s", k.Kind)
		}
	}
}

// readHolder looks through an object by the rules of its kind, or else as one of a kind that is not known.
func readHolder(t *testing.T, object string) Holder {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(data, &o.Object); err != nil {
		t.Fatal(err)
	}
	kind := o.GroupVersionKind().GroupKind()
	h, err := Decode(kind, data)
	if known := kind.Kind; errors.Is(err, ErrKind) {
		h, err = DecodeGuess(kind, data)
		for _, r := range h.References {
			if !r.Guessed {
				t.Errorf("%+v of %s is no guess", r, known)
			}
		}
	}
	if err != nil || !strings.HasPrefix(h.Kind, kind.Kind) || h.Name != o.GetName() || h.Namespace != o.GetNamespace() {
		t.Fatalf("the holder is %s %s/%s: %v", h.Kind, h.Namespace, h.Name, err)
	}
	return h
}

// told writes a holder, and a line for each image with all that is known of it but for its placement.
func told(h Holder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s\n", h.Kind, h.Namespace, h.Name)
	for i := range h.References {
		r := reflect.ValueOf(h.References[i])
		var words []string
		for k := range r.NumField() {
			switch name, v := r.Type().Field(k).Name, r.Field(k); {
			case v.IsZero(), name == "Placement":
			case name == "Image", name == "Container":
				words = append(words, v.String())
			case v.Kind() == reflect.Bool:
				words = append(words, name)
			default:
				words = append(words, name+"="+fmt.Sprint(v.Interface()))
			}
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return b.String()
}
