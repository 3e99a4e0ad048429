package registry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxManifest is what nodes read (containers/image internal/iolimits). A longer
	// manifest fails the pull.
	maxManifest = 4 << 20
	// maxOther bounds what is read of any other answer.
	maxOther = 64 << 10
	// maxShort is the length of a body beyond which bodies are read a few at a
	// time. An index of 50 platforms with attestations has 30 kB.
	maxShort = 128 << 10
	maxLong  = 4
)

// A request is one question, to a registry or to its token server.
type request struct {
	method        string
	url           string
	authorization string
	accept        []string
	form          url.Values // sent as the body if not nil
	limit         int64      // bytes of the body to read
	firstByte     bool       // the rest of the body need not be sent
}

// A response is an answer that has been read.
type response struct {
	status int
	header http.Header
	body   []byte
	// cut is set if the body is longer than the limit.
	cut bool
	// redirected is the host that answered without having been shown credentials, as
	// redirects led to it by way of another server; "" if none did.
	redirected string
}

// ask puts one request and reads the answer, within the time for one request.
func (w *way) ask(ctx context.Context, q request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	req, err := q.build(ctx, w.options.UserAgent)
	if err != nil {
		return response{}, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // whatever could be read was read
	body, err := w.read(ctx, resp.Body, q.limit+1)
	if err != nil {
		return response{}, err
	}
	r := response{status: resp.StatusCode, header: resp.Header, body: body}
	if int64(len(body)) > q.limit {
		r.body, r.cut = body[:q.limit], true
	}
	if hasStrayed(resp.Request, req.URL) {
		r.redirected = resp.Request.URL.Host
	}
	return r, nil
}

// read reads at most limit bytes. Few bodies are long; to read all of them at once
// would let registries decide how much memory is used, so long ones take turns.
func (w *way) read(ctx context.Context, body io.Reader, limit int64) ([]byte, error) {
	short, err := io.ReadAll(io.LimitReader(body, min(limit, maxShort)))
	if err != nil || len(short) < maxShort || limit <= maxShort {
		return short, err
	}
	select {
	case w.options.long <- struct{}{}:
		defer func() { <-w.options.long }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	long := bytes.NewBuffer(short)
	_, err = io.Copy(long, io.LimitReader(body, limit-int64(len(short))))
	return long.Bytes(), err
}

func (q request) build(ctx context.Context, userAgent string) (*http.Request, error) {
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
	if q.firstByte {
		req.Header.Set("Range", "bytes=0-0")
	}
	for _, mediaType := range q.accept {
		req.Header.Add("Accept", mediaType)
	}
	return req, nil
}

// sleep waits for d, or until ctx ends, which is an error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
