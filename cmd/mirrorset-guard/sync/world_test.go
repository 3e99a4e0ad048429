package sync

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// The keys of policies: of the cluster, of namespaces, and one that no policy names.
const ofCluster, ofB, ofC, ofHouse = signer.Key("cluster"), signer.Key("b"), signer.Key("c"), signer.Key("house")

// A world is a source, a mirror, and pods that pull from them.
type world struct {
	random         *rand.Rand
	source, mirror *front
	archs          []string
	groups         []*group
	signatures     map[string]signed // by the annotation
	pods           []pod
	// before and after are the pulls without mirror sets, and with them.
	before, after []pull
	lost          []string // paths of blobs at the mirror
	refers        bool     // whether v3 refers to v1
	tags          map[string]bool
	story         strings.Builder
}

// A group is the repositories of the source that have one at the mirror in common.
type group struct {
	mirror  string // repository
	sources []*repository
	images  []*image
	never   bool
	tagged  bool // whether tags have mirrors, too
}

type repository struct {
	name     string
	policy   []signer.Key
	attached map[string]signer.Attachment // of each instance that has signatures, by its digest
}

// A pod is one that pulls an image in a namespace.
type pod struct{ namespace, ref string }

// An image is an index, or one of its parts alone.
type image struct {
	tag       string
	raw       []byte
	mediaType string
	parts     []*image
	blobs     [][]byte // config and layers of a part
	arch      string
}

func (i *image) digest() string { return digestOf(i.raw) }

func newPart(name, arch string, layers ...string) *image {
	config := fmt.Appendf(nil, `{"os":"linux","architecture":%q,"config":{"Labels":{"name":%q}},"rootfs":{"type":"layers","diff_ids":[]}}`, arch, name)
	i := &image{mediaType: imageType, arch: arch, blobs: [][]byte{config}}
	m := map[string]any{"schemaVersion": 2, "mediaType": imageType, "config": described("application/vnd.oci.image.config.v1+json", config)}
	var all []descriptor
	for _, l := range layers {
		i.blobs = append(i.blobs, []byte(l))
		all = append(all, described("application/vnd.oci.image.layer.v1.tar", []byte(l)))
	}
	m["layers"] = all
	i.raw, _ = json.Marshal(m)
	i.parts = []*image{i}
	return i
}

func newIndex(parts ...*image) *image {
	i := &image{mediaType: indexType, parts: parts}
	var all []descriptor
	for _, p := range parts {
		d := described(p.mediaType, p.raw)
		d.Platform = &platform{"linux", p.arch}
		all = append(all, d)
	}
	i.raw, _ = json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": all})
	return i
}

func described(mediaType string, content []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digestOf(content), Size: len(content)}
}

func (w *world) chance(p float64) bool { return w.random.Float64() < p }

func pick[T any](w *world, of ...T) T { return of[w.random.IntN(len(of))] }

func (w *world) tell(format string, args ...any) {
	fmt.Fprintf(&w.story, format+"\n", args...)
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	w := &world{random: rand.New(rand.NewPCG(seed, 43)), source: newFront(t), mirror: newFront(t), signatures: map[string]signed{}, tags: map[string]bool{}, refers: seed%9 == 2}
	w.archs = pick(w, []string{"amd64"}, []string{"amd64", "arm64"})
	for n := range 1 + w.random.IntN(3) {
		w.addGroup(t, n)
	}
	for _, g := range w.groups {
		w.fill(t, g)
	}
	for _, path := range w.lost {
		w.mirror.ask(t, http.MethodDelete, path, "", nil)
		if status, _, _ := w.mirror.ask(t, http.MethodGet, path, "", nil); status != http.StatusNotFound {
			t.Fatalf("%s after it was deleted: %d", path, status)
		}
		w.tell("lost: %s", path)
	}
	w.mirror.fault = w.faults()
	if w.chance(0.1) {
		w.source.fault = func(_, path string) int {
			return map[bool]int{true: http.StatusNotFound}[strings.HasSuffix(path, "/tags/list")]
		}
	}
	w.addPods()
	return w
}

