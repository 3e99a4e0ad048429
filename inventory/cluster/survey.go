package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A survey searches the objects of every kind that is served, may be listed, and is not
// followed by a source (IsGuessable), and enters the images that they seem to name in an
// Index.
//
// It lists periodically instead of watching. A cluster with 200 kinds would need 200 watches, mostly
// for objects that never name an image, and each watch would begin by sending all objects of its kind;
// a guess that is some minutes old does little harm, since such an object runs as pods, which are
// followed. Objects are decoded one at a time, so that the memory which a survey takes depends on the
// largest object, not on the longest list.
type survey struct {
	list     func(context.Context, follow.Listing, func(*unstructured.Unstructured)) error
	served   func() ([]*metav1.APIResourceList, error)
	rules    func(context.Context) (authorizationv1.SubjectRulesReviewStatus, error)
	schemas  *schemas
	index    *images.Index
	log      logr.Logger
	times    surveyTimes
	complete func() // called once, when everything has been read, or has taken too long

	isDone atomic.Bool
	mu     sync.Mutex
	kinds  map[schema.GroupVersionResource]*surveyedKind // guarded by mu, as are those below
	unread []string                                      // resources with pod templates that may not be listed
	lost   []string                                      // groups of kinds whose API server did not answer in the last round
	err    error                                         // why the last round could not begin, nil if it could
	blind  error                                         // why it is not known which kinds have pod templates
}

// surveyTimes are the intervals and time limits of a survey.
type surveyTimes struct {
	discover   time.Duration // between two searches for new kinds
	list       time.Duration // between two lists of a kind
	readyAfter time.Duration // how long the first round may hold up Inventory.Ready
}

// DefaultSurveyEvery makes of 100,000 objects of 3 kB, which are 300 MB, half a megabyte a
// second on average.
const DefaultSurveyEvery = 10 * time.Minute

var defaultSurveyTimes = surveyTimes{discover: time.Minute, list: DefaultSurveyEvery, readyAfter: time.Minute}

// surveyAtOnce is how many kinds are listed at once.
const surveyAtOnce = 2

// A surveyedKind is a kind whose objects are searched.
type surveyedKind struct {
	kind    schema.GroupKind
	read    time.Time                     // when it was last listed to the end; zero for never
	tried   time.Time                     // when it was last asked for
	err     error                         // why the last attempt failed, nil if it did not
	failed  int                           // how many attempts in a row have failed
	holders map[types.NamespacedName]bool // those in the Index; used for ConfigMaps only
}

func newSurvey(cfg *rest.Config, kube kubernetes.Interface, index *images.Index, log logr.Logger) (*survey, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for discovery: %w", err)
	}
	patient := rest.CopyConfig(cfg)
	patient.Timeout = cmp.Or(cfg.Timeout, follow.ListTimeout) // a client for discovery gives up after 32 s
	lists, err := discovery.NewDiscoveryClientForConfig(patient)
	if err != nil {
		return nil, fmt.Errorf("making a client for lists: %w", err)
	}
	return &survey{
		list: func(ctx context.Context, l follow.Listing, visit func(*unstructured.Unstructured)) error {
			return follow.EachObject(ctx, lists.RESTClient(), l, visit)
		},
		served: client.ServerPreferredResources, schemas: &schemas{api: openapi.NewClientWithContext(client.RESTClient())},
		rules: func(ctx context.Context) (authorizationv1.SubjectRulesReviewStatus, error) {
			review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: metav1.NamespaceDefault}}
			answer, err := kube.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return authorizationv1.SubjectRulesReviewStatus{}, err
			}
			return answer.Status, nil
		},
		index: index, log: log, times: defaultSurveyTimes, kinds: map[schema.GroupVersionResource]*surveyedKind{},
	}, nil
}

