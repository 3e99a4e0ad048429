package judge_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

const (
	unknown  = readiness.Unknown
	notReady = readiness.NotReady
	ready    = readiness.Ready
	// failed stands for no verdict, but an error.
	failed = readiness.State(-1)
)

const masterPool = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: master}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: master}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/master: ""}}
`

// object is one with a spec, a status or data.
func object(apiVersion, kind, metadata, more string) string {
	return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {" + metadata + "}\n" + more
}

// TestJudge: what is said of a release, and why, by what is missing, refused or not known.
func TestJudge(t *testing.T) {
	s := newStage(t, 5)
	before, was := s.with(t), s.Digest
	s.Remake(t, testrelease.Archive(t, nil), "apiVersion: config.openshift.io/v1\n", `{apiVersion: image.openshift.io/v1, kind: ImageStream, metadata: {name: cli, namespace: openshift}, spec: {tags: [{from: {kind: DockerImage, name: "quay.io/cli"}}]}}`+"\n---\napiVersion: config.openshift.io/v1\n")
	_, key, _ := strings.Cut(before, "verifier-public-key-redhat: |\n")
	key, _, _ = strings.Cut(key, "\n---\n")
	signature := strings.ReplaceAll(s.Digest, ":", "-") + "-1: "
	offered := "  - {version: " + testrelease.Version + `, image: "` + s.Releases + "@" + s.Digest + "\"}\n"
	conditional := []string{offered, "", "release: {version: 4.21.4,", "release: {version: " + testrelease.Version + ","}
	tag := s.Mirror + "/mirrored/elsewhere:4.21.3"
	if err := s.Copy(tag); err != nil {
		t.Fatal(err)
	}
	plain := s.pushPlain(t)
	nodes := slices.DeleteFunc(strings.Split(s.with(t), "---\n"), func(d string) bool { return strings.Contains(d, "\nkind: Node\n") })
	contradiction := object("config.openshift.io/v1", "ImageTagMirrorSet", "name: contradicts", "spec: {imageTagMirrors: [{source: "+testrelease.Source+", mirrors: ["+s.Mirror+"/openshift/release-images], mirrorSourcePolicy: AllowContactingSource}]}")
	ingress := object("config.openshift.io/v1", "ImagePolicy", "namespace: openshift-ingress, name: house", `spec: {scopes: ["`+s.Images+`"], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: `+base64.StdEncoding.EncodeToString(signer.Key("house").PEM())+"}}}}")
	same := []string{"sha256:" + strings.Repeat("a", 64), s.Digest} // runs today
	for _, tt := range []struct {
		reason, objects, asked string
		gone                   []string // ends of paths
		state                  readiness.State
		says                   []string
		not                    string
	}{
		{"all is there", s.with(t), "", nil, ready, []string{"READY: Release 4.21.3 (" + s.Releases + "@" + s.Digest, "6 of 6 images can be pulled by all nodes that need them."}, ""},
		{"given by reference", s.with(t), s.Releases + "@" + s.Digest, nil, ready, []string{"Found: given by reference"}, "risk of this update"},
		{"by a tag", s.with(t), tag, nil, ready, []string{"the tag " + tag + " stands for " + s.Digest, "ClusterVersion offers this release as " + s.Releases + "@" + s.Digest}, ""},
		{"by a tag that is not there", s.with(t), s.Mirror + "/openshift/release-images:4.21.3", nil, failed, []string{"it could not be found out which digest the tag stands for"}, ""},
		{"no release image", s.with(t), plain, nil, failed, []string{"it is no release image: its layer sha256:"}, ""},
		{"the image of another version", s.with(t), "4.21.4", nil, failed, []string{"says that it is 4.21.3, not 4.21.4"}, ""},
		{"a hosted control plane", s.with(t, "", object("config.openshift.io/v1", "Infrastructure", "name: cluster", "status: {controlPlaneTopology: External, infrastructureTopology: HighlyAvailable}")), "", nil, failed, []string{"the control plane is hosted elsewhere: HostedCluster and NodePool"}, ""},
		{"offered under a condition", s.with(t, conditional...), "", nil, ready, []string{"- whether a risk of this update applies to the cluster: SlowBoot: "}, ""},
		{"that condition, by reference", s.with(t, conditional...), s.Releases + "@" + s.Digest, nil, ready, []string{"- whether a risk of this update applies to the cluster: SlowBoot: "}, ""},

		{"the system of a pool is missing", s.with(t), "", []string{s.PartOf("rhel-coreos-extensions", "image").Path}, notReady, []string{"5 of 6 images can be pulled by all nodes that need them, 1 cannot.", "last   rhel-coreos-extensions  NOT READY", "(for the nodes of worker)\n"}, ""},
		{"of two pools", s.with(t, "", masterPool), "", []string{s.PartOf("rhel-coreos", "image").Path}, notReady, []string{"(for the nodes of master, worker)\n"}, ""},
		{"a signature that the release's policy asks for", s.with(t), "", []string{s.PartOf("cluster-version-operator", "signature").Path}, notReady, []string{"SignatureMissing", "required by ClusterImagePolicy openshift"}, ""},
		{"a policy of a namespace", s.with(t, "", ingress), "", nil, unknown, []string{"- which of them run there today is not known: " + s.Releases + "@sha256:aaaa"}, ""},
		{"one, and nothing of it runs there", s.with(t, append(same, "", ingress)...), "", nil, unknown, []string{"UNKNOWN: nodes may refuse 3 images of the release in namespace openshift-ingress, which has an image policy of its own, and whether they are to run there is not known\n- cluster-version-operator, component-003, component-004\n- cluster-version-operator: nodes would reject it", "- required by ImagePolicy openshift-ingress/house, scope " + s.Images}, ""},
		{"one, where today's image of that name runs", s.with(t, append(same, "", ingress, "", pod("openshift-ingress", "router", s.Images+"@"+s.digestOf("component-004")))...), "", nil, notReady, []string{"-      component-004  NOT READY  nodes would reject it for its signatures where they would pull it: in namespace openshift-ingress, where it runs today\n", "nodes may refuse 2 images of the release"}, ""},
		{"the payload", s.with(t), "", []string{s.PartOf("release", "layer").Path}, notReady, []string{"Which images it consists of is not known, as its release image could not be read.", "first  (release image)  NOT READY"}, ""},
		{"the mirror is down", s.with(t, s.Mirror, "127.0.0.1:1"), "", nil, unknown, []string{"first  (release image)  UNKNOWN"}, ""},

		{"no node", strings.Join(nodes, "---\n"), "", nil, unknown, []string{"UNKNOWN: no node is known, so that it is not certain for which platforms, and by which configuration, images are pulled\n- a dump needs the Nodes"}, ""},
		{"a node does not say its platform", s.with(t, "{operatingSystem: linux, architecture: amd64, machineID: b,", "{machineID: b,"), "", nil, unknown, []string{"UNKNOWN: a node does not say its platform"}, ""},
		{"nodes could not be read again", s.with(t, "", `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"unread":[{"source":"nodes","kind":"Node","detail":"out of reach for 5m"}]}`), "", nil, unknown, []string{"UNKNOWN: it is not known by which configuration some nodes pull\n- Node out of reach for 5m"}, ""},
		{"MCO is stuck", s.with(t, "", contradiction), "", nil, unknown, []string{"UNKNOWN: MCO rejects the configuration in force, so that it is not certain what nodes have\n- "}, ""},
		{"MCO would get stuck", s.with(t, "registrySources: {", "registrySources: {blockedRegistries: ["+s.Images+"], "), "", nil, notReady, []string{"MCO would reject the configuration once the release has brought its image policies"}, ""},
		{"what nodes of a pool have was not read", s.with(t, "  machineConfigSelector", "  configuration: {name: rendered-worker-b}\n  machineConfigSelector", "name: b, labels", "name: b, annotations: {machineconfiguration.openshift.io/currentConfig: rendered-worker-a}, labels"), "", nil, unknown, []string{"UNKNOWN: it is not known by which configuration some nodes pull"}, ""},
		{"an import is not allowed", s.with(t, "registrySources", "allowedRegistriesForImport: [{domainName: other.example.com}], registrySources"), "", nil, notReady, []string{"leaves out the registries of 1 ImageStream", "- openshift/cli: quay.io/cli"}, ""},

		{"no signature", s.with(t, signature, "sha256-cccc-1: "), "", nil, notReady, []string{"GPG signature: NOT READY: no ConfigMap of openshift-config-managed with label release.openshift.io/verification-signatures has a signature of " + s.Digest}, ""},
		{"one without a number", s.with(t, signature, strings.TrimSuffix(signature, "-1: ")+": "), "", nil, notReady, []string{"has a signature of " + s.Digest}, ""},
		{"in a ConfigMap without the label", s.with(t, `name: mirrored-release-signatures, labels: {release.openshift.io/verification-signatures: ""}`, "name: another"), "", nil, notReady, []string{"has a signature of " + s.Digest}, ""},
		{"half a signature", s.Objects(s.Signed[:len(s.Signed)/2]), "", nil, notReady, []string{"no ConfigMap has a signature of " + s.Digest + " that CVO accepts"}, ""},
		{"all but its end", s.Objects(s.Signed[:len(s.Signed)-1]), "", nil, notReady, []string{"that CVO accepts"}, ""},
		{"the signature of another release", strings.ReplaceAll(before, was[len("sha256:"):], s.Digest[len("sha256:"):]), "", nil, notReady, []string{"what is signed is " + was}, ""},
		{"altered", s.Objects(bytes.Replace(s.Signed, []byte(testrelease.Version), []byte("4.21.9"), 1)), "", nil, notReady, []string{"its signature is wrong"}, ""},
		{"by one of two keys", s.with(t, "  verifier-public-key-redhat", "  verifier-public-key-house: |\n"+key+"\n  verifier-public-key-redhat"), "", nil, notReady, []string{"accepted, and CVO wants another"}, ""},
		{"no signature, and not all were read", s.with(t, signature, "sha256-cccc-1: ", "", `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"signaturesUnread":"more ConfigMaps have signatures\nthan are read"}`), "", nil, unknown, []string{"GPG signature: UNKNOWN: whether a ConfigMap has a signature of " + s.Digest + " is not known\n- more ConfigMaps have signatures than are read\n"}, ""},
		{"no keys", s.with(t, "name: release-verification", "name: another"), "", nil, unknown, []string{"GPG signature: UNKNOWN: there is a signature, and no key to verify it with", "ConfigMap openshift-config-managed/release-verification, which has the keys, was not found"}, ""},
		{"keys under another name", s.with(t, "verifier-public-key-redhat", "another-key"), "", nil, unknown, []string{"ConfigMap openshift-config-managed/release-verification has no key"}, ""},
		{"neither keys nor a signature", s.with(t, signature, "sha256-cccc-1: ", "name: release-verification", "name: another"), "", nil, unknown, []string{"GPG signature: UNKNOWN: no ConfigMap of "}, ""},
		{"CVO is told not to verify", s.with(t, signature, "sha256-cccc-1: ", "channel: stable-4.20}", `channel: stable-4.20, desiredUpdate: {image: "`+s.Releases+"@"+s.Digest+`", force: true}}`), target.Desired, nil, ready, []string{"spec.desiredUpdate.force is set: CVO does not verify the release"}, ""},
		{"a store that was not asked", s.with(t, signature, "sha256-cccc-1: ", "verifier-public-key-redhat", "store-official: https://user:canary@store.example.com/signatures\n  verifier-public-key-redhat"), "", nil, unknown, []string{"CVO would then ask https://***@store.example.com/signatures, which is not done from here"}, "canary"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s.Without(tt.gone...)
			w := worldOf(t, tt.objects)
			if tt.asked == "" {
				tt.asked = testrelease.Version
			}
			var said string
			r, err := judge.Release(t.Context(), w, find(t, w, tt.asked))
			state := failed
			if err != nil {
				said = err.Error()
			} else {
				said, state = r.Answer().String()+strings.Join(r.Notes, "\n"), r.State()
			}
			if state != tt.state {
				t.Errorf("got %d, want %d", state, tt.state)
			}
			for _, want := range tt.says {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in\n%s", want, said)
				}
			}
			if tt.not != "" && strings.Contains(said, tt.not) {
				t.Errorf("%q in\n%s", tt.not, said)
			}
		})
	}
}

