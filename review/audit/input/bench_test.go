package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
)

// A log is a reader of as many records as are asked for, which takes no memory.
type log struct {
	record func(i int) []byte
	left   int
	i      int
	rest   []byte
}

func (l *log) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.left <= 0 {
			return 0, io.EOF
		}
		l.rest = l.record(l.i)
		l.i++
		l.left -= len(l.rest)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// typical returns a record with five findings and 40 facts, of 10 KB. Each has a uid of its own.
func typical(tb testing.TB) func(int) []byte {
	tb.Helper()
	d := auditv1alpha1.Decision{Time: at(1), UID: "UID-----", Verdict: "denied", Operation: "CREATE", Reason: strings.Repeat("a reason ", 100)}
	for i := range 40 {
		age := 1.5
		d.Facts = append(d.Facts, auditv1alpha1.Fact{Location: fmt.Sprintf("mirror.example.com/shop/image-%d@sha256:%064d", i, i), Depth: "manifest", Presence: "present", Age: &age, MediaType: "application/vnd.oci.image.manifest.v1+json"})
	}
	for i := range 5 {
		d.Rules = append(d.Rules, auditv1alpha1.RuleCount{Rule: "ImageMissing", Severity: "deny", Count: i})
		d.Findings = append(d.Findings, auditv1alpha1.Finding{Rule: "ImageMissing", Severity: "deny", Image: fmt.Sprintf("quay.io/shop/image-%d", i), Reason: "no mirror holds it", Places: []string{"a place", "another"}})
	}
	line, err := d.Line()
	if err != nil {
		tb.Fatal(err)
	}
	return func(i int) []byte { return bytes.Replace(line, []byte("UID-----"), fmt.Appendf(nil, "%08d", i), 1) }
}

// TestMemoryIsBounded: a long file takes no more memory than a short one.
func TestMemoryIsBounded(t *testing.T) {
	const size, most = 24 << 20, 12 << 20
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak, records := uint64(0), 0
	r := Reader{Stdin: &log{record: typical(t), left: size}}
	_, err := r.Read(t.Context(), []string{"-"}, func(Record) error {
		if records++; records%500 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
		return nil
	})
	if err != nil || records < 1500 {
		t.Fatalf("%v after %d records", err, records)
	}
	if peak > before.HeapAlloc+most {
		t.Errorf("%d MB more than before", (peak-before.HeapAlloc)>>20)
	}
}

// BenchmarkRead compares reading records with what any reader has to do.
func BenchmarkRead(b *testing.B) {
	const size = 64 << 20
	var buffer bytes.Buffer
	if _, err := io.Copy(&buffer, &log{record: typical(b), left: size}); err != nil {
		b.Fatal(err)
	}
	data := buffer.Bytes()
	events := bytes.Repeat([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"6a1e1a0f-6e0b-4f3c-8a9b-000000000000","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/pods","verb":"list","user":{"username":"system:serviceaccount:kube-system:generic-garbage-collector","groups":["system:authenticated"]},"sourceIPs":["10.0.0.1"],"objectRef":{"resource":"pods","namespace":"default","apiVersion":"v1"},"responseStatus":{"code":200},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`+"\n"), 100_000)
	reading := func(data []byte, full bool) func(*testing.B) {
		return func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				r := Reader{Stdin: bytes.NewReader(data), Full: full, Webhooks: []string{webhook}}
				if _, err := r.Read(b.Context(), []string{"-"}, func(Record) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("floor: lines", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			eachLine(data, func([]byte) {})
		}
	})
	b.Run("floor: JSON", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			eachLine(data, func(line []byte) {
				if !json.Valid(line) {
					b.Fatal("not valid")
				}
			})
		}
	})
	b.Run("floor: decoded JSON", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			eachLine(data, func(line []byte) {
				var d auditv1alpha1.Decision
				if err := json.Unmarshal(line, &d); err != nil {
					b.Fatal(err)
				}
			})
		}
	})
	b.Run("records", reading(data, false))
	b.Run("records in full", reading(data, true))
	b.Run("events of others", reading(events, false))
}

func eachLine(data []byte, each func([]byte)) {
	lines := bufio.NewReaderSize(bytes.NewReader(data), bufferSize)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		each(line)
	}
}
