package judge_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/changefile"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// TestCommandsAgree: whatever namespaces have image policies of their own, release, its evidence and check say of an image what explain says
// of it in these namespaces. What would be refused where today's image of that name runs is not ready; elsewhere, that is not known.
func TestCommandsAgree(t *testing.T) {
	s := newStage(t, 6)
	w := agreeing{stage: s, today: map[string]string{}}
	swapped := []string{}
	for a, b := range map[string]string{"cluster-version-operator": "component-003", "component-004": "component-005"} {
		w.today[a], w.today[b] = s.digestOf(b), s.digestOf(a)
		swapped = append(swapped, s.digestOf(a), s.digestOf(b), s.digestOf(b), s.digestOf(a))
	}
	s.Remake(t, testrelease.Archive(t, nil), swapped...)
	runs := []string{"sha256:" + strings.Repeat("a", 64), s.Digest}
	s.Remake(t, testrelease.Archive(t, nil))
	w.objects = []string{s.with(t, runs...)} // the release's own policy is for all of its images
	s.Remake(t, testrelease.Archive(t, nil), `", "`+s.Images+`"]`, `"]`)
	w.objects = append(w.objects, s.with(t, runs...)) // or for the release image alone, so that those of namespaces count
	said := map[readiness.State]int{}
	for seed := range uint64(campaign.Times(50, 2_000)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { said[w.holds(t, rand.New(rand.NewPCG(seed, 43)))]++ })
	}
	if len(said) < 3 {
		t.Errorf("not all answers came up: %v", said)
	}
}

// agreeing makes random worlds.
type agreeing struct {
	stage
	today   map[string]string // the digests of today's images, by name
	objects []string
}

var ownPolicies = []string{"openshift-ingress", "openshift-monitoring", "shop"}

// holds makes a world, and returns what is said of the release in it.
func (a agreeing) holds(t *testing.T, r *rand.Rand) readiness.State {
	a.sign(t, r)
	objects, pods := a.objects[r.IntN(2)], ""
	runs := map[string]bool{} // today, by name and namespace
	for _, namespace := range ownPolicies {
		if r.IntN(3) > 0 {
			objects += "---\n" + a.policy(r, namespace)
		}
		for _, name := range sortedKeys(a.today) {
			if r.IntN(4) == 0 {
				runs[name+" "+namespace] = true
				pods += "---\n" + pod(namespace, name, a.Images+"@"+a.today[name])
			}
		}
	}
	w := worldOf(t, objects+pods)
	said, err := judge.Release(t.Context(), w, find(t, w, testrelease.Version))
	if err != nil {
		t.Fatal(err)
	}
	coming, err := judge.Coming(t.Context(), w, said.Choice)
	if err != nil {
		t.Fatal(err)
	}
	now, err := w.Reviewer.Inventory.Mirrors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	explainer, err := review.NewExplainer(now, coming.Policies.Apply(now))
	if err != nil {
		t.Fatal(err)
	}
	want := ready
	for i := range said.Images {
		img, state := &said.Images[i], ready
		for _, namespace := range append([]string{""}, ownPolicies...) {
			inNone := namespace == "" || img.IsRelease || img.OS
			switch works := explain(t, w, *explainer, img.Ref, namespace); {
			case works, namespace != "" && inNone:
			case inNone, runs[img.Name+" "+namespace]:
				state, want = notReady, notReady
			case want == ready:
				want = unknown
			}
		}
		if img.State != state {
			t.Errorf("%s is %s, want %s\n%s", img.Title(), img.State, state, said.Answer().String())
		}
	}
	if said.State() != want {
		t.Errorf("the release is %s, want %s\n%s", said.State(), want, said.Answer().String())
	}
	a.changed(t, r, objects, said)
	return want
}

