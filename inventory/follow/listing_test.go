package follow

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// TestEachObjectStaysSmall lists large objects, of which only one is to be in memory, and asks
// for fewer of them at a time.
func TestEachObjectStaysSmall(t *testing.T) {
	var limits []string
	blob := strings.Repeat("x", 100<<10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits = append(limits, r.URL.Query().Get("limit"))
		token := fmt.Sprint(len(limits))
		if len(limits) == 3 {
			token = ""
		}
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [`, token)
		for i := range 50 {
			if i > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `{"metadata": {"name": "a-%d"}, "spec": %q}`, i, blob)
		}
		fmt.Fprint(w, "]}")
	}))
	defer server.Close()
	api, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL, Timeout: ListTimeout}) // instead of 32 s, for pages of 5 MB
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := EachObject(t.Context(), api.RESTClient(), Listing{Path: "/apis/x/v1/y"}, func(*unstructured.Unstructured) { n++ }); err != nil {
		t.Fatal(err)
	}
	if n != 150 || limits[0] != "50" || limits[1] != "10" {
		t.Errorf("%d objects by pages of %q", n, limits)
	}
}

func TestDecodeList(t *testing.T) {
	for _, tt := range []struct {
		reason, text, token, err string
		names                    []string
	}{
		{"a page, its metadata first", `{"kind": "XList", "metadata": {"continue": "t"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`, "t", "", []string{"a", "b"}},
		{"its metadata last", `{"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "1"}}`, "", "", []string{"a"}},
		{"no items", `{"items": null, "metadata": {}}`, "", "", nil},
		{"half a page", `{"items": [{"metadata": {"name": "a"}}`, "", "EOF", []string{"a"}},
		{"a page without its end", `{"items": []`, "", "EOF", nil},
		{"no list", `[]`, "", "[ instead of {", nil},
		{"items that are none", `{"items": {}}`, "", "items is {, not a list", nil},
	} {
		var names []string
		token, err := decodeList(strings.NewReader(tt.text), func(o *unstructured.Unstructured) { names = append(names, o.GetName()) })
		got := ""
		if err != nil {
			got = err.Error()
		}
		if token != tt.token || got != tt.err || !slices.Equal(names, tt.names) {
			t.Errorf("%s: %q, %q, error %q", tt.reason, token, names, got)
		}
	}
}
