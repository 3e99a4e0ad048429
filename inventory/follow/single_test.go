package follow

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSingle(t *testing.T) {
	changes := 0
	single := &Single{Changed: func() { changes++ }}
	s := One(single.Set)
	steps := []struct {
		reason string
		do     func()
		value  any
		denied bool
	}{
		{"nothing read yet", func() {}, nil, false},
		{"read", func() { s.Replace([]*Object{{Value: 1}}, nil) }, 1, false},
		{"changed", func() { s.Put(&Object{Value: 2}) }, 2, false},
		{"removed", func() { s.Remove("", "x") }, nil, false},
		{"may not be read", func() { s.Replace(nil, apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))) }, nil, true},
		{"read again", func() { s.Replace([]*Object{{Value: 3}}, nil) }, 3, false},
		{"not served", func() { s.Replace(nil, apierrors.NewNotFound(schema.GroupResource{}, "x")) }, nil, false},
		{"there is none", func() { s.Replace(nil, nil) }, nil, false},
	}
	for i, step := range steps {
		step.do()
		if value, denied := single.Read(); value != step.value || denied != step.denied || changes != i {
			t.Errorf("%s: got %v, %t after %d changes", step.reason, value, denied, changes)
		}
	}
}
