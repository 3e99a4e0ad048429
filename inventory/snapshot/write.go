package snapshot

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A Source is an inventory from which a dump can be written: a *cluster.Inventory or a
// *Snapshot.
type Source interface {
	Mirrors(context.Context) (mirrors.Set, error)
	Images(context.Context) (policy.Images, error)
	// MirrorObject returns the mirror object of the kind and name of another, as JSON; nil if
	// there is none.
	MirrorObject(context.Context, mirrors.Object) ([]byte, error)
	// Proxy is nil if there is none.
	Proxy() *configv1.Proxy
	// UpdateConfig returns the ConfigMaps that an update depends on.
	UpdateConfig(context.Context) (*objects.UpdateConfig, error)
	// Exposed returns the objects by which workloads of the cluster are reached from outside, and ExposedUnread the resources
	// whose objects could not be read.
	Exposed() []objects.Exposed
	ExposedUnread() []string
	// Gaps returns the parts that are out of date or could not be read.
	Gaps() []policy.Gap
	// Unsearched is as in plan.Cluster.
	Unsearched() []policy.Gap
	// RolloutObjects returns the objects that say what a rollout goes through. They must not be
	// changed.
	RolloutObjects() workloads.Objects
	// Rendered returns the rendered config of that name. The error is rollout.ErrGone if there
	// is none.
	Rendered(ctx context.Context, name string) (*rollout.Rendered, error)
}

// Write writes a dump of what source knows, and of the CAs that nodes trust and where they find
// credentials, for Read. It is a List in JSON with
// an object on each line, the same for the same knowledge, and holds what an
// answer can depend on and nothing else: no secret, no environment, no
// annotation but the Machine Config Operator's, and what oc apply has set of the registry lists
// before. It holds the ConfigMaps for updates that the user may read. The objects that name images are not
// in it; their names stand with the images, in a kind of its own. Nor are pods: the parts that a rollout
// depends on are there in another kind. So are the rendered configs that pools and nodes name:
// registries.conf and the files beside it as they are, and for all other files whether they are the same
// in several configs.
//
// Readers of the dump are told of the gaps of source.
func Write(ctx context.Context, w io.Writer, source Source, trusted trust.Settings) error {
	gaps, unsearched := source.Gaps(), source.Unsearched() // before the images, as they have it
	set, err := source.Mirrors(ctx)
	if err != nil {
		return fmt.Errorf("reading the mirror configuration: %w", err)
	}
	images, err := source.Images(ctx)
	if err != nil {
		return fmt.Errorf("listing the images in use: %w", err)
	}
	image, err := imageOf(ctx, source, set)
	if err != nil {
		return err
	}
	updates, err := source.UpdateConfig(ctx)
	if err != nil {
		return fmt.Errorf("reading what an update depends on: %w", err)
	}
	out := writer{to: bufio.NewWriter(w)}
	out.text(`{"apiVersion":"v1","kind":"List","items":[`)
	out.mirrors(set, image)
	out.trusted(trusted)
	if set.Applied != nil {
		out.object(machineConfigKind, objects.EncodeApplied(*set.Applied))
	}
	out.files(set.Files)
	through := source.RolloutObjects()
	out.cluster(through, source.Proxy())
	out.updates(updates, trusted)
	for _, e := range source.Exposed() {
		out.object(exposedKind, e)
	}
	out.lacks(lacking{
		Resources: through.Unknown, ExposedUnread: source.ExposedUnread(), SignaturesUnread: updates.SignaturesUnread,
		Unread: unreadOf(gaps), Unsearched: unreadOf(unsearched),
	})
	out.rollout(through)
	if err := out.contents(ctx, source, through.Cluster()); err != nil {
		return err
	}
	for _, c := range trusted.CredentialProviders {
		out.object(configv1.GroupVersion.WithKind(providerKind), &configv1.CRIOCredentialProviderConfig{
			ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: c.Spec,
		})
	}
	for _, img := range images.ByReference() {
		out.object(imageUsersKind, imageUsersOf(img))
	}
	out.text("\n]}\n")
	if out.err != nil {
		return out.err
	}
	return out.to.Flush()
}

