package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A mirrorReader reads the mirror configuration straight from the API server.
type mirrorReader struct{ client rest.Interface }

func newMirrorReader(cfg *rest.Config) (mirrorReader, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json" // custom resources know no other
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()                     // to decode errors
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return mirrorReader{}, fmt.Errorf("making a client for mirror objects: %w", err)
	}
	return mirrorReader{client}, nil
}

// A mirrorKind is a kind of mirror objects, and how a cluster is asked for them.
type mirrorKind struct {
	schema.GroupVersionKind
	resource string
	list     func(ctx context.Context, r mirrorReader, path string) ([]mirrors.Object, error) // nil where one object alone counts
}

// mirrorKinds are all but PinnedImageSet, which decides nothing for others.
var mirrorKinds = []mirrorKind{
	{mirrors.TagMirrorSetGVK, "imagetagmirrorsets", listed[configv1.ImageTagMirrorSet]},
	{mirrors.DigestMirrorSetGVK, "imagedigestmirrorsets", listed[configv1.ImageDigestMirrorSet]},
	{mirrors.ContentPolicyGVK, "imagecontentsourcepolicies", listed[operatorv1alpha1.ImageContentSourcePolicy]},
	{mirrors.ClusterPolicyGVK, "clusterimagepolicies", listed[configv1.ClusterImagePolicy]},
	{mirrors.NamespacePolicyGVK, "imagepolicies", listed[configv1.ImagePolicy]},
	{mirrors.ImageConfigGVK, "images", nil},
}

func (k mirrorKind) collection() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.resource)
}

// definition is the name of its CRD.
func (k mirrorKind) definition() string { return k.collection().GroupResource().String() }

// Mirrors returns the mirror configuration as it stands at the moment of the
// call: it is read from the API server each time, without a cache, so that two
// changes in a row see each other. A resource that the cluster does not serve
// has no objects. A missing right is an error: without some of the objects, it is not known whether MCO would apply anything at
// all. Where MCO rejects the whole, what nodes have is read too, and a note
// says if it cannot be.
func (c *Inventory) Mirrors(ctx context.Context) (mirrors.Set, error) {
	var (
		lists   = make([][]mirrors.Object, len(mirrorKinds))
		pinned  []mirrors.Object
		image   configv1.Image
		gates   configv1.FeatureGate
		version []*configv1.ClusterVersion
	)
	g, reading := errgroup.WithContext(ctx)
	for i, k := range mirrorKinds {
		if k.list != nil {
			g.Go(func() (err error) {
				lists[i], err = k.list(reading, c.mirrors, pathOf(k.collection()))
				return err
			})
		}
	}
	g.Go(func() (err error) {
		pinned, err = c.mirrors.pinnedSets(reading)
		return err
	})
	g.Go(func() error { return c.mirrors.get(reading, imageConfig, nil, &image) })
	g.Go(func() error { return c.mirrors.get(reading, featureGates, nil, &gates) })
	g.Go(func() (err error) {
		version, err = readAll[configv1.ClusterVersion](reading, c.mirrors, clusterVersions)
		return err
	})
	if err := g.Wait(); err != nil {
		return mirrors.Set{}, err
	}
	set := mirrors.Set{
		Registries: image.Spec.RegistrySources,
		TrustedCA:  image.Spec.AdditionalTrustedCA.Name,
		ImportFrom: image.Spec.AllowedRegistriesForImport,
		Payload:    payloadOf(version),
		Pinned:     pinned,
	}
	for i, k := range mirrorKinds {
		switch isPolicy := k.Kind == mirrors.ClusterPolicyGVK.Kind || k.Kind == mirrors.NamespacePolicyGVK.Kind; {
		case !isPolicy:
			set.Objects = append(set.Objects, lists[i]...)
		case !objects.IgnoresImagePolicies(&gates):
			set.Policies = append(set.Policies, lists[i]...)
		}
	}
	var err error
	set.Files, err = c.registryFiles(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return mirrors.Set{}, err // for the moment, it is not known where nodes pull from
	}
	c.applied.noteFiles(err)
	return c.applied.complete(ctx, set, versionOf(set, image.ResourceVersion, set.Payload), c.Applied), nil
}

const (
	// maxStored bounds the objects that Stored reads one by one, storedAtOnce those that it reads at once.
	maxStored    = 64
	storedAtOnce = 8
)

// Stored returns the objects of edits as the API server has stored them; other objects in force may be
// left out. It does not delay other requests: to list a collection, an API server may wait for its cache
// to be up to date, and asks about that ten times a second at most (progressRequestPeriod in
// k8s.io/apiserver, pkg/storage/cacher/progress), so each list delays the next.
func (c *Inventory) Stored(ctx context.Context, edits []mirrors.Edit) (mirrors.Set, error) {
	edited := mirrors.Join(edits...).Objects()
	if len(edited) > maxStored {
		return c.Mirrors(ctx)
	}
	stored := make([]mirrors.Object, len(edited))
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(storedAtOnce)
	for i, o := range edited {
		g.Go(func() (err error) {
			stored[i], err = c.storedAs(reading, o)
			return err
		})
	}
	err := g.Wait()
	if apierrors.IsForbidden(err) {
		return c.Mirrors(ctx) // by the rights of an earlier version
	}
	var set mirrors.Set
	for _, o := range stored {
		if o != nil {
			set = mirrors.Put(o).Apply(set)
		}
	}
	return set, err
}

