package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A dump may hold an object more than once: a must-gather has pods one by one and in lists, and
// a folder may have the dumps of two days. The newest counts if the objects show which it is. If
// they do not, both count: the images of both are in the inventory. For an object that decides where
// nodes pull from, neither reading is safe for every question, so there is no answer.

// An identity is the hash of what names an object. A hundred thousand of them are 3 MB.
type identity [sha256.Size / 2]byte

func identityOf(kind schema.GroupKind, namespace, name string) (id identity) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", kind, namespace, name))
	copy(id[:], sum[:])
	return id
}

// An edition is a digest of an object, kept to compare it with another of the same name.
type edition struct {
	uid      identity // zero for none
	version  uint64   // metadata.resourceVersion; 0 for none
	age      int64    // metadata.generation; 0 for none
	contents identity // of everything but bookkeeping
	at       Problem  // where it stands; it has no Err
	images   images.Packed
}

// An order is the relation of one edition to another.
type order int

const (
	unordered order = iota // it cannot be determined which is newer
	same
	older
	newer
)

func editionOf(gvk schema.GroupVersionKind, data []byte, at Problem) (identity, *edition) {
	e := &edition{at: at}
	var meta metav1.ObjectMeta
	hash := sha256.New()
	for name, value := range rawjson.Members(data) {
		switch string(name) {
		case "apiVersion", "kind":
		case "metadata":
			_ = json.Unmarshal(value, &meta) // an error is reported when the object is decoded
			for name, value := range rawjson.Members(value) {
				if !bookkeeping[string(name)] {
					addTo(hash, name, value)
				}
			}
		default:
			addTo(hash, name, value)
		}
	}
	if asked := askedOf(gvk, data); asked != nil {
		hash.Reset()
		hash.Write(asked)
	}
	copy(e.contents[:], hash.Sum(nil))
	if meta.UID != "" {
		sum := sha256.Sum256([]byte(meta.UID))
		copy(e.uid[:], sum[:])
	}
	e.version, _ = strconv.ParseUint(meta.ResourceVersion, 10, 64)
	e.age = meta.Generation
	if meta.Name == "" {
		return identity{}, e
	}
	return identityOf(images.CurrentKind(gvk.GroupKind()), meta.Namespace, meta.Name), e
}

// askedOf returns the part of a mirror object that counts, which is all that Write writes of one; nil
// for other kinds, and for one that cannot be read.
func askedOf(gvk schema.GroupVersionKind, data []byte) []byte {
	o, err := decodeMirrors(data, gvk)
	if err != nil {
		return nil
	}
	var w bytes.Buffer
	out := writer{to: bufio.NewWriter(&w)}
	set := mirrors.Put(o).Apply(mirrors.Set{})
	out.mirrors(set, bareImage(set))
	if out.err != nil || out.to.Flush() != nil {
		return nil
	}
	return w.Bytes()
}

// bookkeeping are the fields of metadata that are no part of what an object asks for.
var bookkeeping = map[string]bool{
	"uid": true, "resourceVersion": true, "generation": true, "managedFields": true, "selfLink": true, "creationTimestamp": true,
}

// addTo adds a member of an object to a hash, regardless of its whitespace.
func addTo(hash hash.Hash, name, value []byte) {
	var b bytes.Buffer
	if json.Compact(&b, value) == nil {
		value = b.Bytes()
	}
	fmt.Fprintf(hash, "%q:%d:", name, len(value))
	hash.Write(value)
}

// against says whether e is newer or older than other. Two objects of one name and different uids are
// those of two clusters, or of before and after a deletion: then it is not known which is newer. One
// version has one content.
func (e *edition) against(other *edition) order {
	switch {
	case e.contents == other.contents:
		return same
	case e.uid != identity{} && other.uid != identity{} && e.uid != other.uid:
		return unordered
	}
	byVersion, byAge := compareKnown(e.version, other.version), compareKnown(e.age, other.age)
	switch {
	case e.version == 0 || other.version == 0:
		return byAge
	case byAge != unordered && byAge != byVersion:
		return unordered
	default:
		return byVersion
	}
}

// isVersionOf reports whether e and other are one version of one object, which the tools of a
// must-gather print in different ways.
func (e *edition) isVersionOf(other *edition) bool {
	return e.uid != identity{} && e.uid == other.uid && e.version != 0 && e.version == other.version
}

// compareKnown compares two numbers; 0 means that there is none. If they are equal, contents differ.
func compareKnown[T int64 | uint64](a, b T) order {
	switch {
	case a == 0 || b == 0 || a == b:
		return unordered
	case a < b:
		return older
	default:
		return newer
	}
}

// compareEdition compares an object with one of the same name that the dump had before, nil for
// none, and remembers it if it counts.
func (r *reader) compareEdition(gvk schema.GroupVersionKind, data []byte) (now, before *edition, o order) {
	id, now := editionOf(gvk, data, r.place)
	if id == (identity{}) {
		return now, nil, newer
	}
	if before, o = r.editions[id], newer; before != nil {
		o = now.against(before)
	}
	if o == newer || o == unordered {
		r.editions[id] = now
	}
	return now, before, o
}

// decisive are the kinds besides mirror objects for which there is no answer unless it is known
// which of two objects counts: nodes, their configuration, and the credentials with which they pull.
// The value is true if every object of the kind has to be known.
var decisive = map[schema.GroupKind]bool{
	{Kind: "Node"}:                                   true,
	machineConfigKind.GroupKind():                    true,
	{Group: configv1.GroupName, Kind: providerKind}:  true,
	{Group: configv1.GroupName, Kind: "FeatureGate"}: false,
	{Kind: "ServiceAccount"}:                         false,
	proxyKind.GroupKind():                            false,
	clusterVersionKind.GroupKind():                   false,
	imageStreamKind:                                  false,
}

// isMirrorKind reports whether a kind is one of mirror objects, or is meant to be.
func isMirrorKind(gvk schema.GroupVersionKind) bool {
	_, err := mirrors.New(gvk)
	_, meant := mirrors.Meant(gvk)
	return err == nil || meant
}

// errContradiction is wrapped by errors about an object that the dump has twice.
var errContradiction = errors.New("neither uid, resourceVersion nor generation tells which is newer")

// contradiction returns the reason why there is no answer if only one of two objects counts; nil if
// both may.
func (r *reader) contradiction(gvk schema.GroupVersionKind, now, before *edition, data []byte) error {
	if !isMirrorKind(gvk) && now.isVersionOf(before) {
		return nil
	}
	var o metav1.PartialObjectMetadata
	_ = json.Unmarshal(data, &o)
	kind := images.CurrentKind(gvk.GroupKind())
	_, counts := decisive[kind]
	if kind == secretKind {
		counts = isPullSecret(&o)
	}
	if !counts && !isMirrorKind(gvk) {
		if resource := rolloutResources[kind.Kind]; resource != "" {
			r.unread = append(r.unread, resource)
		}
		return nil
	}
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}.String()
	return fmt.Errorf("%s %s is in %s too, with other contents: %w", gvk.Kind, strings.TrimPrefix(name, "/"), before.at.String(), errContradiction)
}

// union adds the images of the earlier of two objects that both count to those of the later.
func union(h images.Holder, before *edition) images.Holder {
	for _, ref := range before.images.References() {
		if !slices.Contains(h.References, ref) {
			h.References = append(h.References, ref)
		}
	}
	return h
}