func (w *world) addGroup(t testing.TB, n int) {
	g := &group{mirror: fmt.Sprintf("m%d/app", n), never: w.chance(0.2), tagged: w.chance(0.6)}
	for k := range 1 + map[bool]int{true: 1}[w.chance(0.2)] {
		r := &repository{name: fmt.Sprintf("t%d%d/app", n, k), attached: map[string]signer.Attachment{}}
		r.policy = pick(w, nil, nil, []signer.Key{ofCluster}, []signer.Key{ofB, ofC})
		g.sources = append(g.sources, r)
	}
	g.tagged = g.tagged && len(g.sources) == 1
	name := g.mirror
	shared := newPart(name+" shared", "amd64", "the base of "+name, "shared in "+name)
	arm := newPart(name+" arm", "arm64", "the base of "+name, "arm in "+name)
	other := newPart(name+" other", "arm64", "other in "+name)
	single, first := newPart(name+" single", "amd64", "the base of "+name, "single in "+name), newIndex(shared, arm)
	if w.refers {
		subject, _ := json.Marshal(described(first.mediaType, first.raw))
		single.raw = fmt.Appendf(nil, `{"subject":%s,%s`, subject, single.raw[1:])
	}
	for tag, i := range map[string]*image{"v1": first, "v2": newIndex(shared, other), "v3": single} {
		i.tag = tag
		g.images = append(g.images, i)
	}
	slices.SortFunc(g.images, func(a, b *image) int { return strings.Compare(a.tag, b.tag) })
	for _, r := range g.sources {
		for _, i := range g.images {
			w.put(t, w.source, r.name, i, i.tag)
		}
		w.sign(t, g, r)
	}
	w.groups = append(w.groups, g)
}

// put puts an image at a registry, under a tag or a digest.
func (w *world) put(t testing.TB, at *front, repository string, i *image, ref string) {
	t.Helper()
	for _, p := range i.parts {
		for _, b := range p.blobs {
			if !putBlob(t, "http://"+at.real, repository, b) {
				t.Fatal("a blob is not taken")
			}
		}
		if p != i && !putManifest(t, "http://"+at.real, repository, p.digest(), p.mediaType, p.raw) {
			t.Fatal("a part is not taken")
		}
	}
	if !putManifest(t, "http://"+at.real, repository, ref, i.mediaType, i.raw) {
		if i.mediaType == dockerType && strings.HasSuffix(ref, ".sig") {
			return // distribution refuses a signature of another type than it is, and others do not
		}
		t.Fatal("an image is not taken")
	}
	if at == w.mirror && !strings.Contains(ref, ":") {
		w.tags["/v2/"+repository+"/manifests/"+ref] = true
	}
}

func (w *world) attach(t testing.TB, at *front, repository, digest, mediaType string, a signer.Attachment) {
	t.Helper()
	i := &image{mediaType: mediaType, raw: a.Manifest, blobs: a.Blobs}
	i.parts = []*image{i}
	w.put(t, at, repository, i, signer.Tag(digest))
}

// attachment returns signatures of an instance by keys, for each tag of a repository that has it.
func (w *world) attachment(g *group, r *repository, digest string, keys ...signer.Key) signer.Attachment {
	var all []signing.Signature
	for _, i := range g.images {
		if slices.ContainsFunc(i.parts, func(p *image) bool { return p.digest() == digest }) {
			for _, key := range keys {
				reference := w.source.host + "/" + r.name + ":" + i.tag
				s := key.Sign(reference, digest)
				w.signatures[s.Annotations[signing.SignatureAnnotation]] = signed{key, reference, digest}
				all = append(all, s)
			}
		}
	}
	return signer.Attach(all...)
}

func (g *group) instances() (digests []string) {
	for _, i := range g.images {
		for _, p := range i.parts {
			if !slices.Contains(digests, p.digest()) {
				digests = append(digests, p.digest())
			}
		}
	}
	return digests
}

