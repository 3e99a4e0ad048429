// Package objects reads the objects of the kustomize base, and writes others in the same way.
package objects

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// An Object is one of Kubernetes, or a part of one.
type Object map[string]any

// All are objects in the order of their file.
type All []Object

// Read returns the documents of a text.
func Read(text []byte) (All, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var all All
	for {
		var o Object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// Write returns the text of values, a document each.
func Write(values ...any) ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), encoder.Close()
}

// Find returns the object of a kind with a name.
func (all All) Find(kind, name string) (Object, error) {
	for _, o := range all {
		if o.Kind() == kind && o.Name() == name {
			return o, nil
		}
	}
	return nil, fmt.Errorf("manifests/base has no %s %s", kind, name)
}

// Kind returns the kind.
func (o Object) Kind() string { return o.text("kind") }

// Name returns the name.
func (o Object) Name() string { return o.At("metadata").text("name") }

// Namespace returns the namespace, "" if there is none.
func (o Object) Namespace() string { return o.At("metadata").text("namespace") }

func (o Object) text(key string) string {
	text, _ := o[key].(string)
	return text
}

// At returns the part below keys, nil if there is none.
func (o Object) At(keys ...string) Object {
	for _, key := range keys {
		o, _ = o[key].(Object)
	}
	return o
}

// List returns the parts that a list below a key has.
func (o Object) List(key string) []Object {
	items, _ := o[key].([]any)
	var all []Object
	for _, item := range items {
		if part, ok := item.(Object); ok {
			all = append(all, part)
		}
	}
	return all
}
