package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	// MaxManifest is the most that nodes read (containers/image internal/iolimits). A
	// longer manifest fails the pull.
	MaxManifest = 4 << 20
	// MaxOther bounds the read part of any other answer.
	MaxOther = 64 << 10
)

// A Request is one HTTP request to a registry or to its token server.
type Request struct {
	Path      string // below that of the repository: "manifests/latest"
	Accept    []string
	Limit     int64 // bytes of the body to read; of an error, no more than MaxOther
	FirstByte bool  // the rest of the body need not be sent

	method, url   string
	authorization string
	form          url.Values // sent as the body if not nil
}

// A Response is an answer that has been read.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Cut is set if the body is longer than the limit.
	Cut bool
	// redirected is the host that answered without having been shown credentials, because
	// redirects led away from the server asked; "" if they did not.
	redirected string
}

func (q Request) build(ctx context.Context, userAgent string) (*http.Request, error) {
	var body io.Reader
	if q.form != nil {
		body = strings.NewReader(q.form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Docker-Distribution-API-Version", "registry/2.0") // as nodes say
	if q.form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if q.authorization != "" {
		req.Header.Set("Authorization", q.authorization)
	}
	if q.FirstByte {
		req.Header.Set("Range", "bytes=0-0")
	}
	for _, mediaType := range q.Accept {
		req.Header.Add("Accept", mediaType)
	}
	return req, nil
}

// StatusText returns the status as messages have it ("404 Not Found").
func (r Response) StatusText() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)))
}

// SaysNoRepository reports whether the answer is that there is no such repository.
func (r Response) SaysNoRepository() bool {
	first, ok := r.FirstError()
	return ok && first.Code == ggcr.NameUnknownErrorCode
}

// FirstError returns the first error in a registry's answer, if there is one in the form that the distribution specification
// gives it. Anything else, such as a load balancer's error page, would only take up room.
func (r Response) FirstError() (first ggcr.Diagnostic, ok bool) {
	var body ggcr.Error
	if json.Unmarshal(r.Body, &body) != nil || len(body.Errors) == 0 {
		return first, false
	}
	return body.Errors[0], true
}

// Says quotes the first error of a registry's answer, "" if there is none.
func (r Response) Says() string {
	first, _ := r.FirstError()
	message := cmp.Or(first.Message, string(first.Code))
	if message == "" {
		return ""
	}
	return ", saying " + Quote(message)
}
