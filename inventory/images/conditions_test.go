package images

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	imagev1 "github.com/openshift/api/image/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

var rollouts = schema.GroupKind{Group: "argoproj.io", Kind: "Rollout"}

// What an object says that depends on other objects.
func TestIndexConditions(t *testing.T) {
	deployment := Holder{"Deployment", "shop", "cart", []Reference{{Image: "quay.io/cart:1", Container: "app", Account: "cart"}}}
	pod := Holder{"Pod", "shop", "cart-0", []Reference{{Image: "quay.io/cart:1", Container: "app", Use: policy.Running, Account: "cart", Secrets: "cart-dockercfg-a"}}}
	old := Holder{"ReplicaSet", "shop", "cart-1", []Reference{{Image: "quay.io/cart:1", Container: "app", Account: "cart", Keeper: rollouts}}}
	short := Holder{"Deployment", "shop", "cart", []Reference{{Image: "cart:1", Container: "app", Lookup: LookupLocal}}}
	forced := Holder{"Deployment", "shop", "cart", []Reference{{Image: "quay.io/team/cart:1", Container: "app", Lookup: LookupAll}}}
	stream := Stream{Local: true, Repository: "registry.svc:5000/shop/cart", Images: map[string]string{"1": "quay.io/team/cart@" + digest}}
	shared := stream
	shared.Local = false
	remote := Stream{Local: true, Images: stream.Images}
	consumer := func(kind, name string, own, unknown bool, use policy.Use) policy.Consumer {
		return policy.Consumer{Kind: kind, Namespace: "shop", Name: name, Container: "app", Use: use, OwnPullSecret: own, PullSecretUnknown: unknown}
	}
	copied := Holder{"ReplicaSet", "shop", "cart-1", []Reference{{Image: "cart:1", Container: "app", Lookup: LookupLocal, Copied: true, Use: policy.History}}}
	image := func(ref string, u policy.Consumer) []policy.Image {
		return []policy.Image{{Ref: ref, Consumers: []policy.Consumer{u}}}
	}
	type tell = func(*Index)
	put := func(h Holder) tell { return func(x *Index) { x.Put(h) } }
	gone := func(kind, namespace, name string) tell { return func(x *Index) { x.Delete(kind, namespace, name) } }
	account := func(namespace, name string, a Account) tell {
		return func(x *Index) { x.PutAccount(namespace, name, a) }
	}
	putStream := func(namespace, name string, s *Stream) tell {
		return func(x *Index) { x.PutStream(namespace, name, s) }
	}
	inOrder := func(all ...tell) tell {
		return func(x *Index) {
			for _, do := range all {
				do(x)
			}
		}
	}
	trust := func(all Accounts) tell { return func(x *Index) { x.TrustAccounts(all) } }
	reads := func(kind schema.GroupKind, is bool) tell { return func(x *Index) { x.Reads(kind, is) } }
	for _, tt := range []struct {
		reason string
		tell   []tell
		want   []policy.Image
	}{
		{"an account that names none", []tell{put(deployment), account("shop", "cart", Account{})}, image("quay.io/cart:1", consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"an account that names one, and another of that name", []tell{put(deployment), account("shop", "cart", Account{Own: true}), account("other", "cart", Account{})}, image("quay.io/cart:1", consumer("Deployment", "cart", true, false, policy.Referenced))},
		{"a dump does not hold the account", []tell{put(deployment), account("shop", "default", Account{})}, image("quay.io/cart:1", consumer("Deployment", "cart", true, true, policy.Referenced))},
		{"a cluster does not have the account: no pod can be made for it", []tell{put(deployment), trust(AllAccounts)}, image("quay.io/cart:1", consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"an account that named none when it was last read", []tell{put(deployment), account("shop", "cart", Account{}), trust(StaleAccounts)}, image("quay.io/cart:1", consumer("Deployment", "cart", true, true, policy.Referenced))},
		{"a pod has the pull secret that OpenShift has made for its account", []tell{put(pod), account("shop", "cart", Account{Generated: "cart-dockercfg-a cart-dockercfg-b"})}, image("quay.io/cart:1", consumer("Pod", "cart-0", false, false, policy.Running))},
		{"it has another of such a name, whatever the account gives to others", []tell{put(pod), account("shop", "cart", Account{Own: true, Generated: "cart-dockercfg-b"}), trust(AllAccounts)}, image("quay.io/cart:1", consumer("Pod", "cart-0", true, true, policy.Running))},
		{"nothing is known of its account", []tell{put(pod), trust(AllAccounts)}, image("quay.io/cart:1", consumer("Pod", "cart-0", true, true, policy.Running))},
		{"what was known of its account may have changed", []tell{put(pod), account("shop", "cart", Account{Generated: "cart-dockercfg-a"}), trust(StaleAccounts)}, image("quay.io/cart:1", consumer("Pod", "cart-0", true, true, policy.Running))},
		{"an account that gives what may be OpenShift's, or anybody's", []tell{put(deployment), account("shop", "cart", Account{Unknown: true}), trust(AllAccounts)}, image("quay.io/cart:1", consumer("Deployment", "cart", true, true, policy.Referenced))},
		{"the owner's template is read", []tell{put(old), reads(rollouts, true), trust(AllAccounts)}, image("quay.io/cart:1", consumer("ReplicaSet", "cart-1", false, false, policy.History))},
		{"the owner's template is not read: what it would name may run at any time", []tell{put(old), reads(schema.GroupKind{Group: "apps", Kind: "Deployment"}, true), trust(AllAccounts)}, image("quay.io/cart:1", consumer("ReplicaSet", "cart-1", false, false, policy.Referenced))},
		{"a short name and a stream that allows it", []tell{put(short), putStream("shop", "cart", &stream)}, image("quay.io/team/cart@"+digest, consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"a copy of the template shows that it was admitted as it is", []tell{put(short), putStream("shop", "cart", &stream), put(copied)}, []policy.Image{{Ref: "cart:1", Consumers: []policy.Consumer{consumer("Deployment", "cart", false, false, policy.Referenced), consumer("ReplicaSet", "cart-1", false, false, policy.History)}}}},
		{"the copy is gone", []tell{putStream("shop", "cart", &stream), inOrder(put(copied), put(short), gone("ReplicaSet", "shop", "cart-1"))}, image("quay.io/team/cart@"+digest, consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"a stream that does not allow it", []tell{put(short), putStream("shop", "cart", &shared)}, image("cart:1", consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"the stream of another namespace", []tell{put(short), putStream("openshift", "cart", &stream)}, image("cart:1", consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"the annotation overrides what the stream allows, and looks for the last segment", []tell{put(forced), putStream("shop", "cart", &shared)}, image("quay.io/team/cart@"+digest, consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"a tag that is not there is looked for in the internal registry", []tell{put(short), putStream("shop", "cart", &Stream{Local: true, Repository: stream.Repository})}, image("registry.svc:5000/shop/cart:1", consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"without an internal registry it stays what it is", []tell{put(short), putStream("shop", "cart", &Stream{Local: true})}, image("cart:1", consumer("Deployment", "cart", false, false, policy.Referenced))},
		{"with a tag, no internal registry is needed", []tell{put(short), putStream("shop", "cart", &remote)}, image("quay.io/team/cart@"+digest, consumer("Deployment", "cart", false, false, policy.Referenced))},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var forth, back, eager Index
			for i := range tt.tell {
				tt.tell[i](&forth)
				tt.tell[len(tt.tell)-1-i](&back)
				tt.tell[i](&eager)
				eager.Images().ByReference() // what was asked before must not matter
			}
			for order, x := range map[string]*Index{"in this order": &forth, "the other way round": &back, "asked in between": &eager} {
				if diff := cmp.Diff(tt.want, x.Images().ByReference()); diff != "" {
					t.Errorf("%s: -want +got:\n%s", order, diff)
				}
			}
		})
	}
}

// A world that changes at random is in the end what it would be if it had been so
// from the beginning.
func TestIndexForgetsWhatWas(t *testing.T) {
	const seed = 5
	random := rand.New(rand.NewPCG(seed, seed))
	var x Index
	var w randomWorld
	w.init()
	for step := range campaign.Times(8_000, 200_000) {
		w.change(random, &x)
		if random.IntN(200) == 0 {
			if diff := cmp.Diff(w.index().Images().ByReference(), x.Images().ByReference()); diff != "" {
				t.Fatalf("step %d: -want +got:\n%s", step, diff)
			}
		}
	}
	for key := range w.holders {
		x.Delete(key[0], key[1], key[2])
	}
	if len(x.Images().ByReference()) != 0 || len(x.images) != 0 || len(x.waiting.of)+len(x.waiting.on) != 0 || len(x.names.copies) != 0 {
		t.Errorf("%d images, %d Holders and %d copies are left", len(x.images), len(x.waiting.on), len(x.names.copies))
	}
}

type randomWorld struct {
	holders  map[[3]string]Holder
	accounts map[types.NamespacedName]Account
	streams  map[types.NamespacedName]*Stream
	read     map[schema.GroupKind]bool
	state    Accounts
}

func (w *randomWorld) init() {
	*w = randomWorld{map[[3]string]Holder{}, map[types.NamespacedName]Account{}, map[types.NamespacedName]*Stream{}, map[schema.GroupKind]bool{}, 0}
}

// index is told everything once, with what others depend on first.
func (w *randomWorld) index() *Index {
	x := new(Index)
	x.TrustAccounts(w.state)
	x.ReplaceAccounts(maps.Clone(w.accounts))
	x.ReplaceStreams(w.streams)
	for kind, read := range w.read {
		x.Reads(kind, read)
	}
	for _, h := range w.holders {
		x.Put(h)
	}
	return x
}

func randomAccount(random *rand.Rand) Account {
	return Account{Own: random.IntN(3) == 0, Unknown: random.IntN(3) == 0, Generated: []string{"", "a", "a b"}[random.IntN(3)]}
}

func (w *randomWorld) change(random *rand.Rand, x *Index) {
	key := types.NamespacedName{Namespace: fmt.Sprint("ns", random.IntN(3)), Name: fmt.Sprint("name", random.IntN(4))}
	kinds := []schema.GroupKind{rollouts, {Group: "apps", Kind: "Deployment"}}
	switch random.IntN(40) {
	case 0:
		w.accounts[key] = randomAccount(random)
		x.PutAccount(key.Namespace, key.Name, w.accounts[key])
	case 1:
		delete(w.accounts, key)
		x.DeleteAccount(key.Namespace, key.Name)
	case 2:
		w.state = Accounts(random.IntN(3))
		x.TrustAccounts(w.state)
	case 3:
		kind := kinds[random.IntN(2)]
		w.read[kind] = random.IntN(2) == 0
		x.Reads(kind, w.read[kind])
	case 4, 5:
		s := &Stream{Local: random.IntN(2) == 0, Repository: []string{"", "svc/" + key.Name}[random.IntN(2)], Images: map[string]string{}}
		if random.IntN(2) == 0 {
			s.Images["1"] = fmt.Sprint("quay.io/", random.IntN(5))
		}
		w.streams[key] = s
		x.PutStream(key.Namespace, key.Name, s)
	case 6:
		delete(w.streams, key)
		x.PutStream(key.Namespace, key.Name, nil)
	case 7:
		w.accounts = map[types.NamespacedName]Account{key: {Own: true}}
		x.ReplaceAccounts(maps.Clone(w.accounts))
	case 8:
		w.streams = map[types.NamespacedName]*Stream{key: {Local: true, Repository: "svc/all"}}
		x.ReplaceStreams(w.streams)
	default:
		h := randomHolder(random)
		h.Namespace = key.Namespace
		for i := range h.References {
			r := &h.References[i]
			r.Account = []string{"", key.Name}[random.IntN(2)]
			if r.Account != "" && random.IntN(2) == 0 {
				r.Secrets = []string{"a", "a b"}[random.IntN(2)]
			}
			r.Keeper = append(kinds, schema.GroupKind{})[random.IntN(3)]
			if random.IntN(4) == 0 {
				r.Image, r.Lookup, r.Copied = key.Name+":1", Lookup(random.IntN(3)), random.IntN(3) == 0
			}
		}
		object := [3]string{h.Kind, h.Namespace, h.Name}
		w.holders[object] = h
		if random.IntN(3) == 0 {
			delete(w.holders, object)
			x.Delete(h.Kind, h.Namespace, h.Name)
			return
		}
		x.Put(h)
	}
}

func TestLookupName(t *testing.T) {
	for _, tt := range []struct {
		reason, image string
		local, all    string // stream and tag, "" for none
	}{
		{"one segment", "cart:1", "cart 1", "cart 1"},
		{"no tag is latest", "cart", "cart latest", "cart latest"},
		{"two segments have a namespace, which is replaced where all names are looked up", "team/cart:1", "", "cart 1"},
		{"a registry and a namespace", "quay.io/team/cart:1", "", "cart 1"},
		{"a registry alone", "localhost:5000/cart:1", "", "cart 1"},
		{"no stream has a slash in its name", "quay.io/team/group/cart:1", "", ""},
		{"a digest says which image is meant", "cart@" + digest, "", ""},
		{"with a tag as well", "cart:1@" + digest, "", ""},
		{"no reference at all", "Cart:1:2", "", ""},
		{"nothing", "", "", ""},
	} {
		for lookup, want := range map[Lookup]string{LookupNone: "", LookupLocal: tt.local, LookupAll: tt.all} {
			stream, tag, ok := lookup.name(tt.image)
			got := ""
			if ok {
				got = stream + " " + tag
			}
			if got != want {
				t.Errorf("%s: %d.name(%q) = %q, want %q", tt.reason, lookup, tt.image, got, want)
			}
		}
	}
}

func TestStreamOf(t *testing.T) {
	item := func(ref, image string) []imagev1.TagEvent {
		return []imagev1.TagEvent{{DockerImageReference: ref, Image: image}}
	}
	local := imagev1.TagReferencePolicy{Type: imagev1.LocalTagReferencePolicy}
	const repository = "image-registry.openshift-image-registry.svc:5000/shop/cart"
	o := &imagev1.ImageStream{
		Spec: imagev1.ImageStreamSpec{
			LookupPolicy: imagev1.ImageLookupPolicy{Local: true},
			Tags: []imagev1.TagReference{
				{Name: "through", ReferencePolicy: local},
				{Name: "source", ReferencePolicy: imagev1.TagReferencePolicy{Type: imagev1.SourceTagReferencePolicy}},
				{Name: "not-yet", ReferencePolicy: local},
			},
		},
		Status: imagev1.ImageStreamStatus{DockerImageRepository: repository, Tags: []imagev1.NamedTagEventList{
			{Tag: "through", Items: item("quay.io/team/cart@"+digest, digest)},
			{Tag: "source", Items: slices.Concat(item("quay.io/team/cart@"+digest, digest), item("quay.io/team/cart:older", "sha256:0"))},
			{Tag: "pushed", Items: item(repository+"@"+digest, digest)},
			{Tag: "by-tag", Items: item("quay.io/team/cart:v1", digest)},
			{Tag: "empty"},
			{Tag: "no-image", Items: item("quay.io/team/cart:v1", "")},
			{Tag: "no-reference", Items: item("Quay.io/Team/cart", digest)},
		}},
	}
	want := &Stream{Local: true, Repository: repository, Images: map[string]string{
		"through": repository + "@" + digest, "source": "quay.io/team/cart@" + digest, "pushed": repository + "@" + digest, "by-tag": "quay.io/team/cart@" + digest,
	}}
	if diff := cmp.Diff(want, StreamOf(o)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	o.Status.DockerImageRepository = ""
	if got := StreamOf(o).Images["through"]; got != "quay.io/team/cart@"+digest {
		t.Errorf("without an internal registry: %q, want the source", got)
	}
}

// Which objects the admission plugin for ImageStreams looks at.
func TestExtractLookup(t *testing.T) {
	annotated := map[string]string{resolveNames: "*"}
	deployment := func(meta metav1.ObjectMeta, template map[string]string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: templateOf("cart:1", "quay.io/team/cart:1", "cart@"+digest)}}
		d.Spec.Template.Annotations = template
		d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init"}}
		d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data"}}}}
		return d
	}
	object := named("shop", "cart")
	object.Annotations = annotated
	other := named("shop", "cart")
	other.Annotations = map[string]string{resolveNames: "true"}
	for _, tt := range []struct {
		reason string
		object *appsv1.Deployment
		want   []Lookup // of init, a, b, c and the volume
	}{
		{"names of one segment, of containers", deployment(named("shop", "cart"), nil), []Lookup{LookupLocal, LookupLocal, LookupNone, LookupNone, LookupNone}},
		{"the object asks for all", deployment(object, nil), []Lookup{LookupAll, LookupAll, LookupAll, LookupNone, LookupNone}},
		{"the template does", deployment(named("shop", "cart"), annotated), []Lookup{LookupAll, LookupAll, LookupAll, LookupNone, LookupNone}},
		{"no other value counts", deployment(other, nil), []Lookup{LookupLocal, LookupLocal, LookupNone, LookupNone, LookupNone}},
		{"what a controller has made is left alone", deployment(owned("shop", "cart", "example.com/v1", "Shop"), annotated), []Lookup{LookupAll, LookupAll, LookupAll, LookupNone, LookupNone}},
	} {
		deployments, _ := KindOf(schema.GroupKind{Group: "apps", Kind: "Deployment"})
		h := deployments.Extract(tt.object)
		var got []Lookup
		for _, r := range h.References {
			got = append(got, r.Lookup)
			if copied := tt.object.OwnerReferences != nil && r.Lookup != LookupNone; r.Copied != copied {
				t.Errorf("%s: %s: copied is %t", tt.reason, r.Image, r.Copied)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.reason, diff)
		}
	}
	pod := fromPod(&corev1.Pod{ObjectMeta: named("shop", "cart"), Spec: containers("cart:1")})
	if pod.References[0].Lookup != LookupNone {
		t.Error("a pod has been admitted: what it names is pulled")
	}
}

// TestAccountOf: the pull secret that OpenShift has made is known by who says so, not by its name.
func TestAccountOf(t *testing.T) {
	const long, ofLong = "a-service-account-whose-name-is-longer-than-48-letters", "a-service-account-whose-name-is-longer-t-1a2b3c4d-dockercfg-x7k2p"
	for _, tt := range []struct {
		reason, account string
		secrets         []string
		annotation      string   // by which the account names the one that OpenShift has made
		generated       []string // those of which the secrets themselves say so
		want            Account
	}{
		{"none", "default", nil, "", nil, Account{}},
		{"OpenShift's own, as the account says", "default", []string{"default-dockercfg-x7k2p"}, "default-dockercfg-x7k2p", nil, Account{Generated: "default-dockercfg-x7k2p"}},
		{"OpenShift's own, as the secret says", "default", []string{"default-dockercfg-x7k2p"}, "", []string{"default-dockercfg-x7k2p"}, Account{Generated: "default-dockercfg-x7k2p"}},
		{"an older one too", "default", []string{"default-dockercfg-a", "default-dockercfg-b"}, "default-dockercfg-b", []string{"default-dockercfg-a"}, Account{Generated: "default-dockercfg-a default-dockercfg-b"}},
		{"a name is no proof", "default", []string{"default-dockercfg-x7k2p"}, "", nil, Account{Unknown: true}},
		{"nor is that of another", "default", []string{"default-dockercfg-a"}, "default-dockercfg-b", nil, Account{Unknown: true, Generated: "default-dockercfg-b"}},
		{"a long account's, cut and with a hash", long, []string{ofLong}, ofLong, nil, Account{Generated: ofLong}},
		{"somebody's beside it", "default", []string{"default-dockercfg-x7k2p", "quay"}, "default-dockercfg-x7k2p", nil, Account{Own: true, Generated: "default-dockercfg-x7k2p"}},
		{"another account's", "default", []string{"builder-dockercfg-x7k2p"}, "", nil, Account{Own: true}},
		{"a name that only resembles it", "default", []string{"default-dockercfg-quay.io"}, "", nil, Account{Own: true}},
		{"an annotation does not make OpenShift's what cannot be", "default", []string{"quay"}, "quay", nil, Account{Own: true}},
		{"an empty name", "default", []string{""}, "", nil, Account{}},
	} {
		account := &corev1.ServiceAccount{ObjectMeta: named("shop", tt.account)}
		for _, name := range tt.secrets {
			account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		}
		if tt.annotation != "" {
			account.Annotations = map[string]string{"openshift.io/internal-registry-pull-secret-ref": tt.annotation}
		}
		if got := AccountOf(account, tt.generated...); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.reason, got, tt.want)
		}
	}
}

func TestGeneratedFor(t *testing.T) {
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "cart", UID: "1"}}
	newer := map[string]string{"openshift.io/internal-registry-auth-token.service-account": "cart", "openshift.io/internal-registry-auth-token.binding": "bound"}
	older := map[string]string{"kubernetes.io/service-account.name": "cart", "openshift.io/token-secret.name": "cart-token-x"}
	for _, tt := range []struct {
		reason      string
		kind        corev1.SecretType
		annotations map[string]string
		owners      []metav1.OwnerReference
		want        string
	}{
		{"since 4.16", corev1.SecretTypeDockercfg, newer, owner, "cart"},
		{"up to 4.15", corev1.SecretTypeDockercfg, older, nil, "cart"},
		{"of another type", corev1.SecretTypeDockerConfigJson, newer, owner, ""},
		{"without an owner", corev1.SecretTypeDockercfg, newer, nil, ""},
		{"a token's annotation alone", corev1.SecretTypeDockercfg, map[string]string{"kubernetes.io/service-account.name": "cart"}, nil, ""},
		{"somebody's", corev1.SecretTypeDockercfg, nil, nil, ""},
	} {
		secret := &corev1.Secret{ObjectMeta: named("shop", "cart-dockercfg-x7k2p"), Type: tt.kind}
		secret.Annotations, secret.OwnerReferences = tt.annotations, tt.owners
		if got := GeneratedFor(secret); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}
