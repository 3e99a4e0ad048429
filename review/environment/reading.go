package environment

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
)

const (
	// progressAfter is how long a person waits without wondering.
	progressAfter = 3 * time.Second
	// progressEvery is how often they want to hear.
	progressEvery = 10 * time.Second
	// hopelessAfter is how long an API server that is starting may refuse everything.
	hopelessAfter = 10 * time.Second
	// mostLists is how many lists are named.
	mostLists = 3
)

// showProgress says on w how far the reading of the cluster has come, a line at a
// time, until the returned function is called. A fast reading prints nothing.
func showProgress(w io.Writer, sources func() []follow.Status) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for wait := progressAfter; ; wait = progressEvery {
			select {
			case <-time.After(wait):
				fmt.Fprintln(w, "mirrorset-guard:", progressText(sources()))
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

// progressText names some of the missing lists, and the reason if they share one.
func progressText(sources []follow.Status) string {
	missing, reasons, by := unread(sources)
	words := fmt.Sprintf("reading the cluster: %d of %d lists", len(sources)-len(missing), len(sources))
	switch {
	case len(missing) == 0:
		return words
	case len(reasons) == 1 && len(by[reasons[0]]) == len(missing):
		return words + ": " + reasons[0]
	default:
		return words + ", waiting for " + text.Names(missing, mostLists)
	}
}

// unread returns the lists that have not been read, and those of which it is known why by the reasons, which are in order.
func unread(sources []follow.Status) (missing, reasons []string, by map[string][]string) {
	by = map[string][]string{}
	for _, s := range sources {
		if s.Synced {
			continue
		}
		missing = append(missing, s.Name)
		why := Words(s.Err)
		if why == "" {
			continue
		}
		if by[why] == nil {
			reasons = append(reasons, why)
		}
		by[why] = append(by[why], s.Name)
	}
	return missing, reasons, by
}

// Words describes an error briefly, "" for nil: it leaves out the address of the request.
func Words(err error) string {
	var request *url.Error
	switch {
	case err == nil:
		return ""
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the credentials of the kubeconfig (Unauthorized): a new oc login may help"
	case errors.As(err, &request):
		return request.Err.Error()
	default:
		return err.Error()
	}
}

// A Reading is a *cluster.Inventory that is being read.
type Reading interface {
	WaitReady(context.Context) error
	Sources() []follow.Status
}

// AwaitRead waits until the cluster has been read, for at most limit, and says on w how far that
// is. It does not wait for what time does not mend.
func AwaitRead(ctx context.Context, w io.Writer, cluster Reading, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", progress.Short(limit)))
	defer cancel()
	defer showProgress(w, cluster.Sources)()
	read := make(chan error, 1)
	go func() { read <- cluster.WaitReady(ctx) }()
	look := time.NewTicker(hopelessAfter)
	defer look.Stop()
	for {
		select {
		case err := <-read:
			if err == nil {
				return nil
			}
			if why := notReadText(cluster.Sources()); why != "" {
				err = fmt.Errorf("%w: %s", context.Cause(ctx), why)
			}
			return fmt.Errorf("reading the cluster: %w", err)
		case <-look.C:
			if sources := cluster.Sources(); len(sources) > 0 && !slices.ContainsFunc(sources, func(s follow.Status) bool { return !lasts(s.Err) }) { // nothing can be read, for reasons that last
				cancel()
				if err := <-read; err == nil { // at this moment
					return nil
				}
				return fmt.Errorf("reading the cluster: %s", notReadText(sources))
			}
		}
	}
}

// lasts reports whether time does not mend an error.
func lasts(err error) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var name *net.DNSError
	return apierrors.IsUnauthorized(err) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &name) && name.IsNotFound
}

// notReadText says which lists could not be read, and why, each reason once; "" where that is not
// known.
func notReadText(sources []follow.Status) string {
	_, reasons, by := unread(sources)
	if len(reasons) == 1 && len(by[reasons[0]]) == len(sources) {
		return fmt.Sprintf("none of %s could be read: %s", text.Count(len(sources), "list"), reasons[0])
	}
	parts := convert.Each(reasons, func(why string) string {
		return fmt.Sprintf("%s could not be read: %s", text.Names(by[why], mostLists), why)
	})
	return strings.Join(text.First(parts, 3, "reason"), "; ")
}