// pushPlain pushes an image that is no release image, and returns its reference.
func (s stage) pushPlain(t *testing.T) string {
	t.Helper()
	plain, err := testregistries.Image("plain")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := plain.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "openshift/release", plain)
	if err := s.Attach("openshift/release", s.Images, hash.String()); err != nil {
		t.Fatal(err)
	}
	return s.Images + "@" + hash.String()
}

// TestJudgeFIPS: OpenPGP names keys by SHA-1, which must not end a judgement where all that FIPS 140-3 does not approve fails. The mode is that
// of a process, so TestJudge is started again.
func TestJudgeFIPS(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJudge$", "-test.v")
	child.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestJudge ")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLacksOne: without any one of its parts a release is not ready, and the image alone whose part it is is named. Nothing is asked that no
// node asks.
func TestLacksOne(t *testing.T) {
	images := campaign.Times(6, 190)
	s := newStage(t, images)
	objects := s.with(t)
	if r := judgeOf(t, objects); r.State() != ready || r.Count(ready) != images+1 {
		t.Fatal(r.Answer().String())
	}
	for _, asked := range s.Requests() {
		if !strings.HasPrefix(asked, "GET ") && !strings.HasPrefix(asked, "HEAD ") || strings.Contains(asked, "/tags/") || strings.Contains(asked, "_catalog") {
			t.Errorf("asked what no node asks: %s", asked)
		}
	}
	for _, part := range s.Parts {
		s.Without(part.Path)
		r := judgeOf(t, objects)
		named := slices.ContainsFunc(r.Images, func(i readiness.Image) bool {
			return i.Name == part.Name && i.State == notReady && len(i.Findings) > 0
		})
		if r.State() != notReady || !named || r.Count(notReady) != 1 {
			t.Errorf("without the %s of %s (%s):\n%s", part.What, part.Name, part.Path, r.Answer().String())
		}
	}
}

// TestAsksNobodyElse: all requests go through a proxy, which sees no host but the mirror as long as that has everything: neither the source, which nodes
// would ask after it, nor any other.
func TestAsksNobodyElse(t *testing.T) {
	const mirror = "mirror.example.com:5000"
	s := newStage(t, 5)
	var hosts sync.Map
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Mirror})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts.Store(r.Host, true)
		if r.Host != mirror {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		gone  string
		state readiness.State
		want  []string
	}{
		{"nothing", ready, []string{mirror}},
		{s.PartOf("component-004", "image").Path, unknown, []string{mirror, "quay.io:443"}},
	} {
		s.Without(tt.gone)
		hosts.Clear()
		w := worldOf(t, s.with(t, s.Mirror, mirror, "NeverContactSource", "AllowContactingSource"))
		w.Client.(*registry.Client).SetTrust(nil, nil, http.ProxyURL(to))
		r, err := judge.Release(t.Context(), w, find(t, w, testrelease.Version))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		hosts.Range(func(host, _ any) bool { got = append(got, host.(string)); return true })
		if slices.Sort(got); r.State() != tt.state || !slices.Equal(got, tt.want) {
			t.Errorf("without %s, %s, and asked were %q, want %s, %q", tt.gone, r.State(), got, tt.state, tt.want)
		}
	}
}

