package page

import (
	"reflect"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// maxText bounds every text of a document, in characters: a name may have any length.
const maxText = 4000

// cleaned returns a copy of doc in which no text has what does not print, or is longer than maxText, so
// that no template can forget it.
func cleaned[T any](doc T) T {
	v := reflect.New(reflect.TypeFor[T]()).Elem()
	copyClean(v, reflect.ValueOf(doc), false)
	return v.Interface().(T)
}

// ofLines are the fields whose text has several lines.
var ofLines = map[string]bool{"Message": true, "Detail": true, "Remedy": true, "Command": true}

func copyClean(to, from reflect.Value, lines bool) {
	switch from.Kind() {
	case reflect.String:
		if lines {
			to.SetString(text.Cut(text.Lines(from.String()), maxText))
		} else {
			to.SetString(text.Cut(text.Line(from.String()), maxText))
		}
	case reflect.Struct:
		to.Set(from) // a time has no exported fields
		for i := range from.NumField() {
			if f := from.Type().Field(i); f.IsExported() {
				copyClean(to.Field(i), from.Field(i), ofLines[f.Name])
			}
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyClean(to.Elem(), from.Elem(), lines)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyClean(to.Index(i), from.Index(i), lines)
			}
		}
	default: // numbers and booleans
		to.Set(from)
	}
}
