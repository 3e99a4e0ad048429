package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
)

// schemas find the kinds that have pod templates by the OpenAPI documents that every API
// server publishes and every authenticated user may read (ClusterRole system:discovery),
// even if the objects themselves may not be read. A schema that leaves its fields open
// reveals nothing.
type schemas struct {
	api   rest.Interface
	known map[schema.GroupVersion]document
}

// A document is a trimmed OpenAPI document of one group version.
type document struct {
	url  string // it includes a hash of the content
	pods map[string]bool
}

// withPods returns those of kinds whose objects have fields with the shape of a pod, sorted. With an
// error, there may be more.
func (s *schemas) withPods(ctx context.Context, kinds map[schema.GroupVersionResource]schema.GroupKind) ([]string, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	urls, err := s.urls(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the list of schemas: %w", err)
	}
	var found []string
	var failed error
	for r, kind := range kinds {
		d, err := s.document(ctx, r.GroupVersion(), urls)
		if err != nil {
			failed = err
		}
		if d.pods[kind.Kind] {
			found = append(found, r.GroupResource().String())
		}
	}
	slices.Sort(found)
	return found, failed
}

// urls returns the URLs of the documents, by the path of their group version.
func (s *schemas) urls(ctx context.Context) (map[string]string, error) {
	var list struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	data, err := s.api.Get().AbsPath("/openapi/v3").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	urls := map[string]string{}
	for path, p := range list.Paths {
		urls[path] = p.ServerRelativeURL
	}
	return urls, err
}

// document reads the document of a group version, unless it is unchanged. A group version
// without one has no schemas.
func (s *schemas) document(ctx context.Context, gv schema.GroupVersion, urls map[string]string) (document, error) {
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	url := urls[path]
	if d, ok := s.known[gv]; ok && d.url == url || url == "" {
		return d, nil
	}
	var kinds map[string]bool
	data, err := s.api.Get().RequestURI(url).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err == nil {
		kinds, err = images.KindsWithPods(data)
	}
	if err != nil {
		return document{}, fmt.Errorf("reading the schemas of %s: %w", gv, err)
	}
	if s.known == nil {
		s.known = map[schema.GroupVersion]document{}
	}
	d := document{url, kinds}
	s.known[gv] = d
	return d, nil
}
