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
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A header holds the fields of a document that must be known to read the rest. What is not
// a map is read as an empty one.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Items           []json.RawMessage `json:"items"`
	Metadata        json.RawMessage   `json:"metadata"`
}

// isLikeAnObject reports whether h, which has no kind, is what is left of a list or an object, as
// jq leaves them, and not Helm's values in a folder of manifests.
func (h header) isLikeAnObject() bool {
	var meta metav1.ObjectMeta
	return len(h.Items) > 0 || len(h.Metadata) > 0 && utiljson.Unmarshal(h.Metadata, &meta) == nil && meta.Name != ""
}

// cut returns what a list says of items that it lacks, nil if it has all.
func (h header) cut() error {
	var meta metav1.ListMeta
	if len(h.Metadata) > 0 && utiljson.Unmarshal(h.Metadata, &meta) != nil {
		return nil // it is no list's
	}
	switch {
	case meta.RemainingItemCount != nil && *meta.RemainingItemCount > 0:
		return fmt.Errorf("a list without its other %s (metadata.remainingItemCount): only the first page was written",
			text.Count(int(*meta.RemainingItemCount), "item"))
	case meta.Continue != "":
		return errors.New("a list that goes on (metadata.continue): only the first page was written")
	default:
		return nil
	}
}

// part takes the next part of a dump.
func (r *reader) part(p part) error {
	if p.kind != "" {
		r.skipped[p.kind]++
		r.objects++
		return nil
	}
	if p.item > 0 {
		return r.itemPart(p)
	}
	waiting, items := r.waiting, r.items
	r.waiting, r.items = nil, 0
	if p.err != nil {
		r.unreadText(p.text, p.err)
		return p.err
	}
	return r.document(p.data, waiting, items)
}

func isMap(data []byte) bool { return len(data) > 0 && data[0] == '{' }

// An item is an element of a list. It may lack a kind.
type item struct {
	number int // from 1
	data   []byte
}

// itemPart takes an item of a list that has not been read to its end. Items of a
// typed list ("PodList") wait for it: its kind comes last.
func (r *reader) itemPart(p part) error {
	r.items++
	if p.err != nil {
		r.unreadText(p.text, p.err)
		return fmt.Errorf("item %d: %w", p.item, p.err)
	}
	it := item{p.item, p.data}
	err := r.item(it, metav1.TypeMeta{}, true)
	if errors.Is(err, errNoKind) {
		r.waiting = append(r.waiting, it)
		return nil
	}
	return err
}

var errNoKind = errors.New("an object without a kind: is the end missing?")

// document reads an object or a list of them, of which some items have come before:
// those that wait are not read yet.
func (r *reader) document(data []byte, waiting []item, items int) error {
	if len(data) > 0 && data[0] == '[' {
		return r.array(data)
	}
	var h header
	if err := utiljson.Unmarshal(data, &h); err != nil && isMap(data) {
		r.unreadText(data, err)
		return err
	}
	switch {
	case h.Kind == "" && h.APIVersion == "" && h.Items == nil && h.Metadata == nil:
		r.skipped["(no object)"]++ // Helm values in a folder of manifests, lists of numbers in a must-gather
		return nil
	case h.Kind == "":
		r.unreadEnd(h, data, waiting)
		return errNoKind
	case items == 0 && isListOfUse(h.Kind) && !hasItems(data):
		r.unreadText(data, errNoItems)
		return errNoItems
	case strings.HasSuffix(h.Kind, "List"):
		return errors.Join(r.list(h, waiting), r.cut(h))
	default:
		return r.object(h.TypeMeta, data)
	}
}

var errNoItems = errors.New("a list without items")

// isListOfUse reports whether kind is that of lists which may hold something of use. An
// unknown kind may end in "List" too without being one.
func isListOfUse(kind string) bool {
	item, found := strings.CutSuffix(kind, "List")
	return found && (item == "" || usefulKinds[item])
}

// hasItems reports whether data, an object, has the field items, which may be null.
func hasItems(data []byte) bool {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(data, &fields)
	_, found := fields["items"]
	return found
}