func (w *world) sign(t testing.TB, g *group, r *repository) {
	for _, digest := range g.instances() {
		keys, mediaType := r.policy, imageType
		switch {
		case len(r.policy) == 0 && w.chance(0.8):
			continue
		case len(r.policy) == 0:
			keys, mediaType = []signer.Key{ofHouse}, pick(w, imageType, imageType, dockerType)
		case w.chance(0.12):
			continue
		case w.chance(0.2):
			keys = pick(w, keys[:1], []signer.Key{ofHouse})
		}
		r.attached[digest] = w.attachment(g, r, digest, keys...)
		w.attach(t, w.source, r.name, digest, mediaType, r.attached[digest])
		w.tell("%s has a signature of %s by %s (%s)", r.name, digest[:15], keys, mediaType)
	}
}

// fill puts at the mirror what it has of a group.
func (w *world) fill(t testing.TB, g *group) {
	for _, i := range g.images {
		switch w.random.IntN(8) {
		case 0, 1:
			w.put(t, w.mirror, g.mirror, i, pick(w, i.tag, i.digest()))
			w.tell("%s has %s (%s)", g.mirror, i.tag, i.digest()[:15])
		case 2, 3:
			p := pick(w, i.parts...)
			w.put(t, w.mirror, g.mirror, p, p.digest())
			w.tell("%s has a part of %s (%s)", g.mirror, i.tag, p.digest()[:15])
		case 4:
			own := newPart(g.mirror+" house "+i.tag, "amd64", "the house's own "+i.tag+" in "+g.mirror)
			w.put(t, w.mirror, g.mirror, own, i.tag)
			w.tell("%s has its own %s", g.mirror, i.tag)
		}
		if p := pick(w, i.parts...); w.chance(0.3) {
			w.lost = append(w.lost, "/v2/"+g.mirror+"/blobs/"+digestOf(pick(w, p.blobs...)))
		}
	}
	for _, digest := range g.instances() {
		r := pick(w, g.sources...)
		a, ok := r.attached[digest]
		mediaType := imageType
		switch n := w.random.IntN(16); {
		case n < 2 && ok:
		case n < 6:
			a = w.attachment(g, r, digest, pick(w, []signer.Key{ofCluster}, []signer.Key{ofB}, []signer.Key{ofC}, []signer.Key{ofHouse}, []signer.Key{ofHouse, ofCluster}, []signer.Key{ofB, ofC})...)
		case n == 6:
			mediaType = dockerType
			a = w.attachment(g, r, digest, ofCluster)
		default:
			continue
		}
		w.attach(t, w.mirror, g.mirror, digest, mediaType, a)
		w.tell("%s has something at the tag of signatures of %s (%s)", g.mirror, digest[:15], mediaType)
		if w.chance(0.15) {
			w.lost = append(w.lost, "/v2/"+g.mirror+"/blobs/"+digestOf(a.Blobs[len(a.Blobs)-1]))
		}
	}
}

// faults returns those of the mirror.
func (w *world) faults() func(who, path string) int {
	lists, signatures := pick(w, 0, 0, http.StatusNotFound, http.StatusForbidden), 0
	if w.chance(0.3) {
		signatures = pick(w, http.StatusForbidden, http.StatusNotImplemented, noName)
	}
	repository, nodesOnly := pick(w, w.groups...).mirror, w.chance(0.5)
	w.tell("lists: %d; signatures in %s: %d (nodes only: %t)", lists, repository, signatures, nodesOnly)
	return func(who, path string) int {
		switch {
		case strings.HasSuffix(path, "/tags/list"):
			return lists
		case strings.HasSuffix(path, ".sig") && strings.HasPrefix(path, "/v2/"+repository) && (who == node || !nodesOnly):
			return signatures
		default:
			return 0
		}
	}
}

