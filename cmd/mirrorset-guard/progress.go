package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

const (
	// progressAfter is how long a person waits without wondering.
	progressAfter = 3 * time.Second
	// progressEvery is how often they want to hear.
	progressEvery = 10 * time.Second
)

// showProgress says on w how far the reading of the cluster has come, a line at a
// time, until the returned function is called. What is done soon is not talked about.
func showProgress(w io.Writer, sources func() []follow.Status) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for wait := progressAfter; ; wait = progressEvery {
			select {
			case <-time.After(wait):
				fmt.Fprintln(w, "mirrorset-guard:", progress(sources()))
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// progress names at most three of the lists that are missing.
func progress(sources []follow.Status) string {
	var missing []string
	for _, s := range sources {
		if !s.Synced {
			missing = append(missing, s.Name)
		}
	}
	text := fmt.Sprintf("reading the cluster: %d of %d lists", len(sources)-len(missing), len(sources))
	if len(missing) == 0 {
		return text
	}
	const most = 3
	if more := len(missing) - most; more > 0 {
		missing = append(missing[:most], fmt.Sprintf("%d more", more))
	}
	return text + ", waiting for " + strings.Join(missing, ", ")
}
