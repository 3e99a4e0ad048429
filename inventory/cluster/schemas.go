package cluster

import (
	"context"
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
)

// schemas find the kinds that have pod templates by the OpenAPI documents that every API
// server publishes and every authenticated user may read (ClusterRole system:discovery),
// even if the objects themselves may not be read. A schema that leaves its fields open
// reveals nothing.
type schemas struct {
	api openapi.ClientWithContext
	// known are the kinds with pods in documents, by their URLs, which include hashes of the contents.
	known map[string]map[string]bool
}

// withPods returns those of kinds whose objects have fields with the shape of a pod, sorted. With an
// error, there may be more.
func (s *schemas) withPods(ctx context.Context, kinds map[schema.GroupVersionResource]schema.GroupKind) ([]string, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	documents, err := s.api.PathsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the list of schemas: %w", err)
	}
	var found []string
	var failed error
	known := map[string]map[string]bool{}
	for r, kind := range kinds {
		document := documents[path.Dir(pathOf(r))[1:]]
		if document == nil {
			continue // it has no schemas
		}
		url := document.ServerRelativeURL()
		if known[url] == nil {
			known[url] = s.known[url]
		}
		if known[url] == nil {
			data, err := document.SchemaWithContext(ctx, "application/json")
			if err == nil {
				known[url], err = images.KindsWithPods(data)
			}
			if err != nil {
				failed = fmt.Errorf("reading the schemas of %s: %w", r.GroupVersion(), err)
			}
		}
		if known[url][kind.Kind] {
			found = append(found, r.GroupResource().String())
		}
	}
	s.known = known
	slices.Sort(found)
	return found, failed
}
