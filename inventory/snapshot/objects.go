package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	imagev1 "github.com/openshift/api/image/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A header is the kind and the name of an object in JSON. It is empty for all but a map.
type header struct {
	metav1.TypeMeta
	namespace, name, resourceVersion string
	hasItems                         bool
	// couldBe says that there is a field of objects or lists.
	couldBe bool
}

// headerOf reads a header, with case-sensitive names, as an API server does.
func headerOf(data []byte) (h header, err error) {
	text := func(value []byte) (s string) {
		err = errors.Join(err, json.Unmarshal(value, &s))
		return s
	}
	for name, value := range rawjson.Members(data) {
		switch string(name) {
		case "apiVersion":
			h.APIVersion = text(value)
		case "kind":
			h.Kind = text(value)
		case "items":
			h.hasItems = true
		case "metadata":
			for name, value := range rawjson.Members(value) {
				switch string(name) {
				case "namespace":
					h.namespace = text(value)
				case "name":
					h.name = text(value)
				case "resourceVersion":
					h.resourceVersion = text(value)
				}
			}
		default:
			continue
		}
		h.couldBe = true
	}
	return h, err
}

// part takes the next part of a dump.
func (r *reader) part(p part) {
	r.number = p.item
	var err error
	if p.item > 0 {
		err = r.item(p)
	} else {
		err = r.document(p)
		r.waiting, r.hasItems = nil, false
	}
	if err != nil {
		r.problems = append(r.problems, r.placed(err))
	}
}

var (
	errNoKind  = errors.New("an object without apiVersion and kind: is the end missing?")
	errNoItems = errors.New("a list without items")
	errForm    = errors.New("objects in a form that oc get -o yaml or -o json does not print")
)

// item takes an item of a list. Those of a typed list ("PodList") may not say what they are, and wait for its kind, which comes last
// in YAML.
func (r *reader) item(p part) error {
	r.hasItems = true
	h, err := r.read(p)
	if kind := strings.TrimSuffix(p.list.Kind, "List"); h.Kind == "" && h.APIVersion == "" && kind != "" {
		h.TypeMeta = metav1.TypeMeta{APIVersion: p.list.APIVersion, Kind: kind}
	}
	switch {
	case err != nil, p.kind != "":
		return err
	case h.Kind == "" && h.APIVersion == "" && p.list.Kind == "":
		p.data = bytes.Clone(p.data)
		if err := valid(p.data); err != nil {
			return r.lost(err)
		}
		r.waiting = append(r.waiting, p)
		return nil
	case h.Kind == "" || h.APIVersion == "":
		return r.lost(errNoKind)
	case isListOfUse(h.Kind):
		return r.lost(errForm)
	default:
		return r.object(h, p.data)
	}
}

// read returns the header of a part, and notes what cannot be read.
func (r *reader) read(p part) (header, error) {
	if p.kind != "" {
		r.skip(p.kind)
		r.objects++
		return header{}, nil
	}
	var h header
	err := p.err
	if err == nil {
		h, err = headerOf(p.data)
		p.lost = true
	}
	if err != nil && p.lost {
		return h, r.lost(err)
	}
	return h, err
}

// document takes an object, or the end of a list.
func (r *reader) document(p part) error {
	h, err := r.read(p)
	switch {
	case err != nil, p.kind != "":
		return err
	case !h.couldBe:
		r.skipped["(no object)"]++ // such as the numbers in a must-gather
		return nil
	case h.Kind == "" || h.APIVersion == "":
		return r.lost(errNoKind)
	case isListOfUse(h.Kind) && !h.hasItems && !r.hasItems:
		return r.lost(errNoItems)
	case strings.HasSuffix(h.Kind, "List"):
		return r.list(h, p.data)
	default:
		return r.object(h, p.data)
	}
}

// isListOfUse reports whether kind is that of lists which may hold something of use. An
// unknown kind may end in "List" too without being one.
func isListOfUse(kind string) bool {
	item, found := strings.CutSuffix(kind, "List")
	return found && (item == "" || usefulKinds[item])
}

// list takes the end of a list.
func (r *reader) list(h header, data []byte) error {
	r.objects++
	for _, p := range r.waiting {
		p.list = h
		r.part(p)
	}
	r.number = 0
	err := r.cut(h, data)
	r.noQuotas = r.noQuotas || h.Kind == "ResourceQuotaList" && err == nil
	r.policy = r.policy || h.Kind == "PodDisruptionBudgetList" && err == nil
	return err
}

// cutOf returns what a list says of items that it lacks, nil if it has all.
func cutOf(data []byte) error {
	var list metav1.PartialObjectMetadataList
	_ = json.Unmarshal(data, &list) // other data than a list's metadata says nothing
	switch {
	case list.RemainingItemCount != nil && *list.RemainingItemCount > 0:
		return fmt.Errorf("a list without its other %s (metadata.remainingItemCount): only the first page was written",
			text.Count(int(*list.RemainingItemCount), "item"))
	case list.Continue != "":
		return errors.New("a list that goes on (metadata.continue): only the first page was written")
	default:
		return nil
	}
}

