package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
)

// maxSize is what a ConfigMap may hold.
const maxSize = 1 << 20

// errMore says what to do about a second document, or what looks like one.
var errMore = errors.New("something follows the first document; a configuration is one document")

// A Configuration is a GuardConfiguration that has its defaults.
type Configuration struct{ v1alpha1.GuardConfiguration }

// Parse reads a file of one YAML document. The error is an *Error, with every mistake, or says
// why text is not one YAML document.
func Parse(text []byte) (Configuration, error) {
	fields, err := read(text)
	if err != nil {
		return Configuration{}, err
	}
	mistakes := wrongVersion(fields)
	if len(mistakes) > 0 { // the meaning of its fields is not known
		return Configuration{}, &Error{Mistakes: mistakes}
	}
	if fields["updates"] == false { // as YAML 1.1 reads off
		fields["updates"] = string(v1alpha1.UpdatesOff)
	}
	c := Default()
	if fields["registries"] != nil {
		c.Registries = nil // else what an entry leaves out would come from the default that it replaces
	}
	mistakes, err = file().decode(fields, &c.GuardConfiguration)
	if err == nil {
		mistakes = append(mistakes, c.validate()...)
	}
	if len(mistakes) > 0 {
		return Configuration{}, &Error{Mistakes: mistakes}
	}
	if err != nil {
		return Configuration{}, err
	}
	return c, nil
}

// read returns the fields of a document.
func read(text []byte) (map[string]any, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("it has more than %d bytes, which is the most", maxSize)
	}
	data, err := onedoc.JSON(text)
	if errors.Is(err, onedoc.ErrMore) {
		return nil, errMore
	}
	if err == nil {
		err = onedoc.Duplicate(text)
	}
	if err != nil {
		return nil, err
	}
	var tree any
	if err := utiljson.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	switch tree := tree.(type) {
	case nil:
		return map[string]any{}, nil // an empty file
	case map[string]any:
		return tree, nil
	default:
		return nil, errors.New("it has no fields: want a mapping")
	}
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

// A definition is the schema as the API server's code wants it.
type definition struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
}

// file is the definition of configuration files, which it takes milliseconds to prepare.
var file = sync.OnceValue(func() definition {
	s := fieldsSchema()
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&s, &internal, nil)
	var d definition
	if err == nil {
		d.structural, err = structuralschema.NewStructural(&internal)
	}
	if err == nil {
		d.schema, _, err = validation.NewSchemaValidator(&internal)
	}
	if err != nil {
		panic(err) // the schema is made from the types
	}
	return d
})

// decode puts fields into into, and returns what the schema has against them. A null leaves its field unchanged. The
// error says why into is not filled.
func (d definition) decode(fields map[string]any, into any) (field.ErrorList, error) {
	var mistakes field.ErrorList
	unknown := pruning.PruneWithOptions(fields, d.structural, false, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		mistakes = append(mistakes, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field", BadValue: field.OmitValueType{}})
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(fields, d.structural)
	mistakes = append(mistakes, slices.DeleteFunc(validation.ValidateCustomResource(nil, fields, d.schema), func(e *field.Error) bool {
		return e.Field == (*field.Path)(nil).String() // a number of the wrong kind once more, without its path
	})...)
	slices.SortStableFunc(mistakes, func(a, b *field.Error) int { // schemas are maps
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Error(), b.Error()))
	})
	data, err := json.Marshal(fields)
	if err != nil {
		return mistakes, err
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	return mistakes, errors.Join(append(strict, err)...)
}
