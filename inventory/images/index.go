package images

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/intern"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// An Index holds the images that many objects name. It is safe for concurrent
// use; the zero value is empty and ready.
//
// It is made for a hundred thousand pods that name a few thousand images and
// change all the time, with a review of them now and then. An object costs its
// name and 32 bytes a reference. A change only marks the images it touches; the
// next call of Images brings those up to date and no others.
//
// The images of an object may depend on others: on its service account, on whether its
// owner's template is read, on ImageStreams. Those are put into the Index separately, in
// any order.
type Index struct {
	mu      sync.Mutex
	objects map[string]map[objectKey][]use // by kind; uses are sorted by the references of images
	images  map[string]*image
	dirty   map[*image]bool

	tags     tags
	names    localNames
	waiting  dependents             // on either
	stale    map[changedObject]bool // those of them whose streams have changed since they were inserted
	accounts accounts
	read     map[schema.GroupKind]bool // kinds whose templates are read
	// changed are the accounts and kinds about which the index learned since it last refreshed the
	// consumers of images.
	changed conditions

	placements intern.Pool[string, policy.Placement]

	current policy.ImageIndex // each image as of its last refresh
}

type objectKey = types.NamespacedName

// A use is a Reference as the Index keeps it.
type use struct {
	image      *image
	container  unique.Handle[string]
	digest     unique.Handle[string]
	attributes unique.Handle[Reference]
}

// conditions are the facts that attributes depend on.
type conditions struct {
	accounts    map[objectKey]bool
	allAccounts bool
	kinds       map[schema.GroupKind]bool
}

func (c conditions) none() bool { return len(c.accounts) == 0 && !c.allAccounts && len(c.kinds) == 0 }

// touch reports whether an object in a namespace, with attributes t, depends on c.
func (c conditions) touch(t Reference, namespace string) bool {
	return t.Account != "" && (c.allAccounts || c.accounts[objectKey{Namespace: namespace, Name: t.Account}]) || c.kinds[t.Keeper]
}

// An image is a reference that at least one object names.
type image struct {
	ref       string
	uses      int               // 0 when the last one has gone and the Index has dropped it
	consumers []policy.Consumer // sorted, as of the last refresh; shared with callers, so never changed in place
	// changed are the objects whose uses of this image may have changed since. One may be there more
	// than once: a map of each would be most of what the references of a tenant take that come at once.
	changed []changedObject
}

type changedObject struct {
	kind string
	objectKey
}

// Put enters h, replacing what was known about the same object. A Holder
// that names no images is forgotten.
func (x *Index) Put(h Holder) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.put(h)
}

// Delete forgets the object. It is no error if it was not there.
func (x *Index) Delete(kind, namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.put(Holder{Kind: kind, Namespace: namespace, Name: name})
}

// Reads says whether pod templates of objects of a kind are read. Images that such an object keeps for
// a rollback are History then.
func (x *Index) Reads(kind schema.GroupKind, read bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.read[kind] == read {
		return
	}
	set(&x.read, kind, read)
	set(&x.changed.kinds, kind, true)
}

// PutAccount enters what a service account gives its pods.
func (x *Index) PutAccount(namespace, name string, a Account) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changeAccount(objectKey{Namespace: namespace, Name: name}, func(key objectKey) { set(&x.accounts.named, key, a) })
}

// DeleteAccount forgets a service account. It is no error if it was not there.
func (x *Index) DeleteAccount(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changeAccount(objectKey{Namespace: namespace, Name: name}, func(key objectKey) { delete(x.accounts.named, key) })
}

func (x *Index) changeAccount(key objectKey, change func(objectKey)) {
	was, had := x.accounts.named[key]
	change(objectKey{Namespace: unique.Make(key.Namespace).Value(), Name: unique.Make(key.Name).Value()})
	if now, has := x.accounts.named[key]; now != was || had != has {
		set(&x.changed.accounts, key, true)
	}
}

// ReplaceAccounts replaces all service accounts by accounts.
func (x *Index) ReplaceAccounts(accounts map[types.NamespacedName]Account) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.accounts.named {
		if _, still := accounts[key]; !still {
			x.changeAccount(key, func(key objectKey) { delete(x.accounts.named, key) })
		}
	}
	for key, a := range accounts {
		x.changeAccount(key, func(key objectKey) { set(&x.accounts.named, key, a) })
	}
}

// TrustAccounts says how complete and current the service accounts are.
func (x *Index) TrustAccounts(state Accounts) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.accounts.state == state {
		return
	}
	x.accounts.state = state
	x.changed.allAccounts = true
}

// PutStream enters an ImageStream, or forgets it if s is nil.
func (x *Index) PutStream(namespace, name string, s *Stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.putStream(objectKey{Namespace: namespace, Name: name}, s)
}