// object enters one object. Objects of unknown kinds are counted.
func (r *reader) object(h header, data []byte) error {
	gvk := h.GroupVersionKind()
	if err := notAnObject(gvk, data); err != nil {
		return r.lost(err)
	}
	if err := known(gvk); err != nil {
		r.refuse(err)
		return err
	}
	kind := images.CurrentKind(gvk.GroupKind())
	counts, err := false, error(nil)
	if r.isOfUse(gvk.Kind) {
		counts, err = r.counts(kind, h)
	} else {
		r.skip(gvk.Kind)
	}
	if !counts || kind != podKind { // reading a pod, the most frequent kind, validates it too
		if err := valid(data); err != nil {
			return r.lost(err)
		}
	}
	if counts {
		err = r.add(gvk, kind, data)
	}
	if err != nil {
		r.unreadObject(gvk, err)
		return err
	}
	r.objects++
	return nil
}

// add adds an object that counts.
func (r *reader) add(gvk schema.GroupVersionKind, kind schema.GroupKind, data []byte) error {
	r.policy = r.policy || gvk.Group == policyv1.GroupName
	err := r.mirrorObject(gvk, data)
	if errors.Is(err, mirrors.ErrKind) {
		err = r.holder(kind, data)
	}
	if errors.Is(err, images.ErrKind) {
		err = r.other(kind, data)
	}
	return err
}

func (r *reader) mirrorObject(gvk schema.GroupVersionKind, data []byte) error {
	if want, ok := mirrors.Meant(gvk); ok {
		return fmt.Errorf("%s is not of %s but of %s", gvk.Kind, gvk.GroupVersion(), want.GroupVersion())
	}
	o, err := decodeMirrors(data, gvk)
	if err != nil {
		return err
	}
	if o.GetName() == "" {
		return fmt.Errorf("%s without a name", gvk.Kind)
	}
	r.set = mirrors.Put(o).Apply(r.set)
	r.mirrors[mirrors.NameOf(o)] = bytes.Clone(data)
	if mirrors.KindOf(o) == mirrors.PinnedSetGVK.Kind {
		return r.holder(gvk.GroupKind(), data)
	}
	return nil
}

func (r *reader) holder(kind schema.GroupKind, data []byte) error {
	h, err := r.decode(kind, data)
	if err != nil {
		return err
	}
	if h.Name == "" {
		return fmt.Errorf("a %s without a name", kind.Kind)
	}
	if !r.retain(h, data) {
		r.put(h)
	}
	if k, _ := images.KindOf(kind); k.ReadsTemplates() {
		r.index.Reads(kind, true)
		r.templates[owner{kind, h.Namespace, h.Name}] = true
	}
	if k, ok := objects.KindOf(kind); ok {
		return r.keepKind(k, data)
	}
	switch kind {
	case imageStreamKind:
		return r.imageStream(data)
	case machineConfigKind.GroupKind():
		if h.Name == mirrors.GeneratedRegistries {
			// Few answers depend on it, and those say so: failing to read it is not a Problem.
			r.set.Applied, r.notApplied = objects.DecodeApplied(data)
			return nil
		}
		r.machineConfigs[h.Name] = true
		r.renderedContent(h.Name, data)
		return r.registryFiles(h.Name, data)
	default:
		return r.ownerOfPods(kind, data)
	}
}

// decode returns the images that an object names. A pod is kept besides.
func (r *reader) decode(kind schema.GroupKind, data []byte) (images.Holder, error) {
	if kind != podKind {
		return images.Decode(kind, data)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(data, &pod); err != nil {
		return images.Holder{}, fmt.Errorf("reading %s: %w", kind.Kind, err)
	}
	k, _ := images.KindOf(podKind)
	h := k.Extract(&pod)
	if h.Name != "" {
		r.pod(&pod)
	}
	return h, nil
}

var podKind = schema.GroupKind{Kind: "Pod"}

var imageStreamKind = schema.GroupKind{Group: imagev1.GroupName, Kind: "ImageStream"}

func (r *reader) imageStream(data []byte) error {
	var o imagev1.ImageStream
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("reading ImageStream: %w", err)
	}
	r.index.PutStream(o.Namespace, o.Name, images.StreamOf(&o))
	return nil
}

// account keeps what a service account says of pull secrets until the secrets have been read,
// which may come later.
func (r *reader) account(data []byte) error {
	return keep(data, func(o *corev1.ServiceAccount) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{
			ObjectMeta:       metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Annotations: o.Annotations},
			ImagePullSecrets: o.ImagePullSecrets,
		}
	}, &r.accounts)
}

