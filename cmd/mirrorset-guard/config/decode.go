package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	goyaml "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
)

// maxSize is what a ConfigMap may hold.
const maxSize = 1 << 20

// errMore says what to do about a second document, or what looks like one.
var errMore = errors.New("something follows the first document; a configuration is one document")

// A Configuration is a GuardConfiguration that has its defaults, with the names of the fields that its
// file sets.
type Configuration struct {
	v1alpha1.GuardConfiguration
	said map[string]bool
}

// Says reports whether the file sets a field, by its path without indices
// ("registries.requestsPerSecond"). Null sets nothing.
func (c Configuration) Says(path string) bool { return c.said[path] }

// Parse reads a file of one YAML document. The error is an *Error, with every mistake, or says
// why text is not one YAML document.
func Parse(text []byte) (Configuration, error) {
	c, mistakes, err := parse(text)
	if err != nil {
		return Configuration{}, err
	}
	if len(mistakes) > 0 {
		return Configuration{}, &Error{Mistakes: mistakes}
	}
	return c, nil
}

func parse(text []byte) (Configuration, field.ErrorList, error) {
	if len(text) > maxSize {
		return Configuration{}, nil, fmt.Errorf("it has more than %d bytes, which is the most", maxSize)
	}
	data, err := onedoc.JSON(text)
	if errors.Is(err, onedoc.ErrMore) {
		return Configuration{}, nil, errMore
	}
	if err != nil {
		if mistakes := inYAML(text, notFinite); len(mistakes) > 0 {
			return Configuration{}, mistakes, nil // JSON cannot say them
		}
		return Configuration{}, nil, err
	}
	tree, err := decodeJSON(data)
	if err != nil {
		return Configuration{}, nil, err
	}
	if tree == nil {
		tree = map[string]any{} // an empty file
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return Configuration{}, nil, fmt.Errorf("it is %s, want fields and values", typeOf(tree))
	}
	if mistakes := wrongVersion(fields); len(mistakes) > 0 {
		return Configuration{}, mistakes, nil // what its fields mean is not known
	}
	d := decoder{said: map[string]bool{}}
	c := Default()
	c.said = d.said
	d.decode(nil, fields, reflect.ValueOf(&c.GuardConfiguration).Elem())
	mistakes := append(inYAML(text, duplicates), d.mistakes...)
	return c, append(mistakes, c.validate(d.wrong)...), nil
}

func decodeJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	err := decoder.Decode(&tree)
	return tree, err
}

// wrongVersion finds out whether the file is meant for this program.
func wrongVersion(fields map[string]any) field.ErrorList {
	var mistakes field.ErrorList
	for _, want := range []struct{ name, value string }{{"apiVersion", v1alpha1.APIVersion}, {"kind", v1alpha1.Kind}} {
		path := field.NewPath(want.name)
		switch got := fields[want.name]; got {
		case want.value:
		case nil:
			mistakes = append(mistakes, field.Required(path, fmt.Sprintf("want %s", want.value)))
		default:
			mistakes = append(mistakes, field.NotSupported(path, got, []string{want.value}))
		}
	}
	return mistakes
}

// A decoder puts a tree of maps, lists and values into a struct, and goes on after a mistake.
type decoder struct {
	mistakes field.ErrorList
	said     map[string]bool
	// wrong holds the paths of values that could not be decoded, and need no further
	// validation.
	wrong map[string]bool
}

func (d *decoder) reject(path *field.Path, value any, want string) {
	if d.wrong == nil {
		d.wrong = map[string]bool{}
	}
	d.wrong[path.String()] = true
	d.mistakes = append(d.mistakes, field.TypeInvalid(path, value, fmt.Sprintf("it is %s, want %s", typeOf(value), want)))
}

var indices = regexp.MustCompile(`\[[^]]*\]`)

