package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
)

// TestSchemas: which kinds have pods is read from the documents of their groups, each once for as long as its hash is the same.
func TestSchemas(t *testing.T) {
	hash, broken := "1", false
	var asked []string
	api := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, strings.TrimPrefix(r.URL.Path, "/openapi/v3")+r.URL.Query().Get("hash"))
		switch {
		case r.URL.Path == "/openapi/v3":
			fmt.Fprintf(w, `{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"}, "apis/pods.example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/pods.example.com/v1?hash=%s"}}}`, hash)
		case broken:
			http.Error(w, "away", http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, `{"components": {"schemas": {"a": {"x-kubernetes-group-version-kind": [{"kind": "Thing"}], "properties": {"containers": {"items": {"properties": {"image": {}}}}}}}}}`)
		}
	})
	s := schemas{api: openapi.NewClientWithContext(api)}
	kinds := map[schema.GroupVersionResource]schema.GroupKind{
		{Group: "pods.example.com", Version: "v1", Resource: "things"}:  {Group: "pods.example.com", Kind: "Thing"},
		{Group: "pods.example.com", Version: "v1", Resource: "others"}:  {Group: "pods.example.com", Kind: "Other"},
		{Group: "plain.example.com", Version: "v1", Resource: "things"}: {Group: "plain.example.com", Kind: "Thing"},
	}
	for _, tt := range []struct {
		reason, hash string
		broken       bool
		want, asked  string
	}{
		{"at first", "1", false, "things.pods.example.com", " /apis/pods.example.com/v11"},
		{"the same again", "1", true, "things.pods.example.com", ""},
		{"another, which cannot be read", "2", true, "", " /apis/pods.example.com/v12 /apis/pods.example.com/v12"},
		{"it can be read again", "2", false, "things.pods.example.com", " /apis/pods.example.com/v12"},
	} {
		hash, broken, asked = tt.hash, tt.broken, nil
		found, err := s.withPods(t.Context(), kinds)
		if !slices.Equal(found, strings.Fields(tt.want)) || (err != nil) != (tt.want == "") || strings.Join(asked, " ") != tt.asked {
			t.Errorf("%s: got %q, %v, asked %q", tt.reason, found, err, asked)
		}
	}
}
