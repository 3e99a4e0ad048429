package healing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	ggcrtypes "github.com/google/go-containerregistry/pkg/v1/types"
	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// TestHeals: what a mirror lost is copied back by its digest, with nothing but manifests where the layers are there
// still, under no tag; and it is said.
func TestHeals(t *testing.T) {
	s := newStage(t, 5)
	h := s.process(t)
	h.round(t)
	if requests, _, _ := s.mirror.counts(); requests != 0 {
		t.Errorf("%d requests while nothing is lost", requests)
	}
	s.remove(t, "app001", "app003")
	h.round(t)
	for _, app := range apps(s.digests) {
		if !s.has(t, app) {
			t.Errorf("the mirror lacks %s", app)
		}
	}
	if tags := s.tags(t, "app001"); len(tags) != 0 {
		t.Errorf("tags were created: %v", tags)
	}
	if tags := s.tags(t, "app000"); !slices.Equal(tags, []string{"v1"}) {
		t.Errorf("another image has tags %v", tags)
	}
	_, bytes, puts := s.mirror.counts()
	requests, sourceBytes, sourcePuts := s.source.counts()
	if len(puts) != 2 || len(sourcePuts) != 0 || sourceBytes != 0 || requests == 0 {
		t.Errorf("manifests put: %v at the mirror, %v at the source", puts, sourcePuts)
	}
	if counted := h.value(t, "mirrorset_guard_heal_sent_bytes_total", ""); counted != float64(bytes) {
		t.Errorf("%v bytes were counted, the mirror got %d", counted, bytes)
	}
	ref := func(app string) string { return s.mirror.host + "/shop/" + app + "@" + s.digests[app] }
	wantEvents(t, s, "ImageDigestMirrorSet shop MirrorHealed: 2 images copied back, 0 bytes of layers sent: "+ref("app001")+" from "+
		s.source.host+"/shop/app001@"+s.digests["app001"]+". Also "+ref("app003"))
	if len(s.records) != 2 || s.records[0].Result != Copied || s.records[0].To != ref("app001") || s.records[0].Digest != s.digests["app001"] ||
		!slices.Equal(s.records[0].MirrorSets, []string{"ImageDigestMirrorSet shop"}) || s.records[0].Rule != "ImageMissing" {
		t.Errorf("recorded %+v", s.records)
	}
	h.round(t)
	wantEvents(t, s)
	if got := h.value(t, "mirrorset_guard_heal_images_total", Copied); got != 2 {
		t.Errorf("%v images copied, want 2", got)
	}
}

// TestLeavesAlone: what is not to be copied back is named, and no request is made for it.
func TestLeavesAlone(t *testing.T) {
	for _, tt := range []struct {
		reason string
		before func(*testing.T, *stage) // the process begins
		after  func(*testing.T, *stage, *healer)
		why    reason
		says   string
		asks   bool
	}{
		{"it is off", func(_ *testing.T, s *stage) { s.settings.Enabled = false }, nil, "", "", false},
		{"it is switched off while the guard runs", nil, func(_ *testing.T, _ *stage, h *healer) { h.Configure(Settings{}) }, "", "", false},
		{"a mirror that never had it", func(t *testing.T, s *stage) { s.remove(t, "app000") }, nil, unseen, "it has not been seen there since this replica began; mirrorset-guard sync copies what a mirror never had", false},
		{
			"nodes may not use the source", func(_ *testing.T, s *stage) {
				s.set.Objects[0].(*configv1.ImageDigestMirrorSet).Spec.ImageDigestMirrors[0].MirrorSourcePolicy = configv1.NeverContactSource
			}, nil, noOrigin, "no other place that nodes may pull it from has it", false,
		},
		{"a tag", func(_ *testing.T, s *stage) {
			set := &configv1.ImageTagMirrorSet{}
			set.Name = "tags"
			d := s.set.Objects[0].(*configv1.ImageDigestMirrorSet).Spec.ImageDigestMirrors[0]
			set.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: d.Source, Mirrors: d.Mirrors}}
			s.set.Objects[0] = set
			s.images[0].Ref = s.source.host + "/shop/app000:v1"
		}, nil, byTag, "it is pulled by tag, and tags are neither moved nor created", false},
		{"a Secret that cannot be read", func(_ *testing.T, s *stage) { s.secretErr = errors.New("Secret guard/push: forbidden") }, nil, unusable, "Secret guard/push: forbidden", false},
		{"a state of a later version", nil, func(t *testing.T, s *stage, h *healer) {
			lease := h.options.Lease.empty()
			lease.Annotations = map[string]string{annotation: `{"version":1,"resting":{}}`}
			_, err := s.kube.CoordinationV1().Leases("guard").Create(t.Context(), lease, metav1.CreateOptions{})
			must(t, err)
		}, unusable, "", false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := newStage(t, 1)
			if tt.before != nil {
				tt.before(t, s)
			}
			h := s.process(t)
			if tt.after != nil {
				tt.after(t, s, h)
			}
			if tt.why != unseen {
				s.remove(t, "app000")
			}
			for range 3 {
				h.round(t)
			}
			requests, bytes, puts := s.mirror.counts()
			if bytes != 0 || len(puts) != 0 || (requests > 0) != tt.asks {
				t.Errorf("%d requests, %d bytes, manifests put: %v", requests, bytes, puts)
			}
			if tt.says == "" {
				wantEvents(t, s)
			} else {
				wantEvents(t, s, "MirrorNotHealed: 1 image lost and not copied back: "+s.images[0].Ref+": "+tt.says)
			}
			if tt.why != "" && h.value(t, "mirrorset_guard_heal_waiting_images", string(tt.why)) != 1 {
				t.Errorf("the metric does not say %s", tt.why)
			}
		})
	}
}