// decode puts value, which is at path, into into. Null leaves it as it is.
func (d *decoder) decode(path *field.Path, value any, into reflect.Value) {
	if value == nil {
		return
	}
	if path != nil {
		d.said[indices.ReplaceAllString(path.String(), "")] = true
	}
	if into.Type() == reflect.TypeFor[v1alpha1.Duration]() {
		d.decodeDuration(path, value, into)
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.decode(path, value, into.Elem())
	case reflect.Struct:
		d.decodeStruct(path, value, into)
	case reflect.Map:
		d.decodeMap(path, value, into)
	case reflect.Slice:
		d.decodeList(path, value, into)
	case reflect.String:
		if value == false && into.Type() == reflect.TypeFor[v1alpha1.Updates]() {
			value = string(v1alpha1.UpdatesOff)
		}
		if s, ok := value.(string); ok {
			into.SetString(s)
			return
		}
		d.reject(path, value, "a string")
	case reflect.Bool:
		if b, ok := value.(bool); ok {
			into.SetBool(b)
			return
		}
		d.reject(path, value, "true or false")
	case reflect.Int:
		if n, ok := value.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				into.SetInt(i)
				return
			}
		}
		d.reject(path, value, "a whole number")
	case reflect.Float64:
		if n, ok := value.(json.Number); ok {
			if f, err := n.Float64(); err == nil {
				into.SetFloat(f)
				return
			}
		}
		d.reject(path, value, "a number")
	default:
		panic("config: a field of type " + into.Type().String())
	}
}

func (d *decoder) decodeDuration(path *field.Path, value any, into reflect.Value) {
	s, ok := value.(string)
	duration, err := time.ParseDuration(s)
	if !ok || err != nil {
		d.reject(path, value, "a duration such as 90s or 5m")
		return
	}
	into.SetInt(int64(duration))
}

func (d *decoder) decodeStruct(path *field.Path, value any, into reflect.Value) {
	fields, ok := value.(map[string]any)
	if !ok {
		d.reject(path, value, "fields and values")
		return
	}
	names := fieldNames(into.Type())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := child(path, name)
		if i := slices.Index(names, name); i >= 0 {
			d.decode(at, fields[name], into.Field(i))
			continue
		}
		d.mistakes = append(d.mistakes, field.Invalid(at, field.OmitValueType{}, "unknown field"+didYouMean(name, names)))
	}
}

func (d *decoder) decodeMap(path *field.Path, value any, into reflect.Value) {
	entries, ok := value.(map[string]any)
	if !ok {
		d.reject(path, value, "keys and values")
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		at, element := path.Key(key), reflect.New(into.Type().Elem()).Elem()
		if entries[key] == nil {
			d.reject(at, nil, "a string")
		}
		d.decode(at, entries[key], element)
		into.SetMapIndex(reflect.ValueOf(key), element)
	}
}

func (d *decoder) decodeList(path *field.Path, value any, into reflect.Value) {
	items, ok := value.([]any)
	if !ok {
		d.reject(path, value, "a list")
		return
	}
	list := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		if item == nil {
			d.reject(path.Index(i), nil, "a value")
			continue
		}
		d.decode(path.Index(i), item, list.Index(i))
	}
	into.Set(list)
}

// child is path.Child where path may be nil.
func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

// fieldNames returns the names of the fields of a struct in files, in order.
func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

// typeOf says what a value of JSON is.
func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "empty"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	default:
		return "a mapping"
	}
}

// inYAML collects what find finds in each value of text, mappings and lists among them.
func inYAML(text []byte, find func(*field.Path, any) field.ErrorList) field.ErrorList {
	var tree goyaml.MapSlice
	if goyaml.Unmarshal(text, &tree) != nil {
		return nil // it is invalid for another reason
	}
	var mistakes field.ErrorList
	var walk func(*field.Path, any)
	walk = func(path *field.Path, value any) {
		mistakes = append(mistakes, find(path, value)...)
		switch value := value.(type) {
		case goyaml.MapSlice:
			for _, item := range value {
				walk(child(path, fmt.Sprint(item.Key)), item.Value)
			}
		case []any:
			for i, item := range value {
				walk(path.Index(i), item)
			}
		}
	}
	walk(nil, tree)
	return mistakes
}

// duplicates finds keys that a mapping has twice. Readers of YAML take the last one.
func duplicates(path *field.Path, value any) field.ErrorList {
	var mistakes field.ErrorList
	mapping, _ := value.(goyaml.MapSlice)
	seen := map[string]bool{}
	for _, item := range mapping {
		key := fmt.Sprint(item.Key)
		if seen[key] {
			mistakes = append(mistakes, field.Duplicate(child(path, key), field.OmitValueType{}))
		}
		seen[key] = true
	}
	return mistakes
}

// notFinite finds the numbers of YAML that JSON has no word for.
func notFinite(path *field.Path, value any) field.ErrorList {
	f, ok := value.(float64)
	if !ok || !math.IsNaN(f) && !math.IsInf(f, 0) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, fmt.Sprint(f), "want a finite number")}
}
