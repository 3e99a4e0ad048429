package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	imagev1 "github.com/openshift/api/image/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Options configure an Inventory. The zero value is the default.
type Options struct {
	// OnPullSecret receives the content of Secret openshift-config/pull-secret, the
	// credentials of the nodes: once before the Inventory is ready, and on each change. The
	// error says that there is no such secret, that it may not be read or that it has no
	// .dockerconfigjson; the content is nil then. Calls come one at a time and should
	// return at once. Nil means that the secret is not read.
	OnPullSecret func(dockerconfigjson []byte, err error)
	// OnUnreviewed receives the kind and name of an object that decides where nodes pull from, and that no
	// webhook sees, whenever it has changed: a MachineConfig with such files, the pull secret. It
	// must return at once, and may be nil.
	OnUnreviewed func(object string)
	// ForbiddenAfter is how long a source that has never been read has to be refused,
	// without another answer in between, to count as one that may not be read. Until
	// then the Inventory is not ready. Zero means follow.DefaultForbiddenAfter.
	ForbiddenAfter time.Duration
	// ForgoesForbidden has the Inventory go on without workloads that may not be read, which Gaps then lists, instead of
	// waiting for the right to.
	ForgoesForbidden bool
	// SurveyEvery is how often objects of unknown kinds are searched for
	// images. Zero means DefaultSurveyEvery. New kinds are looked for every minute, or as
	// often if that is more often.
	SurveyEvery time.Duration
	// OnlyRollout makes the Inventory follow only the objects that a rollout depends on: it
	// has no images then. Pods that may not be read are unknown, instead of awaited.
	OnlyRollout bool
	// OnlyProgress makes the Inventory follow only the objects that show how far a rollout is:
	// neither pods nor their controllers. MirrorChanges counts then.
	OnlyProgress bool
	// Logger gets client-go's messages about watches, and a line when a resource begins or
	// ceases to be served. The zero value is silent.
	Logger logr.Logger
}

// An Inventory follows a running cluster. It is safe for concurrent use. Until Run has been
// called it is empty.
type Inventory struct {
	index         images.Index
	kept          objects.Store
	pods          workloads.Table
	controllers   [4]follow.Table[*rollout.Controller] // of the kinds in controllerResources; nil for those that do not count
	drainOverride atomic.Bool                          // whether there is workloads.DrainOverride
	mirrors       mirrorReader
	applied       appliedReader
	files         follow.Table[[]mirrors.File]
	sources       []*source
	left          []string // the resources that a rollout needs and that are not followed on purpose
	accounts      *source
	survey        *survey // nil for none
	log           logr.Logger

	pending atomic.Int64  // sources that have not synced
	ready   chan struct{} // closed when there are none

	progressChanges, mirrorChanges atomic.Uint64
}

// New returns the inventory of the cluster that cfg leads to. It does
// not contact it yet, and leaves cfg as it is.
func New(cfg *rest.Config, o Options) (*Inventory, error) {
	cfg = unlimited(cfg)
	reader, err := newMirrorReader(cfg)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(protobuf(cfg))
	if err != nil {
		return nil, fmt.Errorf("making a client for built-in resources: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for custom resources: %w", err)
	}
	c := newInventory(reader, kube, dyn, o)
	if o.OnlyRollout || o.OnlyProgress {
		return c, nil
	}
	if c.survey, err = newSurvey(cfg, kube, &c.index, o.Logger); err != nil {
		return nil, err
	}
	c.survey.times.list = cmp.Or(o.SurveyEvery, DefaultSurveyEvery)
	c.survey.times.discover = min(c.survey.times.discover, c.survey.times.list)
	c.pending.Add(1)
	c.survey.complete = c.sourceSynced
	return c, nil
}

