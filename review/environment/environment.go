// Package environment opens what a review looks at: a cluster, live or as a dump has it, and the
// registries as its nodes see them, with their credentials, CAs and proxies.
//
//	w := environment.FromDump(dump, environment.Options{})
//	defer w.Close()
//	reviewer := w.Reviewer()
//
// Every command and the webhook open it here, so none of them can leave a part out.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// Options configure a World. The options that connect its parts are set here: the pull
// secret, the platforms, the trust and the proposed CAs.
type Options struct {
	Registry wire.Options // its RootCAs are trusted whatever the cluster says
	Facts    presence.Options
	Cluster  cluster.Options
	Trust    trust.Options
	// OwnCredentials is set if registries are asked with others than those of the cluster, which are not read then.
	OwnCredentials bool
}

// A Cluster is a live one or a dump: a *cluster.Inventory or a *snapshot.Snapshot.
type Cluster interface {
	review.Inventory
	snapshot.Source
	Nodes() []*corev1.Node
	// Applied returns what MCO last wrote for the nodes. The error is objects.ErrNotApplied if it
	// wrote nothing.
	Applied(context.Context) (*mirrors.Applied, error)
	// PinnedSetGVK returns the kind PinnedImageSet in the version that the cluster serves.
	PinnedSetGVK(context.Context) (schema.GroupVersionKind, error)
}

var (
	_ Cluster = (*cluster.Inventory)(nil)
	_ Cluster = (*snapshot.Snapshot)(nil)
)

// A World is a cluster with its registries. It is to be closed.
type World struct {
	Cluster    Cluster
	Registries *Registries
	// Live and Trust follow a live cluster; nil in the world of a dump.
	Live  *cluster.Inventory
	Trust *trust.Follower
	// TrustSettings returns the objects that determine what the nodes trust.
	TrustSettings func() trust.Settings

	stop             context.CancelFunc // nil until it is started
	cas              caSource
	otherCredentials func(ref string) bool
	notes            review.NoteSource
}

// New returns the world of a live cluster, still unread: Read it, or run Live and Trust.
func New(config *rest.Config, o Options) (*World, error) {
	w := &World{}
	w.Registries = NewRegistries(o, w.platforms)
	if !o.OwnCredentials {
		o.Cluster.OnPullSecret = w.Registries.SetCredentials
	}
	var err error
	if w.Live, err = cluster.New(config, o.Cluster); err != nil {
		w.Close()
		return nil, err
	}
	if w.Trust, err = w.Registries.Follow(config, o.Trust); err != nil {
		w.Close()
		return nil, err
	}
	w.Cluster, w.cas, w.otherCredentials, w.notes, w.TrustSettings = w.Live, w.Trust, w.Trust.Matches, w.Trust, w.Trust.Settings
	return w, nil
}

// FromDump returns the world of a dump. Its registries are trusted as the nodes in it trust them. They
// are not asked through the proxies of these, which this machine may not reach.
func FromDump(dump *snapshot.Snapshot, o Options) *World {
	w := &World{Cluster: dump, TrustSettings: dump.TrustSettings}
	w.Registries = NewRegistries(o, w.platforms)
	if data := dump.PullSecret(); data != nil {
		w.Registries.SetCredentials(data, nil)
	} else {
		w.Registries.SetCredentials(nil, errors.New("no Secret openshift-config/pull-secret in the dump; see --pull-secret"))
	}
	settings := dump.TrustSettings()
	settings.Roots = o.Registry.RootCAs
	trusted := trust.New(settings)
	w.Registries.Client.SetTrust(trusted.RootCAs, trusted.HostRootCAs, nil)
	w.cas, w.otherCredentials, w.notes = dumpedCAs{settings}, trusted.Matches, notes(trusted.Problems())
	return w
}

// platforms returns the known platforms of the nodes.
func (w *World) platforms() []string { return policy.PlatformsOf(w.Cluster.Nodes()) }

// Reviewer returns a Reviewer of changes in this world, by the rules' defaults.
func (w *World) Reviewer() review.Reviewer {
	return review.Reviewer{
		Inventory: w.Cluster, Registries: w.Registries, OtherCredentials: w.otherCredentials,
		NoteSources: []review.NoteSource{w.notes}, Trust: proposer{w.cas, w.Registries.Store}, Current: review.NewCurrent(),
	}
}

// ForbiddenAfter is for how long a command asks again for what it may not read: people often may
// not read all, and wait for the answer.
const ForbiddenAfter = 3 * time.Second

// readTimeout is how long a command waits for a whole cluster to be read.
const readTimeout = 2 * time.Minute

// Read follows a live cluster until ctx ends, or Close is called, and returns once all of it has been read. It says on
// progress how far that is.
func (w *World) Read(ctx context.Context, progress io.Writer) error {
	ctx, w.stop = context.WithCancel(ctx)
	go w.Live.Run(ctx)  //nolint:errcheck // it returns nil; WaitReady says what matters
	go w.Trust.Run(ctx) //nolint:errcheck // as above
	waiting, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := AwaitRead(waiting, progress, w.Live, readTimeout); err != nil {
		return err
	}
	if err := w.Trust.WaitReady(waiting); err != nil {
		return fmt.Errorf("reading the cluster: %w", err)
	}
	return nil
}

// Close ends what Read began, and the requests under way to registries.
func (w *World) Close() {
	if w.stop != nil {
		w.stop()
	}
	w.Registries.Close()
}

// notes are a review.NoteSource.
type notes []string

// Notes implements review.NoteSource.
func (n notes) Notes() []string { return n }