// TestLostLayer: a layer of a part of an index is copied back, though all manifests are there.
func TestLostLayer(t *testing.T) {
	s := newStage(t, 2)
	s.judged.Blobs = policy.BlobsOfAll
	index, err := registries.Index("app001")
	must(t, err)
	list, err := index.IndexManifest()
	must(t, err)
	part, err := index.Image(list.Manifests[1].Digest)
	must(t, err)
	m, err := part.Manifest()
	must(t, err)
	at := "http://" + s.mirror.host + "/v2/shop/app001/blobs/" + m.Layers[0].Digest.String()
	ask := func(method string) (status int) {
		s.mirror.quietly(func() {
			req, err := http.NewRequestWithContext(t.Context(), method, at, nil)
			must(t, err)
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			must(t, resp.Body.Close())
			status = resp.StatusCode
		})
		return status
	}
	if status := ask(http.MethodDelete); status != http.StatusAccepted {
		t.Fatalf("the mirror answers %d to the deletion of a layer", status)
	}
	h := s.process(t) // which sees the image there, and has not asked for its layers before
	h.round(t)
	if status := ask(http.MethodHead); status != http.StatusOK {
		t.Errorf("the mirror answers %d to who asks for the layer", status)
	}
	wantEvents(t, s, fmt.Sprintf("MirrorHealed: 1 image copied back, %d bytes of layers sent", m.Layers[0].Size))
	h.round(t)
	wantEvents(t, s)
}

// TestOtherNamespaceRequiresSignatures: an image that the pods of one namespace may pull as it is does not go to the mirror without the
// signatures that those of another need: they would stop there, and get it from the source as long as the mirror lacks it.
func TestOtherNamespaceRequiresSignatures(t *testing.T) {
	s := newStage(t, 1)
	s.judged.Blobs = policy.BlobsOfAll
	s.images[0].Consumers = append(s.images[0].Consumers, policy.Consumer{Kind: "Deployment", Namespace: "zoo", Name: "app000", Container: "app"})
	own := &configv1.ImagePolicy{}
	own.Namespace, own.Name, own.Spec.Scopes = "zoo", "own", []configv1.ImageScope{configv1.ImageScope(s.source.host + "/shop")}
	own.Spec.Policy.RootOfTrust = configv1.PolicyRootOfTrust{PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: signer.Key("release").PEM()}}
	s.set.Policies = []mirrors.Object{own}
	for _, at := range []*server{s.source, s.mirror} {
		s.sign(t, at, "app000")
	}
	h := s.process(t)
	tags := s.tags(t, "app000")
	s.remove(t, "app000")
	s.mirror.quietly(func() {
		for _, tag := range tags {
			if strings.HasSuffix(tag, ".sig") {
				signed, err := remote.Head(s.tag(t, s.mirror, "app000").Context().Tag(tag))
				must(t, err)
				must(t, remote.Delete(s.tag(t, s.mirror, "app000").Context().Digest(signed.Digest.String())))
			}
		}
	})
	if lost := h.lost(t); len(lost) != 2 {
		t.Fatalf("%d losses, want one for each namespace", len(lost))
	}
	h.round(t)
	if s.has(t, "app000") {
		t.Error("it was copied without its signatures")
	}
	wantEvents(t, s, "nodes require signatures of it, and the mirror lacks the tag sha256-")
}

