package rollouts

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
)

// unpublished are fields that are for the program alone.
var unpublished = []string{
	"causes.Diagnosis.Asks", "status.Status.Hiding", "rollout.Pool.Part", "rollout.Pool.Why", "rollout.Pool.Decision", "rollout.Pool.Nodes", "rollout.Pool.MaxUnavailable",
	"rollout.Pool.After", "rollout.Pool.Time", "rollout.Node.Rank",
}

func isPublished(of reflect.Type, f reflect.StructField) bool {
	return f.IsExported() && !slices.Contains(unpublished, of.String()+"."+f.Name)
}

// filled sets every field of v that can be published to something of its own.
func filled(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		filled(key, n)
		filled(value, n)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); isPublished(v.Type(), f) {
				filled(v.Field(i), n)
			}
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
		if v.Type() == reflect.TypeFor[time.Duration]() { // published in seconds
			v.SetInt(int64(*n) * int64(time.Second))
		}
	default:
		panic(v.Type())
	}
}

// leaves returns all texts, numbers and times in a value that can be published.
func leaves(v reflect.Value) (all []string) {
	switch v.Kind() {
	case reflect.Pointer:
		return leaves(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, leaves(v.Index(i))...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			all = append(append(all, leaves(key)...), leaves(v.MapIndex(key))...)
		}
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			return []string{at.Format(time.RFC3339)}
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); isPublished(v.Type(), f) {
				all = append(all, leaves(v.Field(i))...)
			}
		}
	case reflect.Bool:
	default:
		if d, ok := v.Interface().(time.Duration); ok {
			return []string{fmt.Sprint(int64(d / time.Second))}
		}
		all = append(all, fmt.Sprint(v.Interface()))
	}
	return all
}

// TestDocumentsLackNothing: whatever is found is published, but for what is for the program alone.
func TestDocumentsLackNothing(t *testing.T) {
	var s status.Status
	var d causes.Diagnosis
	var v verify.Verification
	var e progress.Event
	n := 0
	for _, value := range []any{&s, &d, &v, &e} {
		filled(reflect.ValueOf(value).Elem(), &n)
	}
	for _, p := range s.Pools {
		for i := range p.Left {
			p.Left[i].DrainDone = p.Left[i].DrainAsked // else it is published that the drain is not finished
		}
	}
	for _, tt := range []struct {
		found, document any
	}{{s, StatusDocument(s)}, {d, DiagnosisDocument(d)}, {v, VerificationDocument(v)}, {e, EventDocument(e)}} {
		text, err := json.Marshal(tt.document)
		if err != nil {
			t.Fatal(err)
		}
		found := leaves(reflect.ValueOf(tt.found))
		if len(found) < 10 {
			t.Errorf("%T: %q", tt.found, found)
		}
		for _, want := range found {
			if !strings.Contains(string(text), want) {
				t.Errorf("%T: no %q in %s", tt.found, want, text)
			}
		}
		if strings.Contains(string(text), "false") || strings.Contains(string(text), "null") {
			t.Errorf("%T: something is left out of %s", tt.found, text)
		}
	}
}
