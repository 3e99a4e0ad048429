// Package diagnosis asks an API server and registries what a diagnosis of a rollout needs
// besides the objects that were read: whether a pod would be evicted, which places hold an image,
// why a controller creates no pod. Nothing is changed by it: evictions are dry runs.
package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// Options configure the questions of a diagnosis.
type Options struct {
	Offline bool // the objects alone count
	// World returns the options for asking registries; it is called when one has to be asked. An error
	// becomes a note of the diagnosis.
	World func() (environment.Options, error)
	// PullSecret returns the nodes' credentials; nil for those of the cluster.
	PullSecret func() ([]byte, error)
	Timeout    time.Duration
}

// maxRounds bounds the rounds of questions: an answer may lead to one more question.
const maxRounds = 3

// passingTime is how long a hold-up may last in a healthy rollout: MCO renders,
// and takes the next node, 5 s after it has noticed a change.
const passingTime = 12 * time.Second

// Diagnose diagnoses why nodes and pools do not move, and asks for the evidence that this requires. The
// answers become the Evidence of r. In a live cluster, causes that may pass by themselves are diagnosed
// again after a while.
func Diagnose(ctx context.Context, r *environment.Rollout, o Options) (causes.Diagnosis, error) {
	d, err := diagnose(ctx, r, o)
	if err != nil || r.Config == nil || !slices.ContainsFunc(d.HoldUps, func(h causes.HoldUp) bool { return h.Passing }) {
		return d, err
	}
	select {
	case <-time.After(passingTime):
	case <-ctx.Done():
		return causes.Diagnosis{}, context.Cause(ctx)
	}
	if err := r.Read(ctx); err != nil {
		return causes.Diagnosis{}, err
	}
	r.Evidence = status.Evidence{}
	return diagnose(ctx, r, o)
}

// diagnose diagnoses what was read. For a dump no question can be asked.
func diagnose(ctx context.Context, r *environment.Rollout, o Options) (causes.Diagnosis, error) {
	set, err := r.Source.Mirrors(ctx)
	r.MirrorsUnknown = err
	in := &r.Input
	d := causes.Diagnose(*in, set)
	if r.Config == nil || o.Offline || d.Asks.IsEmpty() {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	ask, err := newAsker(r, o)
	if err != nil {
		return d, err
	}
	defer ask.close()
	for range maxRounds {
		open := d.Asks.Without(in.Evidence)
		if open.IsEmpty() {
			break
		}
		ask.all(ctx, open)
		in.Evidence = ask.evidence
		d = causes.Diagnose(*in, set)
	}
	return d, nil
}

// An asker gathers the evidence for a diagnosis.
type asker struct {
	options  Options
	config   *rest.Config
	in       *status.Input
	kube     kubernetes.Interface
	places   *environment.Registries // nil until a place is asked
	trust    *trust.Follower
	stop     context.CancelFunc // ends trust
	evidence status.Evidence

	mu      sync.Mutex
	refused map[string]bool // the namespaces in which evictions may not be asked for
}

func newAsker(r *environment.Rollout, o Options) (*asker, error) {
	config := rest.CopyConfig(r.Config)
	config.QPS = -1 // the number of requests is bounded
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &asker{options: o, config: r.Config, in: &r.Input, kube: kube, refused: map[string]bool{}, evidence: status.Evidence{
		Evictions: map[status.PodName]status.Eviction{}, Places: map[status.Place]status.Answer{}, Owners: map[status.OwnerName]status.Made{},
	}}, nil
}

func (a *asker) close() {
	if a.places != nil {
		a.stop()
		a.places.Close()
	}
}

func (a *asker) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := fmt.Sprintf(format, args...); !slices.Contains(a.evidence.Notes, n) {
		a.evidence.Notes = append(a.evidence.Notes, n)
	}
}

func (a *asker) all(ctx context.Context, asks status.Asks) {
	a.askEvictions(ctx, asks.Evictions)
	if len(asks.Owners) > 0 {
		a.askOwners(ctx, asks.Owners)
	}
	if asks.Requests {
		a.askRequests(ctx)
	}
	if asks.Configs {
		a.askConfigs(ctx)
	}
	if len(asks.Places) > 0 {
		a.askPlaces(ctx, asks.Places)
	}
}

// askAtOnce is how many questions to the API server are under way at once.
const askAtOnce = 4

func (a *asker) askEvictions(ctx context.Context, pods []status.PodName) {
	var group errgroup.Group
	group.SetLimit(askAtOnce)
	for _, pod := range pods {
		group.Go(func() error {
			a.askEviction(ctx, pod)
			return nil
		})
	}
	_ = group.Wait() // none fails
	a.mu.Lock()
	namespaces := slices.Sorted(maps.Keys(a.refused))
	a.mu.Unlock()
	if len(namespaces) > 0 {
		a.note("evictions are judged by budgets alone: dry-run evictions require the right to create pods/eviction in namespaces %s", text.Names(namespaces, maxNamespaces))
	}
}

// maxNamespaces is how many a note names.
const maxNamespaces = 6