// TestStopsAtSecondLoss: whatever is deleted when, and whenever the process ends, a registry gets no image twice
// until a person lets it go on; and what it lost for the first time before that, it gets.
func TestStopsAtSecondLoss(t *testing.T) {
	s := newStage(t, 6)
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 2))
		err := s.kube.CoordinationV1().Leases("guard").Delete(t.Context(), LeaseName, metav1.DeleteOptions{})
		if err != nil && seed > 0 {
			t.Fatal(err)
		}
		h := s.process(t)
		s.events()
		lost := map[string]int{}
		stoppedBy := ""
		_, _, before := s.mirror.counts()
		for range 12 {
			app := fmt.Sprintf("app%03d", r.IntN(6))
			if s.has(t, app) {
				s.remove(t, app)
				if lost[app]++; lost[app] == 2 {
					stoppedBy = app
				}
			}
			if r.IntN(4) == 0 { // another replica is the leader, which has seen what was there
				held := h.held
				h = s.process(t)
				h.held = held
			}
			h.round(t)
			h.round(t) // which confirms what the first has found
			if stoppedBy != "" {
				break
			}
			if !s.has(t, app) {
				t.Fatalf("seed %d: the mirror lacks %s, which it lost once", seed, app)
			}
		}
		if stoppedBy == "" {
			t.Fatalf("seed %d: nothing was lost twice", seed)
		}
		h.round(t)
		_, _, puts := s.mirror.counts()
		if got := len(puts) - len(before); got != len(lost) {
			t.Errorf("seed %d: %d manifests put for %d images that were lost", seed, got, len(lost))
		}
		if h.value(t, "mirrorset_guard_heal_stopped_registries", "") != 1 || h.value(t, "mirrorset_guard_heal_waiting_images", string(stopped)) != 1 {
			t.Errorf("seed %d: the metrics do not say that it was stopped", seed)
		}
		events := s.events()
		stops := slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "MirrorHealStopped") })
		if len(stops) != 1 || !strings.Contains(stops[0], s.mirror.host+" has lost "+s.mirror.host+"/shop/"+stoppedBy+"@") ||
			!strings.HasSuffix(stops[0], "oc annotate lease -n guard mirrorset-guard-heal mirrorset-guard.io/resume-heal="+s.mirror.host) {
			t.Fatalf("seed %d: told %q", seed, stops)
		}
		h = s.process(t) // which knows nothing but the state
		h.held[idOf(mirrors.Location{Ref: s.mirror.host + "/shop/" + stoppedBy + "@" + s.digests[stoppedBy]})] = struct{}{}
		h.round(t)
		if s.has(t, stoppedBy) {
			t.Errorf("seed %d: another process copied it", seed)
		}
		s.annotate(t, s.mirror.host)
		h.round(t)
		if !s.has(t, stoppedBy) {
			t.Errorf("seed %d: it was resumed, and %s was not copied", seed, stoppedBy)
		}
	}
}

// TestRefusals: what is in the way is said in the registry's words, once, and the registry is not asked again at
// once.
func TestRefusals(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	for _, tt := range []struct {
		reason string
		before func(http.ResponseWriter, *http.Request) bool
		says   string
	}{
		{"read-only", answer(405, `{"errors":[{"code":"UNSUPPORTED","message":"the registry is read-only"}]}`), `answers 405 Method Not Allowed, saying "the registry is read-only"`},
		{"full", answer(412, `{"errors":[{"message":"quota of project shop is exceeded"}]}`), `quota of project shop is exceeded`},
		{"denied", answer(403, `{"errors":[{"code":"DENIED","message":"robot may not push"}]}`), `answers 403, and there are no credentials to push to it with, saying "robot may not push"`},
		{"unknown", answer(401, ``), "answers 401, and there are no credentials to push to it with"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := newStage(t, 2)
			h := s.process(t)
			s.mirror.set(tt.before)
			s.remove(t, "app000", "app001")
			h.round(t)
			asked, _, _ := s.mirror.counts()
			h.round(t)
			if again, _, _ := s.mirror.counts(); again != asked {
				t.Errorf("asked %d times more at once", again-asked)
			}
			wantEvents(t, s, tt.says)
			if len(s.records) != 2 || s.records[0].Result != Failed || !strings.Contains(s.records[0].Reason, tt.says) {
				t.Errorf("recorded %+v", s.records)
			}
			if h.value(t, "mirrorset_guard_heal_waiting_images", string(failed)) != 2 {
				t.Error("the metric does not say that it failed")
			}
			h.aMinuteLater()
			s.mirror.set(nil)
			h.round(t)
			if !s.has(t, "app000") || !s.has(t, "app001") {
				t.Error("it is not copied once the mirror takes it")
			}
		})
	}
}

