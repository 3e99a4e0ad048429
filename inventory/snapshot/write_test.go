package snapshot

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

var (
	_ Source = (*Snapshot)(nil)
	_ Source = (*live.Inventory)(nil)
)

//go:embed testdata/write.yaml
var writeYAML string

// The canary is in every place of these objects that an answer does not depend on.
var writeInput = strings.ReplaceAll(podYAML+"---\n"+writeYAML, "{certificate}", strconv.Quote(certificate+"-----BEGIN PRIVATE KEY-----\ncanary\n"))

// certificate is one that nodes trust.
var certificate = newCertificate()

func newCertificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func written(t *testing.T, s *Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, s, s.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWrite(t *testing.T) {
	s, err := ReadFrom(strings.NewReader(writeInput), "f")
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, s)
	if strings.Contains(text, "canary") || strings.Contains(text, "Y2FuYXJ5") {
		t.Errorf("the dump holds what nothing depends on:\n%s", text)
	}
	const line = `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"ImageUsers","image":"quay.io/shop/app:1","users":[` +
		`{"kind":"Deployment","namespace":"shop","name":"app","container":"app","use":"referenced","ownPullSecret":true,"placement":{}},` +
		`{"kind":"Pod","namespace":"shop","name":"app-0","container":"app","use":"running","digest":"sha256:e3b0","placement":{}}]}`
	if !strings.Contains(text, "\n"+line+"\n") {
		t.Errorf("no line\n%s\nin\n%s", line, text)
	}
}

// trustsTheCertificate reports whether the certificate of the dump is all that nodes trust
// at the mirror.
func trustsTheCertificate(s *Snapshot) bool {
	settings := s.TrustSettings()
	settings.Roots = x509.NewCertPool()
	want := x509.NewCertPool()
	want.AppendCertsFromPEM([]byte(certificate))
	got := trust.New(settings).HostRootCAs["mirror.example.com:5000"]
	return got != nil && got.Equal(want)
}

func exposedIn(s *Snapshot) string {
	return strings.Join(convert.Each(s.Exposed(), func(e objects.Exposed) string { return fmt.Sprint(e.Object, " ", e.Hosts) }), "; ")
}

// What has been written says the same as what it was written from.
func TestWriteAndRead(t *testing.T) {
	before, err := ReadFrom(strings.NewReader(writeInput), "f")
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, before)
	after, err := ReadFrom(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	if p := after.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	if again := written(t, after); again != text {
		t.Errorf("written again, it differs: -first +second:\n%s", cmp.Diff(text, again))
	}
	set1, _ := before.Mirrors(t.Context())
	set2, _ := after.Mirrors(t.Context())
	for what, diff := range map[string]string{
		"images":     cmp.Diff(imagesOf(t, before), imagesOf(t, after)),
		"mirrors":    cmp.Diff(mirrorsOf(t, before), mirrorsOf(t, after)),
		"registries": cmp.Diff(set1.Registries, set2.Registries),
		"platforms":  cmp.Diff(policy.PlatformsOf(before.Nodes()), policy.PlatformsOf(after.Nodes())),
		"nodes":      cmp.Diff(before.Nodes(), after.Nodes()),
		"budgets":    cmp.Diff(before.RolloutObjects().Budgets, after.RolloutObjects().Budgets),
		"providers":  cmp.Diff(before.CredentialProviders()[0].Spec, after.CredentialProviders()[0].Spec),
		"machines":   cmp.Diff(before.RolloutObjects().Machines, after.RolloutObjects().Machines),
		"proxy":      cmp.Diff(before.Proxy(), after.Proxy()),
		"version":    cmp.Diff(before.RolloutObjects().Version, after.RolloutObjects().Version),
		"payload":    cmp.Diff("quay.io/release@sha256:bb", set2.Payload),
		"pools":      cmp.Diff(before.RolloutObjects().Pools, after.RolloutObjects().Pools),
		"exposed":    cmp.Diff(exposedIn(before), exposedIn(after)) + cmp.Diff("Ingress cluster [*.apps.example.com]; Route quay/registry [registry.example.com]; Service quay/lb [192.0.2.7]", exposedIn(after)),
		"trust":      cmp.Diff([]bool{true, true}, []bool{trustsTheCertificate(before), trustsTheCertificate(after)}),
	} {
		if diff != "" {
			t.Errorf("%s: -before +after:\n%s", what, diff)
		}
	}
	if got := after.Proxy().Spec.HTTPProxy; got != "http://proxy.example.com:3128" {
		t.Errorf("the proxy is %q", got)
	}
	if files := after.RolloutObjects().Machines.Status.NodeDisruptionPolicyStatus.ClusterPolicies.Files; len(files) != 1 {
		t.Errorf("node disruption policy for %v, want one file", files)
	}
	if v := after.RolloutObjects().Version; v.Status.Desired.Version != "4.18.1" || len(v.Status.History) != 1 {
		t.Errorf("got the version %+v", v.Status)
	}
	if after.PullSecret() != nil {
		t.Error("the dump has the pull secret")
	}
}

func TestReadBrokenImageUsers(t *testing.T) {
	for text, want := range map[string]string{
		`{"image": "a", "users": [{"kind": "Pod", "name": "p", "use": "eaten"}]}`: `reading the dump: f: document 1: item 1: reading ImageUsers: use "eaten" is not one of referenced, running and history: a later version of mirrorset-guard has written it`,
		`{"users": []}`: `reading the dump: f: document 1: item 1: reading ImageUsers: no image`,
	} {
		item := `{"apiVersion": "mirrorset-guard.io/v1alpha1", "kind": "ImageUsers", ` + text[1:]
		// Images would be missing, of which nothing else tells.
		if _, err := ReadFrom(strings.NewReader(`{"apiVersion": "v1", "kind": "List", "items": [`+item+`]}`), "f"); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestWriteForTerminals: what a tenant wrote does nothing to a terminal, and is read as it
// was written.
func TestWriteForTerminals(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"a"},"spec":{"containers":[{"name":"c","image":"quay.io/x\u001b[2J\u009b31m\u202e\nFORGED"}]}}`
	images := func(text string) []policy.Image {
		s, err := ReadFrom(strings.NewReader(text), "f.json")
		if err != nil {
			t.Fatal(err)
		}
		images, err := s.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return images.ByReference()
	}
	s, err := ReadFrom(strings.NewReader(pod), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	if err := Write(t.Context(), &written, s, s.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(written.String(), func(r rune) bool { return r != '\n' && !text.IsPrintable(r) }); i >= 0 {
		t.Errorf("it does something to a terminal: %q", written.String()[max(0, i-40):i+2])
	}
	if diff := cmp.Diff(images(pod), images(written.String())); diff != "" {
		t.Errorf("-dump +snapshot:\n%s", diff)
	}
}
