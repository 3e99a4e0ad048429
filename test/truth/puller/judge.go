package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/containers/image/v5/docker"
	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/image"
	"github.com/containers/image/v5/signature"
	"github.com/containers/image/v5/types"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A question is whether a node would accept an image.
type question struct {
	// Policy is policy.json, Reference the image as the node was told to run it.
	Policy    json.RawMessage `json:"policy"`
	Reference string          `json:"reference"`
	// Manifest is that of the image.
	Manifest []byte `json:"manifest"`
	// Signatures are the layers of what is attached to it.
	Signatures []layer `json:"signatures"`
}

type layer struct {
	MediaType   string            `json:"mediaType"`
	Payload     []byte            `json:"payload"`
	Annotations map[string]string `json:"annotations"`
}

// An answer is the reason for which a node would not accept it; "" if it would.
type answer struct {
	Rejected string `json:"rejected"`
}

// judgeAll answers the questions in r, one a line, by containers/image alone: it has a registry
// serve each image, and reads it back as a node does.
func judgeAll(r io.Reader, w io.Writer) error {
	folder, err := os.MkdirTemp("", "judge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the process ends
	held := map[string]stored{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := held[r.URL.Path]
		if !ok && r.URL.Path != "/v2/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", content.mediaType)
		_, _ = w.Write(content.data)
	}))
	defer server.Close()
	registry := strings.TrimPrefix(server.URL, "http://")
	sys, err := nodeOf(folder, registry)
	if err != nil {
		return err
	}
	questions, answers := json.NewDecoder(r), json.NewEncoder(w)
	for {
		var q question
		if err := questions.Decode(&q); err == io.EOF { //nolint:errorlint // never wrapped
			return nil
		} else if err != nil {
			return err
		}
		clear(held)
		if err := q.serve(held); err != nil {
			return err
		}
		var a answer
		if err := q.judge(sys); err != nil {
			a.Rejected = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// nodeOf returns the configuration of a node that pulls everything from one registry.
func nodeOf(folder, registry string) (*types.SystemContext, error) {
	sys := &types.SystemContext{
		SystemRegistriesConfPath: filepath.Join(folder, "registries.conf"), SystemRegistriesConfDirPath: os.DevNull,
		RegistriesDirPath: filepath.Join(folder, "registries.d"), DockerInsecureSkipTLSVerify: types.OptionalBoolTrue,
	}
	conf := fmt.Sprintf("[[registry]]\nprefix = \"*.example.com\"\nlocation = \"\"\n[[registry.mirror]]\nlocation = %q\ninsecure = true\n", registry)
	return sys, func() error {
		if err := os.Mkdir(sys.RegistriesDirPath, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sys.RegistriesDirPath, "all.yaml"), []byte("default-docker:\n  use-sigstore-attachments: true\n"), 0o600); err != nil {
			return err
		}
		return os.WriteFile(sys.SystemRegistriesConfPath, []byte(conf), 0o600)
	}()
}

// A stored is the content under a path of the registry.
type stored struct {
	mediaType string
	data      []byte
}

// serve has the registry serve the image of q, whatever it is called.
func (q *question) serve(held map[string]stored) error {
	ref, err := reference.ParseNormalizedNamed(q.Reference)
	if err != nil {
		return err
	}
	path := "/v2/" + reference.Path(ref) + "/"
	sum := digest.FromBytes(q.Manifest)
	image := stored{imagespec.MediaTypeImageManifest, q.Manifest}
	held[path+"manifests/"+sum.String()] = image
	if tagged, ok := ref.(reference.Tagged); ok {
		held[path+"manifests/"+tagged.Tag()] = image
	}
	if digested, ok := ref.(reference.Digested); ok {
		held[path+"manifests/"+digested.Digest().String()] = image
	}
	if len(q.Signatures) == 0 {
		return nil
	}
	attachment := imagespec.Manifest{MediaType: imagespec.MediaTypeImageManifest}
	attachment.SchemaVersion = 2
	attachment.Config = imagespec.Descriptor{MediaType: imagespec.MediaTypeImageConfig, Digest: digest.FromString("{}"), Size: 2}
	for _, s := range q.Signatures {
		d := imagespec.Descriptor{MediaType: s.MediaType, Digest: digest.FromBytes(s.Payload), Size: int64(len(s.Payload)), Annotations: s.Annotations}
		attachment.Layers = append(attachment.Layers, d)
		held[path+"blobs/"+d.Digest.String()] = stored{"application/octet-stream", s.Payload}
	}
	data, err := json.Marshal(attachment)
	if err != nil {
		return err
	}
	held[path+"manifests/"+strings.Replace(sum.String(), ":", "-", 1)+".sig"] = stored{imagespec.MediaTypeImageManifest, bytes.TrimSpace(data)}
	return nil
}

// judge asks containers/image. The error says why the image is not accepted.
func (q *question) judge(sys *types.SystemContext) error {
	ctx := context.Background()
	policy, err := signature.NewPolicyFromBytes(q.Policy)
	if err != nil {
		return err
	}
	trust, err := signature.NewPolicyContext(policy)
	if err != nil {
		return err
	}
	defer trust.Destroy() //nolint:errcheck // it holds no resources
	named, err := reference.ParseNormalizedNamed(q.Reference)
	if err != nil {
		return err
	}
	ref, err := docker.NewReference(named)
	if err != nil {
		return err
	}
	src, err := ref.NewImageSource(ctx, sys)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // it was only read
	allowed, err := trust.IsRunningImageAllowed(ctx, image.UnparsedInstance(src, nil))
	if err == nil && !allowed {
		return fmt.Errorf("not allowed, without a reason")
	}
	return err
}