// TestLiar: a registry that says that it took an image, and does not have it, gets it once.
func TestLiar(t *testing.T) {
	s := newStage(t, 2)
	h := s.process(t)
	s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.WriteHeader(http.StatusCreated)
		return true
	})
	s.remove(t, "app000")
	for range 6 {
		h.round(t)
	}
	if _, _, puts := s.mirror.counts(); len(puts) != 1 {
		t.Errorf("manifests put: %v", puts)
	}
	wantEvents(t, s, "MirrorHealed: 1 image copied back", "MirrorHealStopped: "+s.mirror.host+" has lost "+s.mirror.host+"/shop/app000@")
}

// TestBudgetAtTheRegistry: neither registry ever gets more than the budget, over processes that end and
// whatever fails on the way.
func TestBudgetAtTheRegistry(t *testing.T) {
	const layer = 20_000
	for _, limit := range []Limit{{Bytes: 5*layer + 20_000, Requests: 100_000}, {Bytes: 1 << 30, Requests: 100}, {Bytes: layer / 2, Requests: 100_000}} {
		s := newStage(t, 0)
		s.settings.Limit = limit
		for i := range 12 {
			app := fmt.Sprintf("big%02d", i)
			img, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(strings.Repeat(app+"!", layer/6)), ggcrtypes.DockerLayer))
			must(t, err)
			digest, err := img.Digest()
			must(t, err)
			s.digests[app] = digest.String()
			s.source.quietly(func() { must(t, remote.Write(s.tag(t, s.source, app), img)) })
			s.images = append(s.images, policy.Image{Ref: s.source.host + "/shop/" + app + "@" + digest.String(), Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: app}}})
		}
		var n, failed atomic.Int64
		s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool { // now and then the mirror fails when all was sent
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/uploads/") && n.Add(1)%3 == 0 {
				failed.Add(1)
				buffer := make([]byte, 2*layer)
				for {
					if _, err := r.Body.Read(buffer); err != nil {
						break
					}
				}
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		})
		for range 5 {
			h := s.process(t)
			plan, _ := s.look(t)
			for k := range plan.Reroutes {
				for _, l := range plan.Reroutes[k].After.Mirrors() {
					h.held[idOf(l)] = struct{}{} // it had all of them, and lost its blobs too
				}
			}
			h.round(t)
		}
		requests, bytes, _ := s.mirror.counts()
		more, _, _ := s.source.counts()
		if requests+more > limit.Requests || bytes > limit.Bytes {
			t.Errorf("%d requests and %d bytes, the budget is %+v", requests+more, bytes, limit)
		}
		if requests+more < limit.Requests/2 && bytes < limit.Bytes/3 && limit.Bytes > layer {
			t.Errorf("%d requests and %d bytes: the budget %+v is hardly used", requests+more, bytes, limit)
		}
		if (failed.Load() > 0) != (limit.Bytes > layer) {
			t.Errorf("the mirror failed %d times, with the budget %+v", failed.Load(), limit)
		}
		told := strings.Join(s.events(), "\n")
		if limit.Bytes < layer && (bytes != 0 || !strings.Contains(told, "bytes would have to be sent for it, and the budget for an hour has 10000")) {
			t.Errorf("an image that no budget of an hour is enough for: %d bytes sent, told %s", bytes, told)
		}
	}
}

