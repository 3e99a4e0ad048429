package whatif

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadDeleteDocument(t *testing.T) {
	const head, tail = "apiVersion: mirror.openshift.io/v2alpha1\n", "kind: DeleteImageList\n"
	item := func(n int) string { return fmt.Sprintf("m.example.com/a:%d", n) }
	many := strings.Repeat("- imageName: quay.io/a:1\n  imageReference: docker://m.example.com/a:0\n  type: generic\n  relatedBlobs:\n  - sha256:a\n  - sha256:b\n", 2000)
	for _, tt := range []struct {
		reason, text string
		want         int    // items
		mistake      string // what the error says
	}{
		{"as oc-mirror writes it", head + "items:\n- imageName: quay.io/a:1\n  imageReference: docker://" + item(1) + "\n  type: generic\n- imageReference: " + item(2) + "\n" + tail, 2, ""},
		{"many", head + "items:\n" + many + tail, 2000, ""},
		{"dashes that are not below each other", "---\n# deletions\n" + tail + "items: # all\n" + strings.ReplaceAll("- imageReference: "+item(1)+"\n\n# the other\n-\n  imageReference: "+item(2)+"\n", "- ", "  - ") + head, 0, "list: yaml: line "},
		{"indented", tail + "items:\n\n  - imageReference: " + item(1) + "\n  # the other\n  - imageName: quay.io/a\n    imageReference: " + item(2) + "\n" + head + "...\n", 2, ""},
		{"a field first", tail + head + "items:\n-\n  imageReference: " + item(1) + "\r\n- {imageReference: 'm.example.com/b:1'}\n", 2, ""},
		{"a flow of items", tail + head + "items: [{imageReference: " + item(1) + "},\n  {imageReference: " + item(2) + "}\n]\n", 2, ""},
		{"JSON", `{"kind": "DeleteImageList", "apiVersion": "mirror.openshift.io/v2alpha1", "items": [{"imageReference": "` + item(1) + `", "relatedBlobs": ["sha256:a"]}]}`, 1, ""},
		{"JSON on many lines", "{\n\"kind\": \"DeleteImageList\",\n  \"apiVersion\": \"mirror.openshift.io/v2alpha1\",\n\"items\": [\n{\"imageReference\": \"" + item(1) + "\"}\n]\n}\n", 1, ""},
		{"two documents", head + tail + "items:\n- imageReference: " + item(1) + "\n---\n" + head, 0, "more than one document"},
		{"a field twice", head + tail + "items:\n- imageReference: " + item(1) + "\nitems:\n- imageReference: " + item(2) + "\n", 0, `field items already set in type whatif.deleteImageList`},
		{"an unknown field", head + "items:\n" + many + "- imageRef: x\n" + tail, 0, "field imageRef not found"},
		{"a mistake in an item", head + "items:\n" + many + "- imageReference: x\n" + tail, 0, `list: items[2000].imageReference: "x" is no reference`},
		{"too much", head + "items:\n" + strings.Repeat("- {}\n", maxList/5), 0, "list: larger than 64 MiB"},
		{"half a document", head + "items:\n" + many, 0, `kind: Invalid value: ""`},
		{"half a quotation", head + "items:\n- imageReference: \"m.example.com/a\n" + many + many + tail, 0, "list: yaml: "},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			l, err := ReadDeleteList("list", strings.NewReader(tt.text))
			switch {
			case tt.mistake != "":
				if err == nil || !strings.Contains(err.Error(), tt.mistake) {
					t.Errorf("%v, want %q", err, tt.mistake)
				}
			case err != nil || len(l.items) != tt.want:
				t.Errorf("%v, %+v", err, l)
			}
		})
	}
}
