package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

const (
	// host is the name by which clients know the registry; its certificate has it.
	host = "mirror.example.com"
	// perRepository is how many images share a repository: 2,000 in 200, as in a
	// cluster's mirror.
	perRepository = 10

	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
)

// An image is one that the registry holds.
type image struct {
	repository string
	digest     digest.Digest
}

func (i image) path() string  { return "/v2/" + i.repository + "/manifests/" + i.digest.String() }
func (i image) scope() string { return "repository:" + i.repository + ":pull" }

// ref names the image at a host, "host" or "host:port".
func (i image) ref(host string) string { return host + "/" + i.repository + "@" + i.digest.String() }

// A stage is a registry with its contents, and its front.
type stage struct {
	process *registries.Process
	front   *front
	images  []image // repository by repository, as an inventory lists them
	certs   string  // folder with the front's certificate, ca.crt
}

func newStage(dir string) (*stage, error) {
	process, err := registries.StartProcess(dir, "", "", io.Discard)
	if err != nil {
		return nil, err
	}
	s := &stage{process: process, front: newFront(process.Addr), certs: filepath.Join(dir, "certs")}
	if err := s.writeCertificate(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) writeCertificate() error {
	if err := os.Mkdir(s.certs, 0o700); err != nil {
		return err
	}
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.front.server.Certificate().Raw}
	return os.WriteFile(filepath.Join(s.certs, "ca.crt"), pem.EncodeToMemory(block), 0o600)
}

func (s *stage) close() {
	s.front.close()
	s.process.Stop() //nolint:errcheck // it holds nothing worth keeping
}

// config is the one blob that all images share.
var config = []byte(`{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`)

// fill pushes images to the registry, bypassing the front.
func (s *stage) fill(ctx context.Context, images int) error {
	if err := s.upload(ctx); err != nil {
		return err
	}
	s.images = make([]image, images)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for first := 0; first < images; first += perRepository {
		group.Go(func() error { return s.fillRepository(ctx, first, min(first+perRepository, images)) })
	}
	return group.Wait()
}

func (s *stage) fillRepository(ctx context.Context, first, end int) error {
	repository := fmt.Sprintf("team%d/app%d", first/1000, first/perRepository)
	mount := fmt.Sprintf("/v2/%s/blobs/uploads/?mount=%s&from=base", repository, digest.FromBytes(config))
	if _, err := s.send(ctx, http.MethodPost, mount, "", nil); err != nil {
		return err
	}
	for i := first; i < end; i++ {
		manifest, err := manifestOf(i)
		if err != nil {
			return err
		}
		// By tag, for contenders that list tags.
		path := fmt.Sprintf("/v2/%s/manifests/v%d", repository, i%perRepository)
		if _, err := s.send(ctx, http.MethodPut, path, manifestType, manifest); err != nil {
			return err
		}
		s.images[i] = image{repository, digest.FromBytes(manifest)}
	}
	return nil
}

// manifestOf returns a distinct manifest of an image without layers.
func manifestOf(i int) ([]byte, error) {
	return json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        map[string]any{"mediaType": configType, "size": len(config), "digest": digest.FromBytes(config)},
		"layers":        []any{},
		"annotations":   map[string]string{"image": fmt.Sprint(i)},
	})
}

// upload puts the blob into the repository "base", from which others mount it.
func (s *stage) upload(ctx context.Context) error {
	header, err := s.send(ctx, http.MethodPost, "/v2/base/blobs/uploads/", "", nil)
	if err != nil {
		return err
	}
	_, err = s.sendTo(ctx, http.MethodPut, header.Get("Location")+"&digest="+digest.FromBytes(config).String(), "application/octet-stream", config)
	return err
}

func (s *stage) send(ctx context.Context, method, path, contentType string, body []byte) (http.Header, error) {
	return s.sendTo(ctx, method, "http://"+s.process.Addr+path, contentType, body)
}

func (s *stage) sendTo(ctx context.Context, method, url, contentType string, body []byte) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := fillClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, said)
	}
	return resp.Header, err
}

var fillClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