// storedAs returns the stored object with the name of o, nil if there is none.
func (c *Inventory) storedAs(ctx context.Context, o mirrors.Object) (mirrors.Object, error) {
	data, err := c.MirrorObject(ctx, o)
	if err != nil || data == nil {
		return nil, err
	}
	stored := reflect.New(reflect.TypeOf(o).Elem()).Interface().(mirrors.Object) // whatever kind there is
	if err := json.Unmarshal(data, stored); err != nil {
		return nil, fmt.Errorf("reading %s: %w", mirrors.NameOf(o), err)
	}
	return stored, nil
}

// MirrorObject reads the mirror object of the kind and name of o from the API server, as JSON; nil
// if there is none.
func (c *Inventory) MirrorObject(ctx context.Context, o mirrors.Object) ([]byte, error) {
	name := "/" + url.PathEscape(o.GetName())
	var data json.RawMessage
	if mirrors.KindOf(o) == mirrors.PinnedSetGVK.Kind {
		err := c.mirrors.get(ctx, pinnedSets+name, nil, &data)
		if err == nil && data == nil {
			err = c.mirrors.get(ctx, formerPinnedSets+name, nil, &data)
		}
		return data, err
	}
	i := slices.IndexFunc(mirrorKinds, func(k mirrorKind) bool { return k.Kind == mirrors.KindOf(o) })
	if i < 0 {
		return nil, nil
	}
	folder := pathOf(mirrorKinds[i].collection())
	if ns := o.GetNamespace(); mirrorKinds[i].GroupVersionKind == mirrors.NamespacePolicyGVK {
		folder = path.Join(path.Dir(folder), "namespaces", url.PathEscape(ns), path.Base(folder))
	}
	err := c.mirrors.get(ctx, folder+name, nil, &data)
	return data, err
}

// payloadOf returns the release image of the cluster, "" if it has none.
func payloadOf(versions []*configv1.ClusterVersion) string {
	for _, v := range versions {
		if v.Name == "version" { // the only one that the cluster version operator heeds
			return v.Status.Desired.Image
		}
	}
	return ""
}

// The paths of what does not come in mirrorKinds, or is read alone.
const (
	imageConfig      = "/apis/config.openshift.io/v1/images/cluster"
	featureGates     = "/apis/config.openshift.io/v1/featuregates/cluster"
	clusterVersions  = "/apis/config.openshift.io/v1/clusterversions"
	pinnedSets       = "/apis/machineconfiguration.openshift.io/v1/pinnedimagesets"
	formerPinnedSets = "/apis/machineconfiguration.openshift.io/v1alpha1/pinnedimagesets"
)

// listed is readAll for mirror objects.
func listed[T any, P interface {
	*T
	mirrors.Object
}](ctx context.Context, r mirrorReader, path string,
) ([]mirrors.Object, error) {
	all, err := readAll[T](ctx, r, path)
	return convert.Each(all, func(o *T) mirrors.Object { return P(o) }), err
}

// A listOf is a list as the API server sends it.
type listOf[T any] struct {
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

// readAll lists a collection page by page. A page that has expired because the
// list took minutes fails the whole; the next call starts over.
func readAll[T any](ctx context.Context, r mirrorReader, path string) ([]*T, error) {
	var all []*T
	err := readPages(ctx, r, path, nil, follow.DefaultPageSize, func(page []T) bool {
		for i := range page {
			all = append(all, &page[i])
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// readPages reads the list at path page by page, until visit wants no more.
func readPages[T any](ctx context.Context, r mirrorReader, path string, query map[string]string, size int, visit func(page []T) bool) error {
	asked := map[string]string{"limit": strconv.Itoa(size)}
	maps.Copy(asked, query)
	for {
		var page listOf[T]
		if err := r.get(ctx, path, asked, &page); err != nil {
			return err
		}
		if !visit(page.Items) || page.Continue == "" {
			return nil
		}
		asked["continue"] = page.Continue
	}
}

// get reads the object at path into out, and leaves out unchanged if there is none.
func (r mirrorReader) get(ctx context.Context, path string, query map[string]string, out any) error {
	if err := r.read(ctx, path, query, out); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

const (
	// readFor is for how long a request is repeated, every readAgain, if its connection ends before the
	// answer is complete. That happens to all requests at once if an API server goes away and a load balancer
	// has another. client-go would wait for a second each time (withRetry in k8s.io/client-go/rest).
	readFor   = time.Second
	readAgain = 10 * time.Millisecond
	// mostDelays bounds the repetitions of a request that the API server asks to delay, as in client-go.
	mostDelays = 10
)

// read is get without the path in its error.
func (r mirrorReader) read(ctx context.Context, path string, query map[string]string, out any) error {
	start := time.Now()
	for delays := 0; ; {
		err := r.readOnce(ctx, path, query, out)
		rest := readAgain
		if seconds, delay := apierrors.SuggestsClientDelay(err); delay && delays < mostDelays {
			delays++
			rest = time.Duration(seconds) * time.Second
		} else if !isCutOff(err) || time.Since(start) >= readFor {
			return err
		}
		if pause.For(ctx, rest, nil) != nil {
			return err
		}
	}
}

// isCutOff reports whether err means that a connection failed, or ended in the middle of an answer:
// an answer has a status or is not JSON, and a request that takes too long has a timeout.
func isCutOff(err error) bool {
	var status apierrors.APIStatus
	var failed net.Error
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil, errors.As(err, &status), errors.As(err, &syntax), errors.As(err, &wrongType),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	default:
		return !errors.As(err, &failed) || !failed.Timeout()
	}
}

func (r mirrorReader) readOnce(ctx context.Context, path string, query map[string]string, out any) error {
	request := r.client.Get().AbsPath(path).MaxRetries(0)
	for key, value := range query {
		request.Param(key, value)
	}
	result := request.Do(ctx)
	err := result.Error() // only this one of the two has the server's own words
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}