// lacks writes what the dump does not have.
func (w *writer) lacks(o lacking) {
	if o.SignaturesUnread == noUpdateConfig { // which readers say by themselves
		o.SignaturesUnread = ""
	}
	o.Resources, o.Quotas = append([]string{}, slices.Sorted(slices.Values(o.Resources))...), true
	w.object(lackingKind, o)
}

func unreadOf(gaps []policy.Gap) []unreadPart {
	return convert.Each(gaps, func(g policy.Gap) unreadPart { return unreadPart(g) })
}

// A writer writes the items of a list. It does nothing after an error.
type writer struct {
	to    *bufio.Writer
	items int
	err   error
}

func (w *writer) text(s string) {
	if w.err == nil {
		_, w.err = w.to.WriteString(s)
	}
}

// object writes o, which must not have its kind in it, as an item.
func (w *writer) object(gvk schema.GroupVersionKind, o any) {
	data, err := json.Marshal(o)
	if err != nil {
		w.err = cmp.Or(w.err, err)
		return
	}
	separator := ","
	if w.items++; w.items == 1 {
		separator = ""
	}
	w.text(fmt.Sprintf("%s\n{%q:%q,%q:%q", separator, "apiVersion", gvk.GroupVersion().String(), "kind", gvk.Kind))
	w.text("," + string(text.JSON(data[1:]))) // every object has more than these two fields
}

// imageOf returns the part of Image cluster that is written: the registry lists, the name of the
// ConfigMap of CAs, and what oc apply has set of them.
func imageOf(ctx context.Context, source Source, set mirrors.Set) (*configv1.Image, error) {
	image := bareImage(set)
	data, err := source.MirrorObject(ctx, image)
	if err != nil {
		return nil, fmt.Errorf("reading Image cluster: %w", err)
	}
	var o metav1.PartialObjectMetadata
	if data == nil || json.Unmarshal(data, &o) != nil {
		return image, nil
	}
	var last struct {
		Spec struct {
			RegistrySources     json.RawMessage `json:"registrySources,omitempty"`
			AdditionalTrustedCA json.RawMessage `json:"additionalTrustedCA,omitempty"`
			ImportFrom          json.RawMessage `json:"allowedRegistriesForImport,omitempty"`
		} `json:"spec"`
	}
	applied := o.Annotations[corev1.LastAppliedConfigAnnotation]
	if applied == "" || json.Unmarshal([]byte(applied), &last) != nil {
		return image, nil
	}
	kept, err := json.Marshal(last)
	metav1.SetMetaDataAnnotation(&image.ObjectMeta, corev1.LastAppliedConfigAnnotation, string(kept))
	return image, err
}

func bareImage(set mirrors.Set) *configv1.Image {
	return &configv1.Image{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec: configv1.ImageSpec{
			RegistrySources: set.Registries, AdditionalTrustedCA: configv1.ConfigMapNameReference{Name: set.TrustedCA},
			AllowedRegistriesForImport: set.ImportFrom,
		},
	}
}

// mirrors writes the parts of mirror objects that end up in registries.conf, their labels, by
// which they may be exempt, and Image cluster.
func (w *writer) mirrors(set mirrors.Set, image *configv1.Image) {
	w.object(mirrors.ImageConfigGVK, image)
	all := slices.SortedFunc(slices.Values(slices.Concat(set.Objects, set.Policies, set.Pinned)), func(a, b mirrors.Object) int {
		return strings.Compare(mirrors.NameOf(a), mirrors.NameOf(b))
	})
	for _, o := range all {
		if pinned, ok := o.(*mcfgv1.PinnedImageSet); ok {
			w.object(mirrors.PinnedSetGVK, objects.TrimPinnedImageSet(pinned))
			continue
		}
		bare := mirrors.BareOf(o)
		kind := bare.GroupVersionKind()
		bare.TypeMeta = metav1.TypeMeta{}
		w.object(kind, bare)
	}
}