// ReplaceStreams replaces all ImageStreams by streams.
func (x *Index) ReplaceStreams(streams map[types.NamespacedName]*Stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.names.streams {
		if streams[key] == nil {
			x.putStream(key, nil)
		}
	}
	for key, s := range streams {
		x.putStream(key, s)
	}
}

func (x *Index) putStream(key objectKey, s *Stream) {
	if x.names.put(key, s) {
		x.resolveAgain(key)
	}
}

// set enters a value in a map, which is created if it is nil.
func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// Replace replaces all Holders of a kind by holders, which must not include Holders of
// other kinds.
func (x *Index) Replace(kind string, holders []Holder) { x.ReplaceSeq(kind, slices.Values(holders)) }

// ReplaceSeq is Replace for holders that are not all in memory. It iterates over them once.
func (x *Index) ReplaceSeq(kind string, holders iter.Seq[Holder]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	gone := map[objectKey]bool{}
	for key := range x.objects[kind] {
		gone[key] = true
	}
	for o := range x.waiting.on { // they may have no image by now
		if o.kind == kind {
			gone[o.objectKey] = true
		}
	}
	for h := range holders {
		delete(gone, objectKey{Namespace: h.Namespace, Name: h.Name})
		x.put(h)
	}
	for key := range gone {
		x.put(Holder{Kind: kind, Namespace: key.Namespace, Name: key.Name})
	}
}

// Images returns every image that is named, its consumers sorted by namespace, kind, name
// and container. The time it takes is proportional to what has changed since the last call.
func (x *Index) Images() policy.Images {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resolveStale()
	x.markDependents()
	for img := range x.dirty {
		x.refresh(img)
	}
	return x.current.Images()
}

// Objects returns the number of objects that name images.
func (x *Index) Objects() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resolveStale()
	n := 0
	for _, objects := range x.objects {
		n += len(objects)
	}
	return n
}

// markDependents marks the images whose consumers are affected by changed accounts and
// kinds. It goes through all objects, which takes some 10 ms for 100,000; accounts and
// kinds change seldom.
func (x *Index) markDependents() {
	if x.changed.none() {
		return
	}
	for kind, objects := range x.objects {
		for key, uses := range objects {
			for _, u := range uses {
				if x.changed.touch(u.attributes.Value(), key.Namespace) {
					x.touch(u.image, changedObject{kind, key})
				}
			}
		}
	}
	x.changed = conditions{}
}

// put inserts h, and marks the Holders that depend on the tags it has or on the names it has copied.
func (x *Index) put(h Holder) {
	o := changedObject{h.Kind, objectKey{Namespace: h.Namespace, Name: h.Name}}
	delete(x.stale, o)
	var turned []objectKey
	if old, depend := x.waiting.note(o, h); depend {
		turned = x.names.count(old, h)
	}
	x.insert(h)
	if h.Kind == streamKind && x.tags.put(h) {
		turned = append(turned, o.objectKey)
	}
	for _, stream := range turned {
		x.resolveAgain(stream)
	}
}

// resolveAgain marks the Holders that depend on an ImageStream. They wait for the next call of Images: one may have thousands of
// references and depend on as many streams, each of which may change.
func (x *Index) resolveAgain(stream objectKey) {
	for each := x.waiting.of[stream]; each != nil; each = each.next {
		set(&x.stale, each.changedObject, true)
	}
}

func (x *Index) resolveStale() {
	for o := range x.stale {
		x.insert(x.waiting.on[o].holder())
	}
	x.stale = nil
}

func (x *Index) insert(h Holder) {
	references := x.tags.resolved(x.names.resolved(h).References)
	uses := make([]use, len(references))
	for i, r := range references {
		uses[i] = use{
			image:      x.image(r.Image),
			container:  unique.Make(r.Container),
			digest:     unique.Make(r.Digest),
			attributes: attributesOf(r),
		}
	}
	slices.SortStableFunc(uses, func(a, b use) int { return strings.Compare(a.image.ref, b.image.ref) })
	x.set(h.Kind, objectKey{Namespace: h.Namespace, Name: h.Name}, uses)
}

// image returns the image with the reference, which is created if it is new. The caller
// enters a use of it, or it would stay forever.
func (x *Index) image(ref string) *image {
	if img := x.images[ref]; img != nil {
		return img
	}
	if x.images == nil {
		x.images = map[string]*image{}
		x.dirty = map[*image]bool{}
	}
	img := &image{ref: strings.Clone(ref)}
	x.images[img.ref] = img
	return img
}

