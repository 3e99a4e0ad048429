package snapshot

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkReadFrom reads pods of 10 kB as "oc get pods -A -o yaml" writes them.
func BenchmarkReadFrom(b *testing.B) {
	var dump bytes.Buffer
	dump.WriteString("apiVersion: v1\nitems:\n")
	env := strings.Repeat("      - name: SOME_VARIABLE\n        value: some value which is here\n", 140)
	for i := range 300 {
		fmt.Fprintf(&dump, "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%d\n    namespace: shop\n"+
			"  spec:\n    containers:\n    - name: c\n      image: quay.io/shop/app:%d\n      env:\n%s", i, i, env)
	}
	dump.WriteString("kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	b.SetBytes(int64(dump.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadFrom(bytes.NewReader(dump.Bytes()), "f"); err != nil {
			b.Fatal(err)
		}
	}
}