// TestSmallBudget: a budget that is spent before it is known what to send for all of what is lost is not spent on the same again hour by hour,
// and an image that no hour is enough for keeps no other from being copied back, and is named.
func TestSmallBudget(t *testing.T) {
	s := newStage(t, 0)
	s.settings.Limit.Requests = 64
	for i := range 8 {
		layers := 10
		if i == 0 {
			layers = 80
		}
		app := fmt.Sprintf("app%03d", i)
		img := empty.Image
		for l := range layers {
			var err error
			img, err = mutate.AppendLayers(img, static.NewLayer([]byte(fmt.Sprintf("layer %d of %s", l, app)), ggcrtypes.DockerLayer))
			must(t, err)
		}
		digest, err := img.Digest()
		must(t, err)
		s.digests[app] = digest.String()
		for _, at := range []*server{s.source, s.mirror} {
			at.quietly(func() { must(t, remote.Write(s.tag(t, at, app), img)) })
		}
		s.images = append(s.images, policy.Image{Ref: s.source.host + "/shop/" + app + "@" + digest.String(), Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: app}}})
	}
	s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool { // another is in nobody's way either
		refused := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/app001/manifests/")
		if refused {
			w.WriteHeader(http.StatusBadRequest)
		}
		return refused
	})
	h := s.process(t)
	s.remove(t, apps(s.digests)...)
	var told []string
	for hour := 1; ; hour++ {
		began, _, _ := s.mirror.counts()
		more, _, _ := s.source.counts()
		h.aMinuteLater()
		h.round(t)
		h.round(t)
		requests, _, _ := s.mirror.counts()
		others, _, _ := s.source.counts()
		if spent := requests + others - began - more; spent > 64 {
			t.Errorf("%d requests in hour %d", spent, hour)
		}
		told = append(told, s.events()...)
		stuck := func(l policy.Standing) bool {
			return strings.Contains(l.Image.Ref, "/app000@") || strings.Contains(l.Image.Ref, "/app001@")
		}
		lost := h.lost(t)
		if len(lost) == 2 && stuck(lost[0]) && stuck(lost[1]) && strings.Contains(strings.Join(told, "\n"), "requests were not enough for it, and the budget for an hour has 64") {
			return
		} else if hour == 16 {
			t.Fatalf("%d images are lost after %d hours, told\n%s", len(lost), hour, strings.Join(told, "\n"))
		}
		h.own.spent = nil // as when an hour has passed
		_, err := h.update(t.Context(), func(s *state) error { s.Spent = nil; return nil })
		must(t, err)
	}
}

// TestLeaseIsDeleted: whoever deletes the state gives the process that runs no new budget.
func TestLeaseIsDeleted(t *testing.T) {
	s := newStage(t, 1)
	h := s.process(t)
	s.remove(t, "app000")
	h.round(t)
	used := h.value(t, "mirrorset_guard_heal_budget_used_ratio", "requests")
	must(t, s.kube.CoordinationV1().Leases("guard").Delete(t.Context(), LeaseName, metav1.DeleteOptions{}))
	h.round(t)
	if again := h.value(t, "mirrorset_guard_heal_budget_used_ratio", "requests"); used <= 0 || again < used {
		t.Errorf("%v was used, and %v is when the Lease was deleted", used, again)
	}
	lease, err := s.kube.CoordinationV1().Leases("guard").Get(t.Context(), LeaseName, metav1.GetOptions{})
	must(t, err)
	var written state
	must(t, json.Unmarshal([]byte(lease.Annotations[annotation]), &written))
	if written.healed() != 1 {
		t.Errorf("the Lease has %s", lease.Annotations[annotation])
	}
}

// TestResumedMeanwhile: what a person resumes while another registry is given images is told, and the registry begins anew.
func TestResumedMeanwhile(t *testing.T) {
	const other = "other.example.com"
	s := newStage(t, 1)
	s.settings.Limit.Requests = 4 * shares // so that the state is written again and again
	h := s.process(t)
	_, _, err := h.options.Lease.update(t.Context(), func(s *state) error {
		s.stop(other, stop{At: time.Now(), Place: other + "/x"})
		return nil
	})
	must(t, err)
	h.work.fails(other, failed, time.Now())
	s.mirror.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead || r.Method == http.MethodGet {
			s.resumed.Do(func() { s.annotate(t, other) })
		}
		return false
	})
	s.remove(t, "app000")
	h.round(t)
	if !s.has(t, "app000") {
		t.Error("the mirror lacks what it lost")
	}
	if !slices.ContainsFunc(s.records, func(d auditv1alpha1.Healing) bool { return d.Result == Resumed && d.Registry == other }) {
		t.Errorf("recorded %+v, want that %s was resumed", s.records, other)
	}
	if _, rests := h.work.rests[other]; rests {
		t.Error("it rests")
	}
	lease, err := s.kube.CoordinationV1().Leases("guard").Get(t.Context(), LeaseName, metav1.GetOptions{})
	must(t, err)
	if _, asked := lease.Annotations[ResumeAnnotation]; asked || strings.Contains(lease.Annotations[annotation], other) {
		t.Errorf("the Lease has %v", lease.Annotations)
	}
}

// TestRests: each rest is twice the one before, up to an hour.
func TestRests(t *testing.T) {
	w, now := newWork(), time.Unix(0, 0)
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		w.fails("mirror", failed, now)
		if got := w.restOf("mirror", "mirror/x").until.Sub(now); got != want {
			t.Errorf("a rest of %s, want %s", got, want)
		}
	}
	for range 100 {
		w.fails("mirror", failed, now)
	}
	if got := w.restOf("mirror", "mirror/x").until.Sub(now); got != maxRest {
		t.Errorf("a rest of %s after many, want %s", got, maxRest)
	}
}
