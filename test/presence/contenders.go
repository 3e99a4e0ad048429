package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// inFlight is the number of concurrent requests of every contender that supports them.
const inFlight = 64

// A contender is a way to find out whether images are there.
type contender struct {
	name string
	// prepare returns the function to measure, which fails unless all images are there,
	// and one that stops it, if needed.
	prepare func(context.Context, *stage, []image) (ask func() error, stop func(), err error)
	// sample is the most images that are asked for, 0 for all; the result is scaled up
	// to the rest.
	sample int
	// limits is set where the registry throttles as Quay does.
	limits bool
}

// share returns how many of n images are asked for.
func (c contender) share(images int) int {
	if c.sample == 0 {
		return images
	}
	return min(images, c.sample)
}

// contenders returns all of them, the floor first. The tools are asked about few images.
func contenders(sample int) []contender {
	all := []contender{
		{name: "floor: net/http, HTTP/2", prepare: floor},
		{name: "Store, cold", prepare: cold},
		{name: "Store, warm", prepare: warm},
		{name: "Store, cold, Quay's limits", prepare: cold, limits: true},
		{name: "Store, Quay's HTTP/1.1 limits, 8 s at a time", prepare: again, limits: true, sample: 500},
		{name: "ggcr remote.Head for each", prepare: naive},
		{name: "ggcr shared Puller", prepare: puller},
	}
	if path, err := exec.LookPath("skopeo"); err == nil && sample > 0 {
		all = append(all, contender{name: "skopeo inspect, in a loop", prepare: skopeo(path), sample: sample})
	}
	if path, err := exec.LookPath("crane"); err == nil && sample > 0 {
		all = append(all, contender{name: "crane digest, in a loop", prepare: crane(path), sample: sample})
	}
	return all
}

// A result is what a measurement cost.
type result struct {
	took                           time.Duration
	requests, connections, refused int64
	scaled                         bool
}

// scale returns the result for images, of which only some were asked for.
func (r result) scale(images, asked int) result {
	if images == asked {
		return r
	}
	factor := float64(images) / float64(asked)
	times := func(n int64) int64 { return int64(float64(n) * factor) }
	return result{
		took: time.Duration(float64(r.took) * factor), scaled: true,
		requests: times(r.requests), connections: times(r.connections), refused: times(r.refused),
	}
}

func (s *stage) measure(ctx context.Context, c contender, images int) (result, error) {
	s.front.limits = nil
	if c.limits {
		s.front.limits = likeQuay()
	}
	s.front.reset()
	ask, stop, err := c.prepare(ctx, s, s.images[:images])
	if err != nil {
		return result{}, err
	}
	defer stop()
	s.front.requests.Store(0) // what prepare did does not count
	s.front.connections.Store(0)
	start := time.Now()
	err = ask()
	return result{
		took: time.Since(start), requests: s.front.requests.Load(),
		connections: s.front.connections.Load(), refused: s.front.throttled.Load(),
	}, err
}

// floor asks with nothing but net/http: one ping, a token for 50 repositories each, one
// after the other, then a HEAD for each image. It does none of a client's other work: it
// looks at nothing but the status.
func floor(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
	transport := s.transport()
	c := &bare{ctx: ctx, client: &http.Client{Transport: transport}, tokens: map[string]string{}}
	return func() error { return c.ask(images) }, transport.CloseIdleConnections, nil
}

// transport connects to the front, whatever the host.
func (s *stage) transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.front.address())
		},
		TLSClientConfig:     &tls.Config{RootCAs: s.front.roots(), MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: inFlight,
	}
}

// A bareClient does the least that can be done.
type bare struct {
	ctx    context.Context
	client *http.Client
	tokens map[string]string // by scope
}

func (b *bare) ask(images []image) error {
	if err := b.do(http.MethodGet, "/v2/", "", http.StatusUnauthorized, nil); err != nil {
		return err
	}
	if err := b.fetchTokens(images); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, i := range images {
		group.Go(func() error { return b.do(http.MethodHead, i.path(), b.tokens[i.scope()], http.StatusOK, nil) })
	}
	return group.Wait()
}

// scopesPerToken is what the Store asks for as well.
const scopesPerToken = 50

func (b *bare) fetchTokens(images []image) error {
	var batch []string
	for n, i := range images {
		if _, ok := b.tokens[i.scope()]; !ok {
			b.tokens[i.scope()] = ""
			batch = append(batch, i.scope())
		}
		if len(batch) < scopesPerToken && (n < len(images)-1 || len(batch) == 0) {
			continue
		}
		var answer struct{ Token string }
		if err := b.do(http.MethodGet, "/token?"+url.Values{"scope": batch}.Encode(), "", http.StatusOK, &answer); err != nil {
			return err
		}
		for _, scope := range batch {
			b.tokens[scope] = answer.Token
		}
		batch = nil
	}
	return nil
}