// files writes the MachineConfigs that have files of their own, by name.
func (w *writer) files(files []mirrors.File) {
	byName := map[string][]mirrors.File{}
	for _, f := range files {
		byName[f.MachineConfig] = append(byName[f.MachineConfig], f)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		w.object(machineConfigKind, objects.EncodeFiles(byName[name]))
	}
}

// imageUsersKind is the kind of imageUsers.
var imageUsersKind = ownVersion.WithKind("ImageUsers")

// An imageUsers is a policy.Image in a dump. This format calls consumers users.
type imageUsers struct {
	Image string      `json:"image"`
	Users []imageUser `json:"users"`
}

// An imageUser is a policy.Consumer in a dump.
type imageUser struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
	Use       string `json:"use"`
	Digest    string `json:"digest,omitempty"`

	OwnPullSecret     bool `json:"ownPullSecret,omitempty"`
	PullSecretUnknown bool `json:"pullSecretUnknown,omitempty"`
	Guessed           bool `json:"guessed,omitempty"`
	NeverPulls        bool `json:"neverPulls,omitempty"`
	Ending            bool `json:"ending,omitempty"`
	NeverRan          bool `json:"neverRan,omitempty"`

	Placement *policy.Placement `json:"placement,omitempty"`
}

func imageUsersOf(img policy.Image) imageUsers {
	users := make([]imageUser, len(img.Consumers))
	for i, c := range img.Consumers {
		users[i] = imageUser{c.Kind, c.Namespace, c.Name, c.Container, c.Use.String(), c.Digest, c.OwnPullSecret, c.PullSecretUnknown, c.Guessed, c.NeverPulls, c.Ending, c.NeverRan, c.Placement}
	}
	return imageUsers{img.Ref, users}
}

// imageUsers reads an object of that kind. The images of one consumer are spread over
// several of them; finish joins them.
func (r *reader) imageUsers(data []byte) error {
	var o imageUsers
	if err := strictjson.Unmarshal(data, &o); err != nil {
		return err
	}
	if o.Image == "" {
		return fmt.Errorf("no image")
	}
	r.holdersAt = r.place
	for _, u := range o.Users {
		use, err := parseUse(u.Use)
		if err != nil {
			return err
		}
		h := r.holderOf(u)
		h.References = append(h.References, images.Reference{
			Image: o.Image, Container: u.Container, Use: use, Digest: u.Digest,
			OwnPullSecret: u.OwnPullSecret, PullSecretUnknown: u.PullSecretUnknown, Guessed: u.Guessed,
			NeverPulls: u.NeverPulls, Ending: u.Ending, NeverRan: u.NeverRan, Placement: images.EncodePlacement(u.Placement),
		})
	}
	return nil
}

func (r *reader) holderOf(u imageUser) *images.Holder {
	key := [3]string{u.Kind, u.Namespace, u.Name}
	if r.holders[key] == nil {
		r.holders[key] = &images.Holder{Kind: u.Kind, Namespace: u.Namespace, Name: u.Name}
	}
	return r.holders[key]
}

// putHolders enters the consumers of images that a dump by Write has. It has their objects as well where more of them counts, but
// another dump beside it contradicts it.
func (r *reader) putHolders() {
	for _, h := range r.holders {
		kind := schema.ParseGroupKind(h.Kind) // as images.GuessedKind has it
		for _, k := range images.Kinds() {
			if k.Kind == h.Kind {
				kind = k
			}
		}
		if e, twice := r.editions[identityOf(kind, h.Namespace, h.Name)]; twice && e.at != r.holdersAt {
			r.place, r.number = r.holdersAt, 0
			r.problems = append(r.problems, r.placed(r.lost(twiceError(h.Kind, h.Namespace, h.Name, e.at))))
		}
		r.put(*h)
	}
}

func parseUse(text string) (policy.Use, error) {
	for _, use := range []policy.Use{policy.Referenced, policy.Running, policy.History} {
		if use.String() == text {
			return use, nil
		}
	}
	return 0, fmt.Errorf("use %q is not one of referenced, running and history: %w", text, errLater)
}
