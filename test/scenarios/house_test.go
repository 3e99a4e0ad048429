package scenarios

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	reviewworld "github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// bundles are the ConfigMaps of CAs, as YAML documents.
func (h *house) bundles(s *Scenario) []string {
	var docs []string
	for name := range s.CAs {
		cm := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: trust.BundlesNamespace, Name: name}, Data: map[string]string{}}
		for _, host := range s.CAs[name] {
			cm.Data[strings.ReplaceAll(host, ":", "..")] = string(h.front.PrivateCA)
		}
		data, err := yaml.Marshal(cm)
		if err != nil {
			panic(err) // there are only strings in it
		}
		docs = append(docs, string(data))
	}
	return docs
}

// A house has the registries of a story, and the doors that are in this process.
type house struct {
	front  *registries.Front
	caFile string
	pushed map[string]bool
}

func newHouse(t *testing.T) *house {
	h := &house{front: registries.Start(t), caFile: filepath.Join(t.TempDir(), "ca.crt"), pushed: map[string]bool{}}
	if err := os.WriteFile(h.caFile, h.front.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// maxWait is how long a test waits for what must happen soon.
const maxWait = 2 * time.Minute

func newMux(t *testing.T, reviewer webhook.Reviewer) *http.ServeMux {
	t.Helper()
	mux, err := webhook.NewServeMux(webhook.Options{Reviewer: reviewer})
	if err != nil {
		t.Fatal(err)
	}
	return mux
}

// stock sets up the registries as the story says.
func (h *house) stock(t *testing.T, s *Scenario) {
	t.Helper()
	h.front.Reset()
	for key, state := range s.States {
		switch state {
		case registries.Honest:
			h.push(t, key)
		case registries.HeadFails, registries.Forgotten, registries.Exchanged:
			h.push(t, key)
			h.front.Set(key, state)
		case registries.Hollow:
			h.push(t, key)
			h.front.Set(repositoryOf(key), state)
		case Index, Sparse:
			h.pushIndex(t, key, state)
		default:
			if isIndexOf(state) {
				h.pushIndexOf(t, key, state)
			} else {
				h.front.Set(key, state)
			}
		}
	}
	for _, signed := range s.Signed {
		h.sign(t, s, signed)
	}
	for ref := range h.pushed {
		host, _, _ := strings.Cut(ref, "/")
		if s.States[ref] == "" && s.States[host] == "" && !h.front.IsSet(ref) { // left over from another story
			h.front.Set(ref, registries.Absent)
		}
	}
}

// sign pushes the signatures of an image, or has the registry answer otherwise where nodes look
// for them.
func (h *house) sign(t *testing.T, s *Scenario, signed Signed) {
	t.Helper()
	for _, digest := range s.instances(signed.Ref) {
		ref := repositoryOf(signed.Ref) + ":" + signer.Tag(digest)
		if signed.State != registries.Honest {
			h.front.Set(ref, signed.State)
			continue
		}
		var all []signing.Signature
		for _, other := range s.Signed {
			if other.State == registries.Honest && repositoryOf(other.Ref) == repositoryOf(signed.Ref) && slices.Contains(s.instances(other.Ref), digest) {
				all = append(all, other.Key.Sign(other.As, digest))
			}
		}
		if err := h.front.PushSignatures(ref, all...); err != nil {
			t.Fatal(err)
		}
		h.front.Set(ref, registries.Honest)
		h.pushed[ref] = true
	}
}

func (h *house) push(t *testing.T, ref string) {
	t.Helper()
	h.front.PushImage(t, ref, imageName(ref))
	h.pushed[ref] = true
}

// pushIndex pushes an index with its two parts, and hides one to make it sparse.
func (h *house) pushIndex(t *testing.T, ref string, state registries.Behaviour) {
	t.Helper()
	index, err := registries.Index(strings.TrimSuffix(indexName(ref), "-index"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.front.PushIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	h.pushed[ref] = true
	if state == Sparse {
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		h.front.Set(repositoryOf(ref)+"@"+manifest.Manifests[1].Digest.String(), registries.Absent)
	}
}

// pushIndexOf pushes an index that states its platforms, and hides the parts not held.
func (h *house) pushIndexOf(t *testing.T, ref string, state registries.Behaviour) {
	t.Helper()
	lists, held := platformsOf(state)
	index, err := registries.IndexOf("tag", lists...)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.front.PushIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	h.pushed[ref] = true
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, platform := range lists {
		if !held[platform] {
			h.front.Set(repositoryOf(ref)+"@"+manifest.Manifests[i].Digest.String(), registries.Absent)
		}
	}
}

// pullSecret is the global one of every story. It has an entry for moved.example.com.
func pullSecret() []byte {
	entry := func(user, password string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	return fmt.Appendf(nil, `{"auths":{"unrelated.example.com":{"auth":%q},"moved.example.com":{"auth":%q}}}`,
		entry("u", "p"), entry(registries.User, registries.Password))
}

func (h *house) resolve(s *Scenario) map[string]string {
	resolve := map[string]string{}
	for _, host := range s.Hosts() {
		resolve[apiHost(host)] = h.front.Addr(host)
	}
	return resolve
}

// askCheck runs the command against a dump of the story's cluster.
func (h *house) askCheck(t *testing.T, s *Scenario) Answer {
	dir := t.TempDir()
	out, code := h.check(t, s, dir, "json", s.guardFlags(t, dir)...)
	var doc v1alpha1.Review
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("check: %v\n%s", err, out)
	}
	if want := map[bool]int{true: 0, false: 1}[doc.Allowed]; code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	ofFiles := func(warning string) bool { return strings.Contains(warning, dir) } // which no other door reads
	return Answer{doc.Allowed, doc.Message, slices.DeleteFunc(doc.Warnings, ofFiles)}
}

// checkAs runs the command with an output format, and returns what it prints.
func (h *house) checkAs(t *testing.T, s *Scenario, format string) string {
	t.Helper()
	out, _ := h.check(t, s, t.TempDir(), format)
	return out
}

// check runs the command on a dump of the story's cluster, with its files in dir. It fails where there is
// no verdict.
func (h *house) check(t *testing.T, s *Scenario, dir, format string, flags ...string) (out string, code int) {
	t.Helper()
	change := filepath.Join(dir, "change.yaml")
	if err := os.WriteFile(change, []byte(strings.Join(s.Change, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"check", "-f", change, "--from", h.dump(t, s, dir), "-o", format}, flags...)
	if s.Delete {
		args = append(args, "--delete")
	}
	return h.command(t, s, args...)
}

// command runs the program, and fails if that ends with 2.
func (h *house) command(t *testing.T, s *Scenario, args ...string) (out string, code int) {
	t.Helper()
	args = append(args, "--registry-ca", h.caFile)
	for host, addr := range h.resolve(s) {
		args = append(args, "--resolve", host+"="+addr)
	}
	stdout, stderr, code := run(t, args...)
	if code == 2 {
		t.Fatalf("%q:\n%s%s", args, stdout, stderr)
	}
	return stdout, code
}

// run runs the program in this process.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = app.Run(t.Context(), append([]string{"mirrorset-guard"}, args...), strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// guardFlags returns the flags by which a command judges as the story's guard does.
func (s *Scenario) guardFlags(t *testing.T, dir string) []string {
	t.Helper()
	flags := s.asFlags("for-user", "for-group")
	if s.Guard == "" {
		return flags
	}
	file := filepath.Join(dir, "guard.yaml")
	if err := os.WriteFile(file, []byte(s.Guard), 0o600); err != nil {
		t.Fatal(err)
	}
	return append(flags, "--config", file)
}

// asFlags returns flags with these names that name who makes the change.
func (s *Scenario) asFlags(user, group string) []string {
	if s.As.User == "" {
		return nil
	}
	flags := []string{"--" + user + "=" + s.As.User}
	for _, name := range s.As.Groups {
		flags = append(flags, "--"+group+"="+name)
	}
	return flags
}

func (h *house) dump(t *testing.T, s *Scenario, dir string) string {
	t.Helper()
	workloads, err := s.Workloads()
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := s.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {namespace: openshift-config, name: pull-secret}\ntype: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: " +
		base64.StdEncoding.EncodeToString(pullSecret()) + "}\n"
	path := filepath.Join(dir, "dump.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(slices.Concat([]string{secret, s.nodes()}, h.bundles(s), s.Accounts(), workloads, configuration), "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nodes returns the nodes of the story, unless it has its own. As of an API server, it is known which
// budgets, quotas and node actions there are.
func (s *Scenario) nodes() string {
	const lists = "apiVersion: policy/v1\nkind: PodDisruptionBudgetList\nitems: []\n---\napiVersion: v1\nkind: ResourceQuotaList\nitems: []\n---\n" +
		"apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\n"
	if s.hasNodes() {
		return lists
	}
	return lists + "---\n" + someNodes
}

func (s *Scenario) hasNodes() bool {
	return slices.ContainsFunc(s.Objects, func(o string) bool { return strings.Contains(o, "kind: Node\n") })
}

// someNodes are of both architectures, and of no pool.
const someNodes = `apiVersion: v1
kind: Node
metadata: {name: worker-0, labels: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status: {nodeInfo: {architecture: amd64}}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1, labels: {kubernetes.io/arch: arm64, kubernetes.io/os: linux}}
status: {nodeInfo: {architecture: arm64}}
`

// askWebhook posts a review over HTTPS, as the API server would, to a guard of a dump of the story's cluster.
func (h *house) askWebhook(t *testing.T, s *Scenario) Answer {
	dump, err := snapshot.Read(h.dump(t, s, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.front.CA)
	opened := reviewworld.FromDump(dump, reviewworld.Options{
		Registry: wire.Options{RootCAs: roots, Resolve: h.resolve(s), Timeout: maxWait, DialTimeout: maxWait}, // no registry of a story is silent
		Facts:    presence.Options{Lifetimes: presence.Lifetimes{Absent: time.Hour}},                          // a story has a store of its own
	})
	defer opened.Close()
	reviewer := opened.Reviewer()
	reviewer.Settings = s.Settings
	server := httptest.NewUnstartedServer(newMux(t, &reviewer))
	certificates.StartTLS(server)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	resp, err := client.Post(server.URL+webhook.Path+"?timeout=30s", "application/json", bytes.NewReader(admissionReview(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got admissionv1.AdmissionReview
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Response == nil {
		t.Fatalf("status %s: %v", resp.Status, err)
	}
	a := Answer{Allowed: got.Response.Allowed, Warnings: got.Response.Warnings}
	if got.Response.Result != nil {
		a.Message = got.Response.Result.Message
	}
	return a
}

func admissionReview(t *testing.T, s *Scenario) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(s.objects()[0]))
	if err != nil {
		t.Fatal(err)
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	gvk := object.GroupVersionKind()
	req := &admissionv1.AdmissionRequest{
		UID: "1", UserInfo: authenticationv1.UserInfo{Username: s.As.User, Groups: s.As.Groups}, Namespace: object.Namespace, Name: object.Name, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		Kind: metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
	}
	if s.Delete {
		req.Operation, req.Object, req.OldObject = admissionv1.Delete, runtime.RawExtension{}, req.Object
	}
	if s.Finalize {
		req.Operation, req.Object, req.OldObject = admissionv1.Update, req.OldObject, underDeletion(t, raw)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// finalizer is the finalizer that a story removes from its objects.
const finalizer = "example.com/held"

// underDeletion returns an object, as JSON, after its deletion was asked for.
func underDeletion(t *testing.T, raw []byte) runtime.RawExtension {
	t.Helper()
	var o unstructured.Unstructured
	if err := json.Unmarshal(raw, &o.Object); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	o.SetFinalizers([]string{finalizer})
	o.SetDeletionTimestamp(&now)
	o.SetDeletionGracePeriodSeconds(new(int64(0)))
	data, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}
