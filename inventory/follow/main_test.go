package follow

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of the handlers sleeps until a millisecond after the last error, seen by
	// a clock that synctest's bubbles do not share: there it sleeps for decades.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}
