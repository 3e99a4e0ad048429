package follow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DefaultPageSize is how many objects are listed at a time: 500 pods of 10 kB make 5 MB to
// decode, 200 pages list 100,000.
const DefaultPageSize = 500

// ListTimeout is how long a page may take: longer than an API server works on it
// (--request-timeout, 1 min), so that only a dead connection is cut.
const ListTimeout = 90 * time.Second

// list reads all objects page by page. The Reflector's own list, at resource version 0, is
// answered by the watch cache of the API server in one piece, however large: more than 1 GB
// for 100,000 pods. Where the server streams lists, list is not called.
func (s *Source) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	all := &metainternalversion.List{}
	options := metav1.ListOptions{Limit: cmp.Or(s.PageSize, DefaultPageSize)}
	s.selects(&options)
	if s.streamFailed {
		s.streamFailed = false // this is the same attempt
	} else {
		s.beforeListing(ctx)
	}
	for {
		page, err := s.listPage(ctx, options)
		if err == nil {
			err = s.appendPage(all, page)
		}
		if err != nil {
			s.retries.step(s.delays())
			return nil, s.fail(err)
		}
		if all.Continue == "" {
			s.health.heard()
			return all, nil
		}
		options.Continue, all.Continue = all.Continue, ""
	}
}

// beforeListing waits until all may be listed.
func (s *Source) beforeListing(ctx context.Context) {
	if s.streamFailed { // and is tried again, as it may have been the connection
		s.retries.step(s.delays())
	} else if s.retries.listing(s.delays()) && s.Status().Err == nil {
		s.health.failed(errCut)
	}
	s.retries.wait(ctx)
}

func (s *Source) listPage(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, ListTimeout)
	defer cancel()
	return s.Client.List(ctx, options)
}

func (s *Source) appendPage(all *metainternalversion.List, page runtime.Object) error {
	m, err := meta.ListAccessor(page)
	if err != nil {
		return fmt.Errorf("listing %s: %w", s.Name, err)
	}
	all.ResourceVersion, all.Continue = m.GetResourceVersion(), m.GetContinue()
	return meta.EachListItem(page, func(o runtime.Object) error {
		t, err := s.trim(o)
		if err == nil {
			all.Items = append(all.Items, t)
		}
		return err
	})
}