// set enters the uses of an object; usually they are unchanged, since most changes of an
// object are about something else.
func (x *Index) set(kind string, key objectKey, uses []use) {
	old := x.objects[kind][key]
	if slices.Equal(old, uses) {
		return
	}
	// The strings may be parts of a whole decoded object, which they would keep.
	key = objectKey{Namespace: unique.Make(key.Namespace).Value(), Name: strings.Clone(key.Name)}
	x.store(kind, key, uses)
	for _, u := range uses {
		u.image.uses++
	}
	for _, u := range old {
		u.image.uses--
	}
	for _, u := range slices.Concat(old, uses) {
		x.touch(u.image, changedObject{kind, key})
	}
}

func (x *Index) store(kind string, key objectKey, uses []use) {
	if len(uses) == 0 {
		delete(x.objects[kind], key)
		return
	}
	if x.objects == nil {
		x.objects = map[string]map[objectKey][]use{}
	}
	if x.objects[kind] == nil {
		x.objects[kind] = map[objectKey][]use{}
	}
	x.objects[kind][key] = uses
}

// minBacklog is the least number of changes of an image that may wait for the next call of
// Images. Beyond it, and beyond the number of consumers, they are processed at once: a
// namespace that creates and deletes pods for days without a review must not fill the memory
// with their names.
const minBacklog = 256

func (x *Index) touch(img *image, o changedObject) {
	if img.uses == 0 {
		x.drop(img)
		return
	}
	if n := len(img.changed); n == 0 || img.changed[n-1] != o {
		img.changed = append(img.changed, o)
	}
	x.dirty[img] = true
	if len(img.changed) > minBacklog && len(img.changed) > len(img.consumers) {
		x.refresh(img)
	}
}

func (x *Index) drop(img *image) {
	img.consumers, img.changed = nil, nil
	delete(x.images, img.ref)
	delete(x.dirty, img)
	x.current.Delete(img.ref)
}

// refresh rebuilds the list of consumers from those whose objects did not change and from
// what the changed objects say now.
func (x *Index) refresh(img *image) {
	var came []policy.Consumer
	changed := make(map[changedObject]bool, len(img.changed))
	for _, o := range img.changed {
		if changed[o] {
			continue
		}
		changed[o] = true
		uses := x.objects[o.kind][o.objectKey]
		first, _ := slices.BinarySearchFunc(uses, img.ref, func(u use, ref string) int { return strings.Compare(u.image.ref, ref) })
		for _, u := range uses[first:] {
			if u.image != img {
				break
			}
			came = append(came, x.consumer(o, u))
		}
	}
	slices.SortFunc(came, compareConsumers)
	consumers := make([]policy.Consumer, 0, img.uses)
	for _, u := range img.consumers {
		if changed[changedObject{u.Kind, objectKey{Namespace: u.Namespace, Name: u.Name}}] {
			continue
		}
		for len(came) > 0 && compareConsumers(came[0], u) < 0 {
			consumers, came = append(consumers, came[0]), came[1:]
		}
		consumers = append(consumers, u)
	}
	img.consumers = append(consumers, came...)
	img.changed = nil
	delete(x.dirty, img)
	x.current.Put(policy.Image{Ref: img.ref, Consumers: img.consumers})
}

func (x *Index) consumer(o changedObject, u use) policy.Consumer {
	t := u.attributes.Value()
	c := policy.Consumer{
		Kind:      o.kind,
		Namespace: o.Namespace,
		Name:      o.Name,
		Container: u.container.Value(),
		Use:       t.Use,
		Digest:    u.digest.Value(),

		OwnPullSecret:     t.OwnPullSecret,
		PullSecretUnknown: t.PullSecretUnknown,
		Guessed:           t.Guessed,
		Placement:         x.placement(t.Placement),
		NeverPulls:        t.NeverPulls,
		Ending:            t.Ending,
		NeverRan:          t.NeverRan,
	}
	if x.read[t.Keeper] {
		c.Use = policy.History
	}
	if t.Account != "" && !t.OwnPullSecret {
		c.OwnPullSecret, c.PullSecretUnknown = x.accounts.pullSecret(objectKey{Namespace: o.Namespace, Name: t.Account}, t.Secrets)
	}
	return c
}

// placement returns the one of all placements that are written so.
func (x *Index) placement(text string) *policy.Placement {
	if text == "" {
		return nil
	}
	return x.placements.Get(text, func() *policy.Placement {
		p := new(policy.Placement)
		_ = json.Unmarshal([]byte(text), p) // placementOf wrote it
		return p
	})
}

func compareConsumers(a, b policy.Consumer) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.Container, b.Container),
		cmp.Compare(a.Use, b.Use),
		strings.Compare(a.Digest, b.Digest),
	)
}