func (a *asker) askEviction(ctx context.Context, pod status.PodName) {
	a.mu.Lock()
	refused := a.refused[pod.Namespace]
	a.mu.Unlock()
	if refused {
		return
	}
	answer, err := dryRunEviction(ctx, a.kube, pod)
	switch {
	case isMissingRight(err):
		a.mu.Lock()
		a.refused[pod.Namespace] = true
		a.mu.Unlock()
	case err != nil:
		a.note("whether pod %s would be evicted could not be determined: %v", pod, err)
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.evidence.Evictions[pod] = answer
	}
}

// isMissingRight tells the refusal of the API server's authorization from that of a webhook,
// which often has the same code.
func isMissingRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot ")
}

// askPlaces asks registries as the nodes do: with their credentials, CAs and proxies.
func (a *asker) askPlaces(ctx context.Context, places []status.PlaceAsked) {
	if a.places == nil {
		if err := a.openRegistries(ctx); err != nil {
			a.note("registries were not asked: %v", err)
			return
		}
	}
	facts, platforms := a.lookUp(ctx, places), policy.PlatformsOf(a.in.Cluster.Nodes)
	for _, p := range places {
		a.evidence.Places[p.Place] = answerOf(deepened(p.Source), facts, platforms)
	}
	for _, n := range slices.Concat(a.places.Notes(), a.trust.Notes()) {
		a.note("%s", n)
	}
	a.note("registries were asked from this machine; nodes may have other proxies, CAs and name servers")
}

// deepened returns a place so that its manifest is read whatever the registry.
func deepened(place mirrors.PullSource) mirrors.PullSource {
	place.Depth = mirrors.DepthManifest
	return place
}

// lookUp returns the facts about places, and about the signatures of the images found there.
func (a *asker) lookUp(ctx context.Context, places []status.PlaceAsked) policy.Facts {
	facts := policy.Facts{}
	for {
		var open []mirrors.Location
		for _, p := range places {
			place := deepened(p.Source)
			if _, known := facts[place.Location]; !known {
				open = append(open, place.Location)
				continue
			}
			open = append(open, evidence.SignatureLookups(place, facts)...)
		}
		if len(open) == 0 {
			return facts
		}
		found := a.places.Presence(ctx, open, policy.Freshness{})
		for _, l := range open {
			facts[l] = found.At(l)
		}
	}
}

// openRegistries opens registries with the nodes' credentials, CAs and proxies.
func (a *asker) openRegistries(ctx context.Context) error {
	options, err := a.options.World()
	if err != nil {
		return err
	}
	places := environment.NewRegistries(options, func() []string { return policy.PlatformsOf(a.in.Cluster.Nodes) })
	trusted, err := places.Follow(a.config, options.Trust)
	if err != nil {
		places.Close()
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go trusted.Run(ctx) //nolint:errcheck // it returns nil, and ends with stop
	if err := trusted.WaitReady(ctx); err != nil {
		stop()
		places.Close()
		return fmt.Errorf("reading which CAs nodes trust: %w", err)
	}
	places.SetCredentials(a.credentials(ctx))
	a.places, a.trust, a.stop = places, trusted, stop
	return nil
}

// credentials returns those of the nodes. Their content is in no error.
func (a *asker) credentials(ctx context.Context) ([]byte, error) {
	if a.options.PullSecret != nil {
		return a.options.PullSecret()
	}
	secret, err := a.kube.CoreV1().Secrets("openshift-config").Get(ctx, "pull-secret", metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, errors.New("Secret openshift-config/pull-secret may not be read (this requires the right to get it; see --pull-secret)") //nolint:staticcheck // it begins with a kind
	}
	if err != nil {
		return nil, err
	}
	return secret.Data[".dockerconfigjson"], nil
}

// answerOf says what facts say of a place, to nodes of platforms, nil if these are not known.
func answerOf(place mirrors.PullSource, facts policy.Facts, platforms []string) status.Answer {
	f := facts.At(place.Location)
	answer := status.Answer{Presence: f.Presence, Words: text.Line(f.Detail)}
	if f.Presence == policy.Present && !f.IsWhole() {
		answer.Words = text.Line("without " + strings.Join(slices.Concat(f.Lacks, f.Missing), ", "))
		answer.Without = f.Missing
		if !f.Guessed {
			answer.Without = slices.DeleteFunc(slices.Clone(platforms), func(p string) bool { return slices.Contains(f.Serves, p) })
		}
	}
	for _, s := range evidence.SignaturesAt(place, facts) {
		if s.At.Ref != "" {
			answer.Signatures = append(answer.Signatures, status.SignatureAnswer{Digest: s.Digest, At: s.At.Ref, Accepted: s.State == "accepted"})
		}
		stopped := map[string]policy.Presence{"missing": policy.Unsigned, "rejected": policy.Missigned, "unreadable": policy.Missigned, "unknown": policy.Inconclusive}[s.State]
		if stopped != policy.Unknown && answer.Presence == policy.Present {
			answer.Presence, answer.Words = stopped, text.Line(strings.TrimPrefix(answer.Words+"; "+s.Detail, "; "))
		}
	}
	return answer
}