// run surveys until ctx ends.
func (s *survey) run(ctx context.Context) {
	late := time.AfterFunc(s.times.readyAfter, s.done)
	defer late.Stop()
	tick := time.NewTicker(s.times.discover)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.round(ctx)
		if ctx.Err() == nil {
			s.done()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// done ends the waiting for the survey.
func (s *survey) done() {
	if !s.isDone.Swap(true) {
		s.complete()
	}
}

// round discovers which kinds there are, and lists those that are new or due.
func (s *survey) round(ctx context.Context) {
	kinds, lost, err := s.discover()
	if err == nil {
		var may authorizationv1.SubjectRulesReviewStatus
		if may, err = s.rules(ctx); err == nil {
			s.sort(ctx, kinds, lost, may.ResourceRules)
		}
	}
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.readDue(ctx)
}

// discover returns the kinds that are served and should be searched. The groups in lost are
// served by an API server that does not answer: nothing is known of their kinds.
func (s *survey) discover() (kinds map[schema.GroupVersionResource]schema.GroupKind, lost map[string]bool, err error) {
	lists, err := s.served()
	lost = map[string]bool{}
	if failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		for gv := range failed.Groups {
			lost[gv.Group] = true
		}
		err = nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing the kinds that are served: %w", err)
	}
	kinds = map[schema.GroupVersionResource]schema.GroupKind{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // the API server checks the names of groups and versions
		}
		for _, r := range list.APIResources {
			kind := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && (images.IsGuessable(kind) || kind == images.ConfigMapKind) {
				kinds[gv.WithResource(r.Name)] = kind
			}
		}
	}
	return kinds, lost, nil
}

// sort takes up the kinds that may be listed, counts those that may not, and forgets those
// that are not served any more.
func (s *survey) sort(ctx context.Context, kinds map[schema.GroupVersionResource]schema.GroupKind, lost map[string]bool, may []authorizationv1.ResourceRule) {
	barred := map[schema.GroupVersionResource]schema.GroupKind{}
	for r, kind := range kinds {
		if !mayList(may, r) {
			barred[r] = kind
		}
	}
	unread, blind := s.schemas.withPods(ctx, barred)
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, kind := range kinds {
		if _, is := barred[r]; !is && s.kinds[r] == nil {
			s.kinds[r] = &surveyedKind{kind: kind}
		}
	}
	s.unread, s.blind, s.lost = unread, blind, nil
	for group := range lost {
		if images.IsGuessable(schema.GroupKind{Group: group}) {
			s.lost = append(s.lost, "*."+group)
		}
	}
	slices.Sort(s.lost)
	still := map[schema.GroupKind]bool{}
	for _, kind := range kinds {
		still[kind] = true
	}
	for r, k := range s.kinds {
		if _, served := kinds[r]; !served && !lost[r.Group] {
			delete(s.kinds, r)
			if !still[k.kind] { // another version keeps the known images until it is read
				s.forget(k) // an API that has gone has no objects
			}
		}
	}
}

// forget takes what k named out of the Index.
func (s *survey) forget(k *surveyedKind) {
	if k.kind == images.ConfigMapKind {
		for key := range k.holders {
			s.index.Delete(images.ConfigMapKind.Kind, key.Namespace, key.Name)
		}
		return
	}
	s.index.Replace(images.GuessedKind(k.kind), nil)
}

// mayList reports whether rules permit listing all objects of a resource. Rules for single
// names do not.
func mayList(rules []authorizationv1.ResourceRule, r schema.GroupVersionResource) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.Verbs, "list") && has(rule.APIGroups, r.Group) && has(rule.Resources, r.Resource)
	})
}

// readDue lists the kinds that are due, a few at once.
func (s *survey) readDue(ctx context.Context) {
	var readers errgroup.Group
	readers.SetLimit(surveyAtOnce)
	for _, r := range s.due() {
		readers.Go(func() error {
			s.readKind(ctx, r)
			return nil
		})
	}
	_ = readers.Wait() // they return none
}

// untilNext returns how long a kind waits for its next list after so many failures in a
// row. The first retry comes with the next round, the others after twice as many rounds
// each. Half a round is taken off, as a list ends some time after its round has begun.
func (t surveyTimes) untilNext(failed int) time.Duration {
	if failed == 0 || failed > maxDoublings {
		return t.list
	}
	return min(t.list, t.discover<<(failed-1)-t.discover/2)
}

// maxDoublings is more than enough for a kind that fails to be listed as seldom as one that
// does not.
const maxDoublings = 10

// due returns the kinds that are to be listed, longest wait first.
func (s *survey) due() []schema.GroupVersionResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []schema.GroupVersionResource
	for r, k := range s.kinds {
		if time.Since(k.tried) >= s.times.untilNext(k.failed) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b schema.GroupVersionResource) int {
		return cmp.Or(s.kinds[a].tried.Compare(s.kinds[b].tried), strings.Compare(a.String(), b.String()))
	})
	return due
}

