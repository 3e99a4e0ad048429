package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// BenchmarkPods reads a dump of 100,000 pods, and decodes the same text into a list, which is the least that it could take.
func BenchmarkPods(b *testing.B) {
	var dump bytes.Buffer
	if err := clitest.DumpOfPods(&dump, 100_000); err != nil {
		b.Fatal(err)
	}
	read := func(o Options) error {
		_, err := o.Stream(bytes.NewReader(dump.Bytes()), "f")
		return err
	}
	for _, row := range []struct {
		name string
		read func() error
	}{
		{"decoded as a list", func() error { return json.Unmarshal(dump.Bytes(), new(corev1.PodList)) }},
		{"read", func() error { return read(Options{}) }},
		{"read without workloads", func() error { return read(Options{NoWorkloads: true}) }},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(int64(dump.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if err := row.read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

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
