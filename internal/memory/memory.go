// Package memory gives back what the process holds and does not use.
package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
)

const (
	// giveBackEvery is how often memory is given back that is not in use any more.
	giveBackEvery = 20 * time.Second
	// littleMemory is what the process may hold without that: it is little more than it starts with.
	littleMemory = 96 << 20
	// sparingPercent is the GC percent (GOGC) while a review needs much memory.
	sparingPercent = 15
	// sparingRoom is what the process may take then beyond what it holds, before it looks for garbage all the time, for up
	// to half of the processors' time. A review of 100,000 images takes less; on a machine that has other things to do,
	// garbage may come faster than it is found.
	sparingRoom = 144 << 20
)

// mostProcessors are as many as finish reviews sooner. Each keeps memory for itself, 2 MiB of it where much is allocated.
const mostProcessors = 8

// Processors has the process use no more processors than are of use to it, and returns how many.
func Processors() int {
	if runtime.GOMAXPROCS(0) > mostProcessors {
		runtime.GOMAXPROCS(mostProcessors)
	}
	return runtime.GOMAXPROCS(0)
}

// GiveBack gives back to the system what the process holds and does not use, every now and then until
// ctx ends. Left alone, Go looks for garbage once there is half as much again as was in use before,
// which after a tenant's 100,000 references or a review of them is a long time, and returns what it
// finds little by little. To look takes some 50 ms of one processor where there are 100,000 pods.
func GiveBack(ctx context.Context) {
	pause.Every(ctx, giveBackEvery, func() { giveBackBeyond(littleMemory) })
}

// giveBackBeyond gives back unused memory if the process holds more than little.
func giveBackBeyond(little uint64) {
	if held() > little {
		debug.FreeOSMemory()
	}
}

// held returns how many bytes Go has from the system.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// spared counts those that need much memory; before and limit are the GC percent and the memory limit without them.
var spared struct {
	sync.Mutex
	count, before int
	limit         int64
}

// Spare has the process hold less that is not in use, for more of the processors' time, until the
// function that it returns is called, once the caller does not use any more what it needed it for.
func Spare() (done func()) {
	spared.Lock()
	defer spared.Unlock()
	if spared.count++; spared.count == 1 {
		spared.before = debug.SetGCPercent(sparingPercent)
		if spared.before >= 0 && spared.before < sparingPercent {
			debug.SetGCPercent(spared.before)
		}
		spared.limit = debug.SetMemoryLimit(-1)
		debug.SetMemoryLimit(min(spared.limit, int64(held())+sparingRoom)) //nolint:gosec // no machine has as much
	}
	return sync.OnceFunc(func() {
		spared.Lock()
		defer spared.Unlock()
		if spared.count--; spared.count == 0 {
			runtime.GC() // else what has gone would stay until there is half as much again
			debug.SetGCPercent(spared.before)
			debug.SetMemoryLimit(spared.limit)
		}
	})
}
