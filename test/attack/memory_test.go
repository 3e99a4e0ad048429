package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// maxResident is what a guard may take whoever asks, in MiB; the limit of its container is 512.
const maxResident = 256

// big returns the review of a creation, filled up to some megabytes with copies of a part.
func big(megabytes int, part string) []byte {
	head := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","operation":"CREATE","name":"x","kind":{"group":"config.openshift.io","version":"v1","kind":"ImageTagMirrorSet"},"object":{"metadata":{"name":"x"},"spec":`
	return []byte(head + `{"imageTagMirrors":[` + strings.Repeat(part+",", megabytes<<20/(len(part)+1)) + part + `]}}}}`)
}

// distinct returns the review of a creation with as many entries, each of its own source.
func distinct(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"source":"quay-%d.example.com/shop","mirrors":["mirror.example.com/m%d"]},`, i, i)
	}
	return big(0, strings.TrimSuffix(b.String(), ","))
}

// padded makes a text as long as a body may be.
func padded(text []byte) []byte { return append(text, bytes.Repeat([]byte(" "), 8<<20-len(text))...) }

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// testMemory: whatever strangers send, and however much of it at once, the guard stays within its
// memory, answers, and goes on answering others.
func testMemory(t *testing.T, s *stage) {
	g := s.guards[0]
	calm, end := context.WithTimeout(t.Context(), time.Duration(campaign.Times(3, 20))*time.Second)
	defer end()
	s.calm = s.others(calm, t, "alice")
	must(t, s.calm.failed())
	t.Logf("calm: %d MiB; small changes: %s", g.Resident()>>20, s.calm)
	for _, attack := range []struct {
		what   string
		text   []byte
		atOnce int
	}{
		{"one review of 7 MB, empty entries", big(7, "{}"), 1},
		{"64 of 8 MB at once, empty entries", big(8, "{}")[:8<<20-1], 64},
		{"64 of 7 MB at once, entries that the CRD takes", big(7, `{"source":"a.b"}`), 64},
		{"deep JSON", big(7, strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), 16},
		{"gzip", zipped(t, big(7, "{}")), 16},
		{"30,000 entries", distinct(30_000), 16},
		{"as many entries as are judged", distinct(10_000), 16},
		{"256 of 64 kB at once", distinct(700), 256},
		{"32 of 8 MB that are admitted", padded(forged(t, "mallory", tagSet("padded", "padded.example.com", "mirror.example.com/x"))), 32},
	} {
		if other() && attack.atOnce > 1 {
			continue // it takes all the memory that there is
		}
		t.Run(attack.what, func(t *testing.T) {
			resident := watch(t, g)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			meanwhile := make(chan *sample, 1)
			go func() { meanwhile <- s.others(ctx, t, "alice") }()
			var all sync.WaitGroup
			timeout := time.Duration(campaign.Times(10, 30)) * time.Second // strangers wait for as long
			var answered, late, none atomic.Int64
			start, slots := time.Now(), make(chan struct{}, attack.atOnce)
			for i := range attack.atOnce * campaign.Times(1, 3) {
				all.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					begun := time.Now()
					code, _ := newStranger(t, 10+i%16).post(t.Context(), g, attack.text, timeout)
					switch {
					case code == 0:
						none.Add(1)
					case time.Since(begun) > timeout:
						late.Add(1)
					default:
						answered.Add(1)
					}
				})
			}
			all.Wait()
			took := time.Since(start)
			cancel()
			during := <-meanwhile
			peak := resident.read()
			t.Logf("%d answered in time, %d late, %d not, in %s; up to %d MiB resident; small changes meanwhile: %s", answered.Load(), late.Load(), none.Load(), took.Round(time.Millisecond), peak, during)
			if peak > maxResident {
				t.Errorf("%d MiB resident, want less than %d", peak, maxResident)
			}
			// A machine that has other things to do may be late for a few handshakes.
			if n, few := none.Load(), int64(1+attack.atOnce*campaign.Times(1, 3)/20); n > few || answered.Load()+late.Load() == 0 {
				t.Errorf("%d reviews got no answer", n)
			}
			if err := during.failed(); err != nil {
				t.Errorf("small changes failed: %v", err)
			}
		})
	}
}