// sign has images signed by random keys.
func (a agreeing) sign(t *testing.T, r *rand.Rand) {
	a.Without()
	var unsigned []string
	for _, p := range a.Parts {
		if p.What != "signature" || p.Name == "release" {
			continue
		}
		path := p.Path[strings.LastIndex(p.Path, "/sha256-")+1:]
		digest := strings.TrimSuffix(strings.Replace(path, "-", ":", 1), ".sig")
		switch keys := [][]string{{"release"}, {"release"}, {"release", "house"}, {"release", "house"}, {"house"}, nil}[min(r.IntN(16), 5)]; {
		case len(keys) == 0 && r.IntN(3) == 0:
			unsigned = append(unsigned, p.Path)
		default:
			if err := a.Attach("openshift/release", a.Images, digest, keys...); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.Without(unsigned...)
}

func (a agreeing) policy(r *rand.Rand, namespace string) string {
	scopes := []string{a.Images, a.Images, "quay.io/openshift-release-dev", "quay.io", "quay.io/shop", a.Images + "@" + a.digestOf("component-004")}
	key := base64.StdEncoding.EncodeToString(signer.Key([]string{"release", "house"}[r.IntN(2)]).PEM())
	return object("config.openshift.io/v1", "ImagePolicy", "namespace: "+namespace+", name: own", `spec: {scopes: ["`+scopes[r.IntN(len(scopes))]+`"], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: `+key+"}}}}\n")
}

func pod(namespace, name, ref string) string {
	return object("v1", "Pod", "namespace: "+namespace+", name: "+name, "spec: {nodeName: b, containers: [{name: a, image: \""+ref+"\"}]}\n")
}

// explain says what explain -n does of an image, before and after a change: whether nodes get it, and accept its signatures.
func explain(t *testing.T, w judge.World, e review.Explainer, ref, namespace string) bool {
	e.Namespace, e.Facts = namespace, policy.Facts{}
	if errs := e.Add([]string{ref}); len(errs) > 0 {
		t.Fatal(errs)
	}
	for next := e.Lookups(); len(next) > 0; next = e.Lookups() {
		found := w.Reviewer.Registries.Presence(t.Context(), next, policy.Freshness{})
		for _, l := range next {
			e.Facts[l] = found.At(l)
		}
	}
	return works(e.Images[0].Before, e.Facts) && works(e.Images[0].After, e.Facts)
}

// works reports whether nodes get an image by a route, and accept its signatures.
func works(route mirrors.Route, facts policy.Facts) bool {
	at, _, ok := evidence.Served(route, facts)
	return ok && !slices.ContainsFunc(route.Sources, func(s mirrors.PullSource) bool {
		return s.Location == at && slices.ContainsFunc(evidence.SignaturesAt(s, facts), func(f evidence.SignatureFinding) bool { return f.State != "accepted" && f.State != "not required" })
	})
}

// changed has check judge a change after which pods of random namespaces pull the images.
func (a agreeing) changed(t *testing.T, r *rand.Rand, objects string, said *readiness.Readiness) {
	const real, other = "/openshift/release\"]", "/other\"]"
	var mirrorSet string
	for _, o := range strings.Split(objects, "---\n") {
		if strings.Contains(o, "kind: ImageDigestMirrorSet\n") {
			mirrorSet = o
		}
	}
	objects = strings.Replace(objects, real, other, 1)
	in := map[string]string{}
	for _, img := range said.Images {
		if !img.IsRelease {
			in[img.Ref] = append([]string{"openshift-etcd"}, ownPolicies...)[r.IntN(4)]
			objects += "---\n" + pod(in[img.Ref], "next-"+img.Name, img.Ref)
		}
	}
	w := worldOf(t, objects)
	var reader changefile.Reader
	reader.Read("mirrors.yaml", strings.NewReader(mirrorSet))
	edit, err := reader.Edit()
	if err != nil {
		t.Fatal(err)
	}
	record, err := w.Reviewer.Review(t.Context(), edit, settings.Requester{})
	if err != nil {
		t.Fatal(err)
	}
	explainer, err := review.NewExplainer(record.Change.After, record.Change.After)
	if err != nil {
		t.Fatal(err)
	}
	var judged []string
	for _, reroute := range record.Plan.Reroutes {
		ref := reroute.Image.Ref
		if namespace := in[ref]; namespace != "" && !slices.Contains(judged, ref) {
			result := record.Verdict.Results[len(judged)]
			judged = append(judged, ref)
			if works := explain(t, w, *explainer, ref, namespace); works != (result == policy.ResultVerified) {
				t.Errorf("check says of %s: %s; explain -n %s that it works: %t", ref, result, namespace, works)
			}
		}
	}
	if len(judged) != len(in) {
		t.Errorf("%d of %d images were judged", len(judged), len(in))
	}
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