// putAccounts enters the service accounts.
func (r *reader) putAccounts() {
	for _, o := range r.accounts {
		r.index.PutAccount(o.Namespace, o.Name, images.AccountOf(o, r.generated[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]...))
	}
}

// registryFiles keeps the files of a MachineConfig that say where nodes pull from. They replace those
// of an earlier object of that name in the dump.
func (r *reader) registryFiles(name string, data []byte) error {
	files, err := objects.DecodeFiles(data)
	r.set.Files = slices.DeleteFunc(r.set.Files, func(f mirrors.File) bool { return f.MachineConfig == name })
	r.set.Files = append(r.set.Files, files...)
	return err
}

// put enters the images that an object names.
func (r *reader) put(h images.Holder) {
	r.index.Put(h)
	if h.Kind != "ClusterVersion" || h.Name != "version" {
		return
	}
	for _, ref := range h.References {
		if ref.Container == "status.desired.image" {
			r.set.Payload = ref.Image
		}
	}
}

// others are the kinds that are read for something other than images.
var others = func() map[schema.GroupKind]func(*reader, []byte) error {
	readers := map[schema.GroupKind]func(*reader, []byte) error{}
	for _, k := range objects.Kinds() {
		readers[k.GroupKind()] = func(r *reader, data []byte) error { return r.keepKind(k, data) }
	}
	maps.Copy(readers, map[schema.GroupKind]func(*reader, []byte) error{
		secretKind:               (*reader).secret,
		{Kind: "ServiceAccount"}: (*reader).account,
		configMapKind:            (*reader).bundle,
		{Group: configv1.GroupName, Kind: providerKind}:     (*reader).provider,
		{Group: configv1.GroupName, Kind: "FeatureGate"}:    (*reader).featureGate,
		{Group: configv1.GroupName, Kind: "Infrastructure"}: (*reader).infrastructure,

		exposedKind.GroupKind():       (*reader).exposedObject,
		imageUsersKind.GroupKind():    (*reader).imageUsers,
		podSetKind.GroupKind():        (*reader).podSet,
		podControllerKind.GroupKind(): (*reader).podController,
		lackingKind.GroupKind():       (*reader).lacking,
		contentKind.GroupKind():       (*reader).writtenContent,
	})
	return readers
}()

func (r *reader) other(kind schema.GroupKind, data []byte) error {
	read, ok := others[kind]
	if !ok {
		return r.guess(kind, data)
	}
	var err error
	if kind.Group == ownVersion.Group && slices.Contains(ownKinds, kind.Kind) {
		data, err = withoutType(data)
	}
	if err == nil {
		err = read(r, data)
	}
	switch {
	case errors.Is(err, strictjson.ErrUnknownField):
		return fmt.Errorf("reading %s: %w: %w", kind.Kind, err, errLater)
	case err != nil:
		return fmt.Errorf("reading %s: %w", kind.Kind, err)
	default:
		return nil
	}
}

// guess searches an object of an unknown kind.
func (r *reader) guess(kind schema.GroupKind, data []byte) error {
	h, err := images.DecodeGuess(kind, data)
	switch {
	case errors.Is(err, images.ErrKind), err == nil && len(h.References) == 0:
		r.skipped[kind.Kind]++
		return nil
	case err != nil:
		return err
	case h.Name == "":
		return fmt.Errorf("a %s without a name", kind.Kind)
	}
	r.put(h)
	return nil
}

// isOfUse reports whether objects of a kind could be, in some API group.
func (r *reader) isOfUse(kind string) bool {
	return strings.HasSuffix(kind, "List") || (usefulKinds[kind] || images.IsWorthReading(kind)) && (!r.NoWorkloads || !workloadKinds[kind])
}

// skip counts an object of no use.
func (r *reader) skip(kind string) {
	if !workloadKinds[kind] {
		r.skipped[kind]++
	}
}

// workloadKinds are pods and what pods are made from.
var workloadKinds = func() map[string]bool {
	kinds := map[string]bool{}
	for _, k := range images.Known() {
		kinds[k.Kind] = k.IsBuiltin()
	}
	return kinds
}()

var usefulKinds = func() map[string]bool {
	kinds := map[string]bool{}
	for _, k := range slices.Concat(images.Kinds(), slices.Collect(maps.Keys(others))) {
		kinds[k.Kind] = true
	}
	for _, k := range []schema.GroupVersionKind{
		mirrors.TagMirrorSetGVK, mirrors.DigestMirrorSetGVK, mirrors.ContentPolicyGVK, mirrors.ImageConfigGVK, mirrors.ClusterPolicyGVK, mirrors.NamespacePolicyGVK, mirrors.PinnedSetGVK,
	} {
		kinds[k.Kind] = true
	}
	return kinds
}()
