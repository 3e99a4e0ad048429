package onedoc

import (
	"errors"
	"io"
	"strings"
	"testing"

	goyaml "go.yaml.in/yaml/v2"
)

func TestJSON(t *testing.T) {
	for _, tc := range []struct{ reason, text, want string }{
		{"a mapping", "a: 1\nb: [x]\n", `{"a":1,"b":["x"]}`},
		{"nothing", "# x\n", "null"},
		{"JSON, with what YAML would take for an octal number in it", ` {"a": "010"}` + "\n", `{"a": "010"}`},
		{"a flow mapping", "{a: 1}\n", `{"a":1}`},
		{"a comment before JSON", "# x\n{\"a\": 1}\n", `{"a":1}`},
		{"an item of a list", "  a: 1\n  b:\n  - c\n", `{"a":1,"b":["c"]}`},
		{"Windows", "a: 1\r\nb: 2\r\n", `{"a":1,"b":2}`},
		{"a line separator in a text", "a: \"x\u2028y\"\n", `{"a":"x\u2028y"}`},
		{"JSON after JSON", "{\"a\": 1}\n{\"b\": 2}\n", ""},
		{"the same after a comment", "# x\n{\"a\": 1}\n{\"b\": 2}\n", ""},
		{"the same after a byte order mark", "\ufeff{\"a\": 1}\n{\"b\": 2}\n", ""},
		{"flow mappings", "{a: 1}\n{b: 2}\n", ""},
		{"a list, and a key to the left of it", "- a\nb: 2\n", ""},
		{"a key to the left", "  a: 1\nb: 2\n", ""},
		{"a document that is ended", "a: 1\n...\nb: 2\n", ""},
		{"what goes on after a word", "A\n :", ""},
		{"documents of an old Mac", "a: 1\r---\rb: 2\r", ""},
		{"documents in UTF-16", utf16("a: 1\n---\nb: 2\n"), ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := JSON([]byte(tc.text))
			if string(got) != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("%s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestDuplicate(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: {c: 1, c: 2}\n": `key "c" already set in map`,
		`{"a": 1, "a": 2}`:        `key "a" already set in map`,
		"a: 1\nb: {a: 1}\n":       "",
		"a: [":                    "",
	} {
		err := Duplicate([]byte(text))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// utf16 encodes ASCII as PowerShell does.
func utf16(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// FuzzJSON: nothing is lost in the conversion.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"a: 1\nb:\n- c\n", "{a: 1}\n{b: 2}", "  a: 1\nb: 2", "a: |\n  x\n y\n", "a: b\r---\rc: d", "? a\n: b\n", "a\nb: c\n", "a: 'x\n y'\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := JSON([]byte(text)); err != nil {
			return
		}
		decoder := goyaml.NewDecoder(strings.NewReader(text))
		var value any
		if decoder.Decode(&value) == nil {
			if err := decoder.Decode(&value); !errors.Is(err, io.EOF) {
				t.Errorf("%q: more follows: %v", text, err)
			}
		}
	})
}