// do sends a request, expects a status, and decodes the answer into out unless that is nil.
func (b *bare) do(method, path, token string, want int, out any) error {
	req, err := http.NewRequestWithContext(b.ctx, method, "https://"+host+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", manifestType) // without it, distribution answers 404
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// cold asks a new Store.
func cold(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
	rates := map[string]float64{}
	if s.front.limits != nil {
		rates[host] = registry.DefaultRates["quay.io"]
	}
	client := registry.NewClient(registry.Options{
		RootCAs: s.front.roots(), Resolve: map[string]string{host: s.front.address()}, PerRegistry: inFlight, Rates: rates,
	})
	store := presence.NewStore(client, presence.Options{PerRegistry: inFlight})
	locations := make([]mirrors.Location, len(images))
	for i, img := range images {
		locations[i].Ref = img.ref(host)
	}
	ask := func() error { return allPresent(store.Presence(ctx, locations), locations) }
	stop := func() {
		store.Close()
		client.Close()
	}
	return ask, stop, nil
}

// again asks a new Store by HTTP/1.1, like a review that is refused and tried again: each
// time for as long as an API server waits, until all is known. At 50 answers a second, one
// attempt is never enough for a whole cluster.
func again(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
	client := registry.NewClient(registry.Options{
		RootCAs: s.front.roots(), Resolve: map[string]string{host: s.front.old.Listener.Addr().String()}, PerRegistry: inFlight,
	})
	store := presence.NewStore(client, presence.Options{Lifetimes: presence.Lifetimes{Trouble: time.Nanosecond}})
	locations := make([]mirrors.Location, len(images))
	for i, img := range images {
		locations[i].Ref = img.ref(host)
	}
	ask := func() error {
		for {
			waiting, cancel := context.WithTimeout(ctx, 8*time.Second)
			facts := store.Presence(waiting, locations)
			cancel()
			err := allPresent(facts, locations)
			if err == nil || ctx.Err() != nil || !mayBeThere(facts) {
				return err
			}
		}
	}
	stop := func() {
		store.Close()
		client.Close()
	}
	return ask, stop, nil
}

// mayBeThere reports whether no image is known not to be there.
func mayBeThere(facts policy.Facts) bool {
	for _, f := range facts {
		if f.Presence != policy.Present && f.Presence != policy.Unreachable {
			return false
		}
	}
	return true
}

func allPresent(facts policy.Facts, locations []mirrors.Location) error {
	for _, l := range locations {
		if f := facts.At(l); f.Presence != policy.Present {
			return fmt.Errorf("%s is %v: %s", l.Ref, f.Presence, f.Detail)
		}
	}
	return nil
}

// warm asks a Store that knows everything.
func warm(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
	ask, stop, err := cold(ctx, s, images)
	if err != nil {
		return nil, nil, err
	}
	return ask, stop, ask()
}

// naive asks in a loop around go-containerregistry.
func naive(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
	transport := s.transport()
	ask := func() error {
		return eachRef(images, func(ref name.Reference) error {
			_, err := remote.Head(ref, remote.WithTransport(transport), remote.WithContext(ctx))
			return err
		})
	}
	return ask, transport.CloseIdleConnections, nil
}

// puller asks through one Puller of go-containerregistry, which pings once for each
// repository, in the order that suits it best: no two images of a repository in a row.
func puller(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
	transport := s.transport()
	p, err := remote.NewPuller(remote.WithTransport(transport))
	if err != nil {
		return nil, nil, err
	}
	ask := func() error {
		return eachRef(interleaved(images), func(ref name.Reference) error {
			_, err := p.Head(ctx, ref)
			return err
		})
	}
	return ask, transport.CloseIdleConnections, nil
}

func eachRef(images []image, ask func(name.Reference) error) error {
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, i := range images {
		group.Go(func() error {
			ref, err := name.ParseReference(i.ref(host))
			if err != nil {
				return err
			}
			return ask(ref)
		})
	}
	return group.Wait()
}

// interleaved returns the first image of each repository, then the second, and so on.
func interleaved(images []image) []image {
	order := make([]image, 0, len(images))
	for offset := range perRepository {
		for i := offset; i < len(images); i += perRepository {
			order = append(order, images[i])
		}
	}
	return order
}

// skopeo asks the way the usual script does.
func skopeo(program string) func(context.Context, *stage, []image) (func() error, func(), error) {
	return func(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
		return loop(images, func(i image) *exec.Cmd {
			return exec.CommandContext(ctx, program, "inspect", "--no-creds", "--cert-dir", s.certs, "docker://"+i.ref(s.front.address()))
		})
	}
}

// crane asks the way the other usual script does.
func crane(program string) func(context.Context, *stage, []image) (func() error, func(), error) {
	return func(ctx context.Context, s *stage, images []image) (func() error, func(), error) {
		return loop(images, func(i image) *exec.Cmd {
			cmd := exec.CommandContext(ctx, program, "digest", i.ref(s.front.address()))
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(s.certs, "ca.crt"), "DOCKER_CONFIG="+s.certs)
			return cmd
		})
	}
}

// loop runs a command for each image, one after the other.
func loop(images []image, command func(image) *exec.Cmd) (func() error, func(), error) {
	ask := func() error {
		for _, i := range images {
			if out, err := command(i).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", i.repository, err, out)
			}
		}
		return nil
	}
	return ask, func() {}, nil
}