// addPods adds pods, and their pulls.
func (w *world) addPods() {
	for _, g := range w.groups {
		atMirror := place{w.mirror, g.mirror, slices.ContainsFunc(g.sources, func(r *repository) bool { return len(r.policy) > 0 })}
		for _, r := range g.sources {
			atSource := place{w.source, r.name, len(r.policy) > 0}
			for _, i := range g.images {
				for _, namespace := range []string{"openshift-a", "b", "c"} {
					if !w.chance(0.5) {
						continue
					}
					p := pull{version: i.digest(), reference: w.source.host + "/" + r.name + ":" + i.tag, byDigest: true, key: r.keyIn(namespace)}
					ref := w.source.host + "/" + r.name + "@" + p.version
					if w.chance(0.1) {
						p.version = pick(w, i.parts...).digest()
						ref = w.source.host + "/" + r.name + "@" + p.version
					} else if w.chance(0.5) {
						p.version, p.byDigest, ref = i.tag, false, p.reference
					}
					w.pods = append(w.pods, pod{namespace, ref})
					before, after := []place{atSource}, []place{}
					if p.byDigest || g.tagged {
						after = append(after, atMirror)
					}
					if !g.never {
						after = append(after, atSource)
					}
					for _, arch := range w.archs {
						p.arch, p.name = arch, fmt.Sprintf("%s in %s on %s (key %q)", ref, namespace, arch, p.key)
						p.route = before
						w.before = append(w.before, p)
						p.route = after
						w.after = append(w.after, p)
					}
				}
			}
		}
	}
}

func (r *repository) keyIn(namespace string) signer.Key {
	for _, key := range r.policy {
		if key == ofCluster || string(key) == namespace {
			return key
		}
	}
	return ""
}

func sameRepository(a, b string) bool {
	return a[:strings.LastIndex(a, ":")] == b[:strings.LastIndex(b, ":")]
}

// objects returns the cluster but for its mirror sets.
func (w *world) objects() string {
	var b strings.Builder
	for i, p := range w.pods {
		fmt.Fprintf(&b, `---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %s, name: app-%d}
spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: %q}]}}}
`, p.namespace, i, p.ref)
	}
	for _, arch := range w.archs {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %[1]s}\nstatus: {nodeInfo: {operatingSystem: linux, architecture: %[1]s}}\n", arch)
	}
	auth := base64.StdEncoding.EncodeToString([]byte(node + ":secret"))
	b.WriteString(inPlainHTTP(fmt.Sprintf(`{"auths":{%q:{"auth":%q},%q:{"auth":%q}}}`, w.source.host, auth, w.mirror.host, auth), w.source.host, w.mirror.host))
	for _, g := range w.groups {
		for _, r := range g.sources {
			for _, key := range r.policy {
				kind, namespace := "ImagePolicy", ", namespace: "+string(key)
				if key == ofCluster {
					kind, namespace = "ClusterImagePolicy", ""
				}
				fmt.Fprintf(&b, "---\napiVersion: config.openshift.io/v1\nkind: %s\nmetadata: {name: %s%s}\nspec: {scopes: [%q], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: %s}}}}\n",
					kind, strings.ReplaceAll(r.name, "/", "-"), namespace, w.source.host+"/"+r.name, base64.StdEncoding.EncodeToString(key.PEM()))
			}
		}
	}
	return b.String()
}

// sets returns the mirror sets.
func (w *world) sets() string {
	var b strings.Builder
	for _, g := range w.groups {
		policy := map[bool]string{true: "NeverContactSource", false: "AllowContactingSource"}[g.never]
		to, _, _ := strings.Cut(g.mirror, "/")
		for _, r := range g.sources {
			from, _, _ := strings.Cut(r.name, "/")
			entry := fmt.Sprintf("[{source: %q, mirrors: [%q], mirrorSourcePolicy: %s}]", w.source.host+"/"+from, w.mirror.host+"/"+to, policy)
			fmt.Fprintf(&b, "---\napiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: %s}\nspec: {imageDigestMirrors: %s}\n", from, entry)
			if g.tagged {
				fmt.Fprintf(&b, "---\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: %s}\nspec: {imageTagMirrors: %s}\n", from, entry)
			}
		}
	}
	return b.String()
}
