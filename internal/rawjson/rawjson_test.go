package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const sample = ` {"a" : [1, -2.5e3 ,"x,]}\"" , null,true,{} , [ ]], "\u0062":{"c":"\\","d":{"e":[[]]}},"a":false }`

func TestMembers(t *testing.T) {
	var got []string
	for name, value := range Members([]byte(sample)) {
		got = append(got, string(name)+"="+string(value))
	}
	want := []string{`a=[1, -2.5e3 ,"x,]}\"" , null,true,{} , [ ]]`, `b={"c":"\\","d":{"e":[[]]}}`, `a=false`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, other := range []string{"", " ", "[]", "7", "null", `"{"`, "{}", "{ }", "{", `{"a`, `{"a"`, `{"a":`, `{"a"1}`} {
		for name, value := range Members([]byte(other)) {
			if other != `{"a":` || len(value) > 0 {
				t.Errorf("%q has %s=%s", other, name, value)
			}
		}
	}
}

func TestElements(t *testing.T) {
	for _, value := range Members([]byte(sample)) {
		var got []string
		for e := range Elements(value) {
			got = append(got, string(e))
		}
		want := []string{"1", "-2.5e3", `"x,]}\""`, "null", "true", "{}", "[ ]"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		break
	}
	for _, other := range []string{"", "{}", "[", "[]", " [ ] ", "[,"} {
		for e := range Elements([]byte(other)) {
			t.Errorf("%q has %q", other, e)
		}
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]int{
		"7": 1, "{}": 1, "[]": 1, " [ ] ": 1, "[1]": 2, `[1,"a,b",{}]`: 4, `{"a":1,"b":{"c":[2,3]}}`: 6, `"[1,2,3"`: 1,
	} {
		if got := Values([]byte(text), 100); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if got := Values([]byte("["+strings.Repeat("{},", 1000)+"{}]"), 10); got != 10 {
		t.Errorf("counted to %d, want no more than 10", got)
	}
}

// TestAllocatesNothing: which is what the package is for.
func TestAllocatesNothing(t *testing.T) {
	text := []byte(`{"spec":{"imageTagMirrors":[` + strings.Repeat(`{"source":"a.b"},`, 10_000) + `{}]}}`)
	n := 0
	allocated := testing.AllocsPerRun(10, func() {
		for _, spec := range Members(text) {
			n += Values(spec, 1<<30)
			for _, list := range Members(spec) {
				for range Elements(list) {
					n++
				}
			}
		}
	})
	if allocated > 10 {
		t.Errorf("%v allocations", allocated)
	}
}

// FuzzWalk compares what is found with what encoding/json finds, and wants no panic for a text
// that is not valid.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{sample, `[[],{"":""}]`, `{"a":{"a":[1,2,{"b":"\u00e9\n"}]}}`, `"`, `{"`, `[1`, `{"a":}`, "\x00", `{"\`, `["\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1000 {
			return // rebuild takes time quadratic in the depth
		}
		got := rebuild(text)
		Values(text, 1<<20)
		if !json.Valid(text) {
			return
		}
		var want any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if a, b := marshal(t, want), marshal(t, got); a != b {
			t.Errorf("%q: got %s, want %s", text, b, a)
		}
		if n := count(want); !hasDuplicates(text) && Values(text, 1<<30) != n {
			t.Errorf("%q: %d values, want %d", text, Values(text, 1<<30), n)
		}
	})
}

// rebuild decodes text by means of the package.
func rebuild(text []byte) any {
	switch text = trim(text); {
	case bytes.HasPrefix(text, []byte("{")):
		m := map[string]any{}
		for name, value := range Members(text) {
			key := string(name)
			m[key] = rebuild(value)
		}
		return m
	case bytes.HasPrefix(text, []byte("[")):
		list := []any{}
		for e := range Elements(text) {
			list = append(list, rebuild(e))
		}
		return list
	default:
		var v any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		_ = decoder.Decode(&v) // what is not valid is nil
		return v
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += count(e)
		}
	case []any:
		for _, e := range v {
			n += count(e)
		}
	}
	return n
}

// hasDuplicates reports whether an object in text has a name twice, of which encoding/json keeps
// one.
func hasDuplicates(text []byte) bool {
	names := map[string]bool{}
	for name, value := range Members(text) {
		if names[string(name)] || hasDuplicates(value) {
			return true
		}
		names[string(name)] = true
	}
	for e := range Elements(text) {
		if hasDuplicates(e) {
			return true
		}
	}
	return false
}