func newInventory(reader mirrorReader, kube kubernetes.Interface, dyn dynamic.Interface, o Options) *Inventory {
	c := &Inventory{mirrors: reader, log: o.Logger, ready: make(chan struct{})}
	c.index.TrustAccounts(images.AllAccounts) // once it is ready
	c.accounts = serviceAccounts(kube, &c.index)
	c.sources = imageSources(kube, dyn, &c.index)
	for _, s := range c.sources {
		c.keepAlso(s, o)
	}
	c.sources = slices.Concat(c.sources, configMaps(kube, &c.index), kept(kube, dyn, &c.kept),
		[]*source{c.accounts, drainOverride(kube, func(value any, _ error) { c.drainOverride.Store(value != nil) })})
	c.choose(o, kube, dyn)
	c.pending.Store(int64(len(c.sources)))
	for _, s := range c.sources {
		c.connect(s, o)
	}
	return c
}

// keepAlso has a source of images keep more than these.
func (c *Inventory) keepAlso(s *source, o Options) {
	also := func(role objects.Role, trim func(runtime.Object) any, sink follow.Sink) {
		s.role = role
		s.AlsoKeep(trim, sink)
	}
	switch s.Name {
	case workloads.Pods:
		also(objects.Needed, func(o runtime.Object) any { return c.pods.Trim(o.(*corev1.Pod)) }, podSink{&c.pods})
	case "imagestreams.image.openshift.io":
		also(0, func(o runtime.Object) any { return images.StreamOf(follow.Typed[imagev1.ImageStream](o)) }, streamSink(&c.index))
	case "machineconfigs.machineconfiguration.openshift.io":
		also(0, func(o runtime.Object) any { return objects.FilesOf(o.(*unstructured.Unstructured)) }, &fileSink{Table: &c.files, tell: o.OnUnreviewed})
	}
	if i := slices.Index(controllerResources, s.Name); i >= 0 {
		also(objects.Needed, func(o runtime.Object) any { return workloads.ControllerOf(o) }, &c.controllers[i])
	}
	for _, k := range objects.Kinds() {
		if s.Name == k.GroupResource().String() {
			sink := keptSink{&c.kept, k}
			also(k.Role, sink.trim, sink)
			if o.OnlyRollout || o.OnlyProgress {
				s.Object = k.Name // the others have images, if anything
			}
		}
	}
}

// choose leaves out the sources that o does without, and adds those that it asks for.
func (c *Inventory) choose(o Options, kube kubernetes.Interface, dyn dynamic.Interface) {
	if o.OnlyRollout || o.OnlyProgress {
		c.leaveOut(o)
	}
	for _, s := range c.sources {
		if s.role.Has(objects.Progress) {
			s.Sink = &counter{Sink: s.Sink, changes: &c.progressChanges}
		}
	}
	if o.OnlyProgress {
		c.sources = append(c.sources, c.mirrorSources(dyn)...)
	}
	if o.OnPullSecret != nil {
		c.sources = append(c.sources, pullSecret(kube, o.OnPullSecret, o.OnUnreviewed))
	}
	if o.OnUnreviewed != nil {
		c.sources = append(c.sources, definitions(dyn, o.OnUnreviewed)...)
	}
}

// connect has s tell c of itself.
func (c *Inventory) connect(s *source, o Options) {
	if o.ForgoesForbidden && s.IsAnswer == nil {
		s.IsAnswer, s.Retry = apierrors.IsForbidden, &follow.RetryNowAndThen
	}
	if s.isOptional && c.mirrors.client != nil {
		s.Client = follow.IfServed(s.Client, func(ctx context.Context) (bool, error) {
			return c.mirrors.servesAny(ctx, schema.ParseGroupResource(s.Name))
		})
	}
	s.ForbiddenAfter = o.ForbiddenAfter
	s.OnSync = func() {
		c.noteTemplates(s)
		c.sourceSynced()
	}
	s.OnServedChange = func(lacking error) {
		c.noteTemplates(s)
		c.logServedChange(s.Name, lacking)
	}
}

// unlimited returns a copy of cfg without a limit on requests. client-go's
// default of 5 a second would make the pages of a first list wait for 40 s at
// 100,000 pods; the API server has its own fairness.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	return cfg
}

// protobuf returns a copy of cfg that asks for protobuf, from which built-in types are
// decoded in a fraction of the time and memory that JSON takes.
func protobuf(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return cfg
}

