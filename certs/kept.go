package certs

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
)

// A kept value is what was made of files when they were last usable. It is safe for concurrent use.
type kept[T any] struct {
	what string // for the log
	read func() (texts [][]byte, value T, err error)

	reloading sync.Mutex // held by Reload

	mu    sync.RWMutex
	texts [][]byte // the content of the files
	value T
	err   error
}

// Reload reads the files now and reports whether they hold something else. On an error
// the value that was in use stays in use.
func (k *kept[T]) Reload() (changed bool, _ error) {
	k.reloading.Lock()
	defer k.reloading.Unlock()
	texts, value, err := k.read()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err != nil || slices.EqualFunc(texts, k.texts, bytes.Equal) {
		return false, err
	}
	k.texts, k.value = texts, value
	return true, nil
}

// Run reloads every few seconds until ctx ends. It logs each change: new files, files that cannot be used and why, and
// recovery from that.
func (k *kept[T]) Run(ctx context.Context, log logr.Logger) {
	mounted.Poll(ctx, func() {
		before := k.Err()
		changed, err := k.Reload()
		switch {
		case err != nil && (before == nil || before.Error() != err.Error()):
			log.Error(err, "Kept what is in use, could not use new files", "of", k.what)
		case changed:
			log.Info("Reloaded files", "of", k.what)
		case err == nil && before != nil:
			log.Info("Files can be read again", "of", k.what)
		}
	})
}

// Err returns why the last read failed, nil if it did not.
func (k *kept[T]) Err() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.err
}

func (k *kept[T]) current() T {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.value
}