// readKind lists a kind and enters what it names. If a kind cannot be listed for now, its known images
// stay.
func (s *survey) readKind(ctx context.Context, r schema.GroupVersionResource) {
	s.mu.Lock()
	k := s.kinds[r]
	s.mu.Unlock()
	var err error
	if k.kind == images.ConfigMapKind {
		err = s.readConfigMaps(ctx, k)
	} else {
		err = s.readObjects(ctx, r, k.kind)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil && (k.err == nil || k.err.Error() != err.Error()) {
		s.log.Info("Kind could not be searched", "resource", r.GroupResource().String(), "reason", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.tried, k.err = time.Now(), err
	k.failed++
	if err == nil {
		k.read, k.failed = k.tried, 0
	}
}

func (s *survey) readObjects(ctx context.Context, r schema.GroupVersionResource, kind schema.GroupKind) error {
	var all []*follow.Object
	err := s.list(ctx, follow.Listing{Path: pathOf(r)}, func(o *unstructured.Unstructured) {
		if h := images.Guess(kind, o); len(h.References) > 0 {
			all = append(all, &follow.Object{Namespace: h.Namespace, Name: h.Name, Value: images.Pack(h.References)})
		}
	})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		err = nil // it has gone since, or lists nothing in spite of what it says
	}
	if err == nil {
		holderSink{s.index, images.GuessedKind(kind)}.Replace(all, nil)
	}
	return err
}

// readConfigMaps reads the ConfigMaps whose names say that they list images. It first lists names only:
// all ConfigMaps of a cluster may be a hundred megabytes.
func (s *survey) readConfigMaps(ctx context.Context, k *surveyedKind) error {
	var wanted []types.NamespacedName
	err := s.list(ctx, follow.Listing{Path: "/api/v1/configmaps", NamesOnly: true}, func(o *unstructured.Unstructured) {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		if images.IsGuessableConfigMap(key.Namespace, key.Name) {
			wanted = append(wanted, key)
		}
	})
	if err != nil {
		return err
	}
	if k.holders == nil {
		k.holders = map[types.NamespacedName]bool{}
	}
	now := map[types.NamespacedName]bool{}
	for _, key := range wanted {
		path := "/api/v1/namespaces/" + key.Namespace + "/configmaps"
		err := s.list(ctx, follow.Listing{Path: path, Name: key.Name}, func(o *unstructured.Unstructured) {
			now[key], k.holders[key] = true, true // whatever fails after it
			s.index.Put(images.ExtractConfigMap(follow.Typed[corev1.ConfigMap](o)))
		})
		if err != nil {
			return err
		}
	}
	for key := range k.holders {
		if !now[key] {
			s.index.Delete(images.ConfigMapKind.Kind, key.Namespace, key.Name)
			delete(k.holders, key)
		}
	}
	return nil
}

// gaps lists what the survey does not cover: one for each reason.
func (s *survey) gaps() []policy.Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gaps []policy.Gap
	lacks := func(source, detail string) {
		gaps = append(gaps, policy.Gap{
			Source: source, Detail: detail, Unread: true, Excused: true,
			Remedy: "have all kinds searched, which takes the right to list them and API servers that answer, then try again",
		})
	}
	failed, waiting := slices.Clone(s.lost), 0
	reason := errors.New("their API server does not answer")
	for _, r := range slices.SortedFunc(maps.Keys(s.kinds), func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) }) {
		name := r.GroupResource().String()
		switch k := s.kinds[r]; {
		case slices.Contains(s.unread, name): // its reason is below, whether or not it was asked for since the right went
		case k.err != nil:
			failed, reason = append(failed, name), k.err
		case k.read.IsZero():
			waiting++
		}
	}
	if s.err != nil {
		lacks("unknown kinds", "not searched: "+s.err.Error())
	}
	if len(failed) > 0 {
		lacks(text.Names(failed, namedSources), "not searched: "+reason.Error())
	}
	if waiting > 0 {
		lacks(text.Count(waiting, "unknown kind"), "not searched yet")
	}
	if n := len(s.unread); n > 0 {
		lacks(fmt.Sprintf("%s with pod templates (%s)", text.Count(n, "kind"), text.Names(s.unread, namedSources)), "no permission to read them: see manifests/overlays/all-kinds")
	}
	if s.blind != nil {
		lacks("kinds that may not be read", "not known which of them have pod templates: "+s.blind.Error())
	}
	return gaps
}

// pathOf returns the path at which a resource is listed across all namespaces.
func pathOf(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return "/api/" + r.Version + "/" + r.Resource
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
}