// noteTemplates tells the Index whether the templates of a source are read.
func (c *Inventory) noteTemplates(s *source) {
	if s.templates {
		kind := schema.GroupKind{Group: schema.ParseGroupResource(s.Name).Group, Kind: s.kind}
		c.index.Reads(kind, s.Status().IsReadable())
	}
}

func (c *Inventory) sourceSynced() {
	if c.pending.Add(-1) == 0 {
		close(c.ready)
	}
}

// logServedChange logs that an API has appeared or disappeared, and its images with it.
func (c *Inventory) logServedChange(source string, lacking error) {
	if lacking == nil {
		c.log.Info("Source is served now", "source", source)
		return
	}
	c.log.Info("Source is gone, with the images that it named", "source", source, "reason", lacking.Error())
}

// Run follows the cluster until ctx ends, and then returns nil. It must be
// called once.
func (c *Inventory) Run(ctx context.Context) error {
	var sources sync.WaitGroup
	for _, s := range c.sources {
		sources.Go(func() { s.Run(ctx, c.log) })
	}
	if c.survey != nil {
		sources.Go(func() { c.survey.run(ctx) })
	}
	sources.Wait()
	return nil
}

// Ready returns nil once every source has been read to the end for the first
// time. Until then the error names those that have not, and what was wrong when
// they were last asked. It stays nil afterwards: Notes reports later trouble.
func (c *Inventory) Ready() error {
	waiting := follow.Waiting(c.sources)
	if c.survey != nil && !c.survey.isDone.Load() {
		waiting = append(waiting, "unknown kinds not searched yet")
	}
	if len(waiting) == 0 {
		return nil
	}
	return fmt.Errorf("the inventory is not complete: %s", strings.Join(waiting, "; "))
}

// WaitReady returns nil as soon as Ready would. When ctx ends before, the error
// is its cause and what Ready says.
func (c *Inventory) WaitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), c.Ready())
	}
}

// Images returns the images that the cluster depends on. Before the Inventory is ready, it
// returns the error of Ready: half an inventory would look like safety. So would an empty
// one, which is an error on a cluster that has nodes.
func (c *Inventory) Images(context.Context) (policy.Images, error) {
	if err := c.Ready(); err != nil {
		return policy.Images{}, err
	}
	c.index.TrustAccounts(accountsKnown(c.accounts.Status()))
	images := c.index.Images()
	if nodes := len(c.Nodes()); images.Len() == 0 && nodes > 0 {
		return policy.Images{}, fmt.Errorf("no object names an image although there are nodes (%d): the inventory cannot be complete", nodes)
	}
	return images, nil
}

// Cluster returns the state of the cluster for a review of a change, after waiting for sources
// that fail. The error is that of Images.
func (c *Inventory) Cluster(ctx context.Context) (plan.Cluster, error) {
	unsearched := c.Unsearched()
	known, err := imagesOf(ctx, c)
	if err != nil {
		return plan.Cluster{}, err
	}
	through := c.Rollout()
	if c.podsListed() {
		known.PodsListed = plan.InEveryNamespace
	}
	known.Nodes, known.EndingNamespaces, known.Rollout = c.Nodes(), c.EndingNamespaces(), &through
	known.Unsearched, known.RunsHere, known.ExposedUnread = unsearched, objects.RunsHere(c.Exposed), c.ExposedUnread()
	return known, nil
}

// An imageSource is the part of an Inventory that imagesOf reads.
type imageSource interface {
	Await(ctx context.Context)
	Gaps() []policy.Gap
	Images(ctx context.Context) (policy.Images, error)
}

// imagesOf returns the images of a source with its gaps, in the order in which they have to be read: see
// Gaps.
func imagesOf(ctx context.Context, s imageSource) (plan.Cluster, error) {
	s.Await(ctx)
	gaps := s.Gaps()
	images, err := s.Images(ctx)
	return plan.Cluster{Images: images, Gaps: gaps}, err
}

// Sources returns the status of every source, sorted by name.
func (c *Inventory) Sources() []follow.Status {
	statuses := convert.Each(c.sources, func(s *source) follow.Status { return s.Status() })
	slices.SortFunc(statuses, func(a, b follow.Status) int { return strings.Compare(a.Name, b.Name) })
	return statuses
}
