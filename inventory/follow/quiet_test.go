package follow

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestQuiet(t *testing.T) {
	var said []string
	log := funcr.New(func(prefix, args string) { said = append(said, prefix+" "+args) }, funcr.Options{})
	log = quiet(log, apierrors.IsNotFound).WithName("inventory").WithValues("k", "v")
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "nodepools"}, "")
	log.Error(fmt.Errorf("failed to list: %w", missing), "Failed to watch")
	log.Error(errors.New("connection refused"), "Failed to watch")
	log.Info("It is there")
	want := []string{
		`inventory "msg"="Failed to watch" "error"="connection refused" "k"="v"`,
		`inventory "level"=0 "msg"="It is there" "k"="v"`,
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	quiet(logr.Discard(), apierrors.IsNotFound).Error(missing, "discarded")
}
