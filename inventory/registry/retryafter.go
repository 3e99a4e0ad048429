package registry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a registry can make us wait, or promise.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads the header of that name, a number of seconds or a date
// (RFC 9110, 10.2.3). It returns 0 if there is none, if it makes no sense or if it
// is over.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
