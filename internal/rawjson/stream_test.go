package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// walked reads a text as a Stream, element by element where it can, and returns it without white space.
func walked(r io.Reader) (string, error) {
	s := NewStream(r)
	var out []byte
	var value func() error
	each := func(of func(func()) error) error {
		n := 0
		return of(func() {
			if n++; n > 1 {
				out = append(out, ',')
			}
		})
	}
	value = func() error {
		switch c, err := s.Peek(); {
		case err != nil:
			return err
		case c == '{':
			out = append(out, '{')
			err := each(func(begin func()) error {
				return s.Members(func(name string) error {
					begin()
					quoted, _ := json.Marshal(name)
					out = append(append(out, quoted...), ':')
					return value()
				})
			})
			out = append(out, '}')
			return err
		case c == '[':
			out = append(out, '[')
			err := each(func(begin func()) error { return s.Elements(func() error { begin(); return value() }) })
			out = append(out, ']')
			return err
		}
		v, err := s.Value()
		out = append(out, v...)
		return err
	}
	for {
		if _, err := s.Peek(); err != nil {
			if errors.Is(err, io.EOF) {
				return string(out), nil
			}
			return "", err
		}
		if err := value(); err != nil {
			return "", err
		}
	}
}

func TestStream(t *testing.T) {
	large := `["` + strings.Repeat("x", 3*minBuffer) + `",` + strings.Repeat(`{"a":[1,2]},`, minBuffer/4) + `7]`
	for _, text := range []string{sample, large, sample + large + "\n" + sample, "7", " ", ""} {
		var want bytes.Buffer
		for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				t.Fatal(err)
			}
			if err := json.Compact(&want, value); err != nil {
				t.Fatal(err)
			}
		}
		wanted := strings.ReplaceAll(want.String(), `"\u0062"`, `"b"`)
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "in halves": iotest.HalfReader(strings.NewReader(text)), "its end with its last": iotest.DataErrReader(strings.NewReader(text))} {
			got, err := walked(r)
			if err != nil || got != wanted {
				t.Errorf("%s, %.40q: %.80q, %v", name, text, got, err)
			}
		}
		if len(text) < minBuffer {
			if got, err := walked(iotest.OneByteReader(strings.NewReader(text))); err != nil || got != wanted {
				t.Errorf("by bytes, %.40q: %.80q, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{"{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{1:2}`, `{"a" 1}`, "[", "[1", "[1,", "[1,]", "[1 2]", "[,1]", "]", "}", ","} {
		if got, err := walked(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
	broken := errors.New("broken")
	if _, err := walked(io.MultiReader(strings.NewReader(`[1,"`), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v, want that of the reader", err)
	}
}

func TestRest(t *testing.T) {
	s := NewStream(strings.NewReader("{} \n---\na: b\n"))
	if _, err := s.Value(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(s.Rest()); err != nil || string(rest) != " \n---\na: b\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestStreamIsSmall: no more is in memory than a value.
func TestStreamIsSmall(t *testing.T) {
	item := []byte(strings.Repeat("[1,2],", 10))
	s := NewStream(io.MultiReader(strings.NewReader("["), &endless{text: item}))
	n := 0
	_ = s.Elements(func() error {
		if n++; n > minBuffer {
			return io.EOF
		}
		_, err := s.Value()
		return err
	})
	if cap(s.buffer) != minBuffer {
		t.Errorf("%d bytes after %d elements, want %d", cap(s.buffer), n, minBuffer)
	}
}

// endless is a text again and again.
type endless struct {
	text []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// FuzzStream holds it to encoding/json: what that reads is walked through in the same way, in pieces too.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{sample, "[]", "{}", `"\\"`, "-1", `{"a":[{}]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		if json.Unmarshal([]byte(text), &want) != nil || hasDuplicates([]byte(text)) {
			_, _ = walked(strings.NewReader(text)) // it ends
			return
		}
		got, err := walked(iotest.HalfReader(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal([]byte(got), &value); err != nil || marshal(t, value) != marshal(t, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	})
}