// array reads the objects in an array, such as jq makes of the items of a list. Other
// things in it, such as the numbers in a must-gather, are not objects.
func (r *reader) array(data []byte) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(data, &elements); err != nil {
		return err
	}
	if !slices.ContainsFunc(elements, func(e json.RawMessage) bool { return isMap(e) }) {
		r.skipped["(no object)"]++
		return nil
	}
	var errs []error
	for i, element := range elements {
		if err := r.document(element, nil, 0); err != nil {
			errs = append(errs, fmt.Errorf("item %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

// list reads those items of a list that have not been read yet. The error joins the items'
// errors: a broken item does not stop the others.
func (r *reader) list(h header, items []item) error {
	r.objects++
	r.noQuotas = r.noQuotas || h.Kind == "ResourceQuotaList" && h.cut() == nil
	r.policy = r.policy || h.Kind == "PodDisruptionBudgetList" && h.cut() == nil
	for i, data := range h.Items {
		items = append(items, item{i + 1, data})
	}
	var fallback metav1.TypeMeta
	if kind := strings.TrimSuffix(h.Kind, "List"); kind != "" {
		fallback = metav1.TypeMeta{APIVersion: h.APIVersion, Kind: kind}
	}
	return errors.Join(each.Of(items, func(it item) error { return r.item(it, fallback, false) })...)
}

// item reads an item, which is what fallback says unless it says so itself. The first
// time, before the list has been read to its end, it may say nothing.
func (r *reader) item(it item, fallback metav1.TypeMeta, first bool) error {
	var meta metav1.TypeMeta
	err := utiljson.Unmarshal(it.data, &meta)
	if meta.Kind == "" {
		meta = fallback
	}
	switch {
	case err != nil:
		r.unreadText(it.data, err)
	case meta.Kind == "" && !first:
		err = errNoKind
		r.unreadText(it.data, err)
	case meta.Kind == "":
		err = errNoKind
	case strings.HasSuffix(meta.Kind, "List") && hasItems(it.data):
		err = r.document(it.data, nil, 0)
	default:
		err = r.object(meta, it.data)
	}
	if err != nil {
		return fmt.Errorf("item %d: %w", it.number, err)
	}
	return nil
}

// object enters one object. Objects of unknown kinds are counted.
func (r *reader) object(meta metav1.TypeMeta, data []byte) error {
	gvk := meta.GroupVersionKind()
	if err := notAnObject(gvk, data); err != nil {
		r.unreadAnswer(data, err)
		return err
	}
	if err := known(gvk); err != nil {
		r.refuse(err)
		return err
	}
	kind := images.CurrentKind(gvk.GroupKind())
	now, before, order := r.compareEdition(gvk, data)
	if order == same || order == older {
		r.objects++
		return nil
	}
	var err error
	if order == unordered {
		err = r.contradiction(gvk, now, before, data)
	} else {
		before = nil
	}
	if err == nil {
		r.now, r.before = now, before
		err = r.add(gvk, kind, data)
	}
	if err == nil {
		r.objects++
	} else {
		r.unreadObject(gvk, err)
	}
	return err
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
		return errors.Join(keep(data, objects.TrimPinnedImageSet, &r.pinned), r.holder(gvk.GroupKind(), data))
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
	h = r.counting(h)
	if !r.retain(h, data) {
		r.put(h)
	}
	if images.ReadsTemplates(kind) {
		r.index.Reads(kind, true)
		r.templates[owner{kind, h.Namespace, h.Name}] = true
	}
	switch kind {
	case clusterVersionKind.GroupKind():
		return r.version(data)
	case imageStreamKind:
		return r.imageStream(data)
	case operatorKind.GroupKind():
		return keep(data, objects.TrimClusterOperator, &r.operators)
	case controllerKind.GroupKind():
		return keep(data, objects.TrimControllerConfig, &r.controller)
	case machineConfigKind.GroupKind():
		if h.Name == mirrors.GeneratedRegistries {
			r.applied(data)
			return nil
		}
		r.machineConfigs[h.Name] = true
		r.renderedContent(h.Name, data)
		return errors.Join(r.machineConfig(data), r.registryFiles(h.Name, data))
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
	h, _ := images.Extract(&pod)
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

// registryFiles keeps the files of a MachineConfig that say where nodes pull from, instead
// of those of an object of that name which the dump had before.
func (r *reader) registryFiles(name string, data []byte) error {
	files, err := objects.DecodeFiles(data)
	r.set.Files = slices.DeleteFunc(r.set.Files, func(f mirrors.File) bool { return f.MachineConfig == name })
	r.set.Files = append(r.set.Files, files...)
	return err
}

// applied keeps what nodes have. Few answers depend on it, and those say so: failing to
// read it is not a Problem.
func (r *reader) applied(data []byte) {
	r.set.Applied, r.notApplied = objects.DecodeApplied(data)
}

// counting remembers the images of the object that is being read, and adds to them those of
// another that counts as well.
func (r *reader) counting(h images.Holder) images.Holder {
	if r.before != nil {
		h = union(h, r.before)
	}
	r.now.images = images.Pack(h.References)
	return h
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
var others = map[schema.GroupKind]func(*reader, []byte) error{
	{Kind: "Node"}:      (*reader).node,
	{Kind: "Namespace"}: (*reader).namespace,
	secretKind:          (*reader).secret,

	{Kind: "ServiceAccount"}:                                                (*reader).account,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                          (*reader).budget,
	{Group: "machineconfiguration.openshift.io", Kind: "MachineConfigPool"}: (*reader).pool,
	{Group: configv1.GroupName, Kind: providerKind}:                         (*reader).provider,
	machineConfigurationKind.GroupKind():                                    (*reader).machines,
	proxyKind.GroupKind():                                                   (*reader).proxy,
	configMapKind:                                                           (*reader).bundle,
	imageUsersKind.GroupKind():                                              (*reader).imageUsers,
	{Group: configv1.GroupName, Kind: "FeatureGate"}:                        (*reader).featureGate,

	quotaKind.GroupKind():          (*reader).quota,
	volumeKind.GroupKind():         (*reader).volume,
	machineNodeKind.GroupKind():    (*reader).machineNode,
	infrastructureKind.GroupKind(): (*reader).infrastructure,
	podSetKind.GroupKind():         (*reader).podSet,
	podControllerKind.GroupKind():  (*reader).podController,
	lackingKind.GroupKind():        (*reader).lacking,
	renderedKind.GroupKind():       (*reader).renderedConfig,
	contentKind.GroupKind():        (*reader).writtenContent,
}

func (r *reader) other(kind schema.GroupKind, data []byte) error {
	read, ok := others[kind]
	if !ok {
		return r.guess(kind, data)
	}
	var err error
	if isOwn(kind) {
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
	r.put(r.counting(h))
	return nil
}

// isOfUse reports whether objects of a kind could be, in some API group.
func isOfUse(kind string) bool {
	return strings.HasSuffix(kind, "List") || usefulKinds[kind] || images.IsWorthReading(kind)
}

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

// keep reads an object and keeps what trim leaves of it.
func keep[T any, P interface {
	*T
	metav1.Object
}](data []byte, trim func(P) P, in *byKey[P]) error {
	o := P(new(T))
	err := json.Unmarshal(data, o)
	if err == nil {
		in.put(trim(o))
	}
	return err
}

func (r *reader) node(data []byte) error { return keep(data, objects.TrimNode, &r.nodes) }

func (r *reader) pool(data []byte) error { return keep(data, objects.TrimPool, &r.pools) }

func (r *reader) budget(data []byte) error {
	return keep(data, objects.TrimDisruptionBudget, &r.budgets)
}

func (r *reader) machines(data []byte) error {
	return keep(data, objects.TrimMachineConfiguration, &r.Snapshot.machines)
}

func (r *reader) proxy(data []byte) error { return keep(data, objects.TrimProxy, &r.proxies) }

func (r *reader) version(data []byte) error {
	return keep(data, objects.TrimClusterVersion, &r.versions)
}

// The kinds that a cluster has one object of.
var (
	machineConfigurationKind = operatorv1.GroupVersion.WithKind("MachineConfiguration")
	proxyKind                = configv1.GroupVersion.WithKind("Proxy")
	machineConfigKind        = mcfgv1.GroupVersion.WithKind("MachineConfig")
	clusterVersionKind       = configv1.GroupVersion.WithKind("ClusterVersion")
)

const providerKind = "CRIOCredentialProviderConfig"

// provider reads a CRIOCredentialProviderConfig of any version: their fields are the same.
func (r *reader) provider(data []byte) error {
	asItIs := func(o *configv1.CRIOCredentialProviderConfig) *configv1.CRIOCredentialProviderConfig { return o }
	return keep(data, asItIs, &r.providers)
}

// featureGate notes the feature set, and whether MCO ignores image policies.
func (r *reader) featureGate(data []byte) error {
	var o configv1.FeatureGate
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	if o.Name != "cluster" {
		return nil
	}
	r.featureSet = objects.TrimFeatureGate(&o)
	r.noPolicies = r.noPolicies || objects.IgnoresImagePolicies(&o)
	return nil
}

func (r *reader) namespace(data []byte) error {
	return keep(data, objects.TrimNamespace, &r.namespaces)
}

var secretKind = schema.GroupKind{Kind: "Secret"}

func isPullSecret(o *metav1.PartialObjectMetadata) bool {
	return o.Namespace == "openshift-config" && o.Name == "pull-secret"
}

// secret keeps the global pull secret, and of others which service account OpenShift has made them
// for. A must-gather blanks the content out, which is not a Problem.
func (r *reader) secret(data []byte) error {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	var secret corev1.Secret
	err := json.Unmarshal(data, &secret)
	switch account := images.GeneratedFor(&secret); {
	case err == nil && isPullSecret(&o):
		r.pullSecret = secret.Data[corev1.DockerConfigJsonKey]
	case err == nil && account != "":
		owner := types.NamespacedName{Namespace: secret.Namespace, Name: account}
		r.generated[owner] = append(r.generated[owner], secret.Name)
	case !isPullSecret(&o):
		r.skipped["Secret"]++
	}
	return nil
}
