package cluster

import (
	"context"
	"runtime/metrics"
	"testing"

	"k8s.io/client-go/rest"
)

// gcPercent reads the setting of this process.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestCollectGarbageSooner(t *testing.T) {
	c, err := New(&rest.Config{Host: "https://127.0.0.1:1"}, Options{}) // never ready: nobody runs it
	if err != nil {
		t.Fatal(err)
	}
	before := gcPercent()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.CollectGarbageSooner(ctx)
	}()
	eventually(t, "garbage is collected sooner", func() bool { return gcPercent() == startGCPercent })
	cancel()
	<-done
	if after := gcPercent(); after != before {
		t.Errorf("GC percent is %d afterwards, was %d", after, before)
	}
}
