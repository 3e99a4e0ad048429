package snapshot

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBig(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nitems:\n")
	pad := strings.Repeat("    - name: FOO_BAR\n      value: some value which is here\n", 180)
	for i := range 3000 {
		fmt.Fprintf(&b, "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%d\n    namespace: a\n  spec:\n    env:\n%s    containers:\n    - name: c\n      image: quay.io/x:%d\n", i, pad, i)
	}
	b.WriteString("kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	start := time.Now()
	s, err := ReadFrom(strings.NewReader(b.String()), "f")
	if err != nil {
		t.Fatal(err)
	}
	im, _ := s.Images(t.Context())
	d, _ := os.ReadFile("/proc/self/status")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(b.Len()>>20, len(im), time.Since(start), m.TotalAlloc>>20, m.Sys>>20, strings.Contains(string(d), "x"))
}
