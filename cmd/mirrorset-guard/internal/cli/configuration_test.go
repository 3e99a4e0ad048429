package cli

import (
	"reflect"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestNoFile: without a file, all is as with one that says nothing.
func TestNoFile(t *testing.T) {
	none, err := new(ConfigFlags).Read()
	if err != nil {
		t.Fatal(err)
	}
	empty, err := (&ConfigFlags{Path: clitest.Written(t, "config.yaml", clitest.ConfigHeader)}).Read()
	if err != nil || !reflect.DeepEqual(none, empty) {
		t.Errorf("%v: without a file\n%+v\nwith an empty one\n%+v", err, none, empty)
	}
}