// TestCopies: what is missing is to be copied in the order in which an update needs it, and the commands name the release and the cluster.
func TestCopies(t *testing.T) {
	s := newStage(t, 8)
	var gone []string
	names := map[string]string{}
	for _, p := range s.Parts {
		if p.What == "image" && p.Name != "release" {
			gone, names[s.Images+"@"+s.digestOf(p.Name)] = append(gone, p.Path), p.Name
		}
	}
	s.Without(gone...)
	r := judgeOf(t, s.with(t))
	var got []string
	for _, c := range r.Copies() {
		got = append(got, names[c.Image.Ref])
	}
	if want := []string{"cluster-version-operator", "component-003", "component-006", "component-004", "component-005", "component-007", "rhel-coreos", "rhel-coreos-extensions"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, want := range []string{
		"To copy what is missing (8 images):\n- mirrorset-guard sync --release 4.21.3 --from dump.yaml\n", "mirrorset-guard plan --release 4.21.3 --from dump.yaml --missing > copy.sh && sh copy.sh",
		"platform: {channels: [{name: stable-4.21, minVersion: 4.21.3, maxVersion: 4.21.3}]}",
	} {
		if !strings.Contains(r.Answer().String(), want) {
			t.Errorf("no %q in\n%s", want, r.Answer().String())
		}
	}
}

// TestAltered: a layer whose bytes do not have its digest is refused, however well it reads.
func TestAltered(t *testing.T) {
	s := newStage(t, 5)
	s.Alter("/v2/"+s.PartOf("release", "layer").Path, "component-003", "component-004")
	w := worldOf(t, s.with(t))
	if r, err := judge.Release(t.Context(), w, find(t, w, testrelease.Version)); err == nil || !strings.Contains(err.Error(), "error verifying sha256 checksum") {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestUnreadBelow: while it is not known which policies the release brings, no signature is known to be the last one that nodes require.
func TestUnreadBelow(t *testing.T) {
	s := newStage(t, 4)
	s.Remake(t, []byte("no archive"))
	r := judgeOf(t, s.with(t))
	if said := r.Answer().String(); r.State() != unknown || !strings.Contains(said, "UNKNOWN: whether the release brings further image policies is not known\n- ") {
		t.Errorf("got %s", said)
	}
}

// TestElsewhere: an image of the payload that lies at another host is judged by its own route, and asked for nowhere else.
func TestElsewhere(t *testing.T) {
	s := newStage(t, 5)
	image, err := testregistries.Image("component-004")
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "elsewhere/component", image)
	digest := s.digestOf("component-004")
	s.Remake(t, testrelease.Archive(t, nil), s.Images+"@"+digest, s.Mirror+"/elsewhere/component@"+digest)
	s.Without(s.PartOf("component-004", "image").Path[len("openshift/release"):])
	if r := judgeOf(t, s.with(t)); r.State() != notReady || !strings.Contains(r.Answer().String(), "1. component-004: "+s.Mirror+"/elsewhere/component@"+digest) {
		t.Errorf("where it lies, it is missing:\n%s", r.Answer().String())
	}
	s.Without(s.PartOf("component-004", "image").Path)
	if r := judgeOf(t, s.with(t)); r.State() != ready {
		t.Errorf("it is there:\n%s", r.Answer().String())
	}
	if slices.ContainsFunc(s.Requests(), func(r string) bool { return strings.HasSuffix(r, s.PartOf("component-004", "image").Path) }) {
		t.Errorf("asked, where it is not: %q", s.Requests())
	}
}

// TestComing: an update pulls all images of the release under the policies that it brings; of a release that cannot be read, that is a gap.
func TestComing(t *testing.T) {
	s := newStage(t, 4)
	for _, tt := range []struct {
		gone, gap string
		images    int
	}{
		{"nothing", "", 5},
		{s.PartOf("release", "image").Path, "the release image could not be found: ", 1},
	} {
		s.Without(tt.gone)
		w := worldOf(t, s.with(t))
		c, err := judge.Coming(t.Context(), w, find(t, w, testrelease.Version))
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(c.Gaps, func(g policy.Gap) bool { return g.Unread && strings.HasPrefix(g.Detail, tt.gap) })
		if read := tt.gap == ""; len(c.Images) != tt.images || said == read || len(c.Gaps) > 1 || len(c.Policies.Steps()) > 0 != read {
			t.Errorf("without %s: %d images, %+v", tt.gone, len(c.Images), c.Gaps)
		}
	}
}

// TestWants: pools of other nodes do without images that the release runs on the control plane alone, unless one of their nodes runs them today, or
// that is not known. No pool is to hold the system of its nodes.
func TestWants(t *testing.T) {
	s := newStage(t, 8)
	pod := func(containers, node, name string) string {
		return object("v1", "Pod", "namespace: openshift-a, name: "+name+"-"+node, "spec: {nodeName: "+node+", "+containers+": [{name: a, image: \""+s.Images+"@"+s.digestOf(name)+"\"}]}")
	}
	runs := func(oldnew ...string) string {
		return s.with(t, append([]string{"sha256:" + strings.Repeat("a", 64), s.Digest, "", masterPool}, oldnew...)...)
	}
	worker := pod("containers", "b", "component-005")
	for _, tt := range []struct {
		reason, objects string
		master, worker  int
		why             string // today's release is not known
	}{
		{"workers run others", runs("", pod("containers", "a", "component-006"), "", worker), 7, 5, ""},
		{"a worker runs one of the control plane's", runs("", pod("containers", "b", "component-006"), "", worker), 7, 6, ""},
		{"a pod of a worker begins with one of them", runs("", strings.Replace(pod("initContainers", "b", "component-006"), "]}", "], containers: []}", 1), "", worker), 7, 6, ""},
		{"which pods run is not known", runs(), 7, 7, ""},
		{"an update is under way", runs("state: Completed", "state: Partial", "", worker), 7, 7, "an update is under way, or may be"},
		{"one node is both", runs(`{node-role.kubernetes.io/worker: ""}}`+"\nstatus", `{node-role.kubernetes.io/worker: "", node-role.kubernetes.io/control-plane: ""}}`+"\nstatus", "", worker), 7, 7, ""},
	} {
		w := worldOf(t, tt.objects)
		r, err := judge.Release(t.Context(), w, find(t, w, testrelease.Version))
		if err != nil {
			t.Fatal(err)
		}
		today, err := judge.Today(t.Context(), w)
		if (err != nil) != (tt.why != "") || err != nil && err.Error() != tt.why {
			t.Errorf("%s: today's release: %v", tt.reason, err)
		}
		got := map[string]int{}
		for _, want := range judge.Wants(r, w.Cluster.RolloutObjects().Cluster(), today) {
			got[want.Pool]++
			if strings.HasPrefix(want.By, "rhel-coreos") {
				t.Errorf("%s: %s is pinned, and nodes do not take it from there", tt.reason, want.By)
			}
		}
		if got["master"] != tt.master || got["worker"] != tt.worker {
			t.Errorf("%s: got %v", tt.reason, got)
		}
	}
}
