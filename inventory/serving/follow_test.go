//go:build integration

package serving

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/certs/tlsprofile"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// maxWait is how long a test waits for what must happen soon.
const maxWait = 90 * time.Second

const configurationName = "mirrorset-guard"

// A world is a real API server, at first without the kind APIServer.
type world struct {
	*testing.T
	cluster *cluster.Cluster
}

func (w world) apply(text string) {
	w.Helper()
	if out, err := w.cluster.Kubectl(w.Context(), text, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
}

func (w world) kubectl(args ...string) {
	w.Helper()
	if out, err := w.cluster.Kubectl(w.Context(), "", args...); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
}

// install adds the kind APIServer, with the fields that only a preview has.
func (w world) install() {
	w.Helper()
	w.cluster.InstallCRD(w.T, "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_apiservers-CustomNoUpgrade.crd.yaml")
}

// A following is a Follower that runs.
type following struct {
	*Follower
	t       *testing.T
	changed chan tlsprofile.Profile
}

func (w world) follow(config *rest.Config, forbiddenAfter time.Duration) *following {
	w.Helper()
	f := &following{t: w.T, changed: make(chan tlsprofile.Profile, 100)}
	var err error
	f.Follower, err = Follow(config, Options{
		WebhookConfiguration: configurationName, Installed: &admissionregistrationv1.ValidatingWebhookConfiguration{}, ForbiddenAfter: forbiddenAfter,
		OnProfile: func(p tlsprofile.Profile) { f.changed <- p },
	})
	if err != nil {
		w.Fatal(err)
	}
	if got := f.Profile().Name; got != tlsprofile.NameUnread {
		w.Errorf("before anything has been read, the profile is %q", got)
	}
	const waits = "how to serve is not known: apiserver.config/cluster not read yet; validatingwebhookconfigurations not read yet"
	if err := f.Ready(); err == nil || err.Error() != waits {
		w.Errorf("got %v, want %s", err, waits)
	}
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	return f
}

// await waits for the next profile, and wants it to be in force.
func (f *following) await(name string, problems ...string) {
	f.t.Helper()
	select {
	case p := <-f.changed:
		if diff := cmp.Diff(problems, p.Problems); p.Name != name || diff != "" || !p.Equal(f.Profile()) {
			f.t.Errorf("got %s, in force %s, want %s; problems (-want +got):\n%s", p.Name, f.Profile().Name, name, diff)
		}
	case <-time.After(maxWait):
		f.t.Fatalf("%s is still in force, want %s", f.Profile().Name, name)
	}
}

// eventually waits for what has no event.
func (f *following) eventually(what string, is func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(maxWait); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: never; notes %q", what, f.Notes())
		}
	}
}

func (f *following) hasNote(words string) bool {
	return slices.ContainsFunc(f.Notes(), func(note string) bool { return strings.Contains(note, words) })
}

const configuration = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAME}, webhooks: [
  {name: a.example.com, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {caBundle: BUNDLE, service: {namespace: shop, name: guard}}},
  {name: b.example.com, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://[::1]:1234/validate"}}]}`

// TestFollower: with the rights of the manifests, by real objects, and without them.
func TestFollower(t *testing.T) {
	w := world{t, cluster.New(t)}
	config := w.asGuard()
	f := w.follow(config, 0)

	f.await("Default") // the kind is not served: this is not OpenShift
	f.eventually("no webhook", func() bool {
		return f.hasNote("there is no validatingwebhookconfiguration/mirrorset-guard, nor one of OLM: no change is reviewed")
	})
	w.install()
	const object = "{apiVersion: config.openshift.io/v1, kind: APIServer, metadata: {name: NAME}, spec: {SPEC}}"
	put := func(name, spec string) {
		w.Helper()
		w.apply(strings.NewReplacer("NAME", name, "SPEC", spec).Replace(object))
	}
	put("other", "tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Old, old: {}}")
	put("cluster", "tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Modern, modern: {}}")
	f.await("Modern")
	put("cluster", "tlsAdherence: LegacyAdheringComponentsOnly, tlsSecurityProfile: {type: Modern, modern: {}}")
	f.await("Default")
	put("cluster", `tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Custom, custom: {minTLSVersion: VersionTLS12, ciphers: [ECDHE-RSA-AES128-GCM-SHA256, ROT13]}}`)
	const problem = `spec.tlsSecurityProfile.custom.ciphers: left out, as Go does not support them: "ROT13"`
	f.await("Custom", problem)
	if !f.hasNote("apiserver.config/cluster: " + problem) {
		t.Errorf("no note on the unknown cipher: %q", f.Notes())
	}

	configure := func(name string) {
		w.Helper()
		w.apply(strings.NewReplacer("NAME", name, "BUNDLE", aCertificate).Replace(configuration))
	}
	configure("other")
	configure(configurationName)
	f.eventually("webhooks", func() bool { return f.Webhooks() != nil })
	want := []certs.Webhook{{Name: "a.example.com", Host: "guard.shop.svc"}, {Name: "b.example.com", Host: "::1", ByURL: true}}
	got := f.Webhooks()
	if len(got[0].CABundle) == 0 || len(got[1].CABundle) != 0 {
		t.Errorf("got bundles %q and %q", got[0].CABundle, got[1].CABundle)
	}
	got[0].CABundle = nil
	if diff := cmp.Diff(want, got, cmp.Transformer("empty", func(b []byte) string { return string(b) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Run("cut off", func(t *testing.T) {
		wire, err := cluster.NewWire(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(wire.Close)
		cut := world{t, w.cluster}.follow(wire.Config, 0)
		cut.await("Custom", problem)
		wire.Cut()
		cut.eventually("stale", func() bool { return cut.hasNote("apiserver.config/cluster out of reach for ") })
		if got := cut.Profile().Name; got != "Custom" {
			t.Errorf("%s is in force, without the API server saying so", got)
		}
		w.kubectl("patch", "apiserver", "cluster", "--type=merge", "-p", `{"spec":{"tlsSecurityProfile":{"type":"Old","old":{},"custom":null}}}`)
		wire.Mend()
		cut.await("Old")
		f.await("Old")
	})
	t.Run("without rights", func(t *testing.T) {
		stranger := rest.CopyConfig(w.cluster.Config)
		stranger.Impersonate.UserName = "stranger"
		f := world{t, w.cluster}.follow(stranger, time.Nanosecond)
		f.await("Default")
		f.eventually("notes", func() bool {
			return f.Ready() == nil && f.hasNote("no permission to read apiserver.config/cluster: the TLS security profile of the cluster is not followed") &&
				f.hasNote("no permission to read validatingwebhookconfigurations: it is not known whether the API server accepts the serving certificate")
		})
	})
	w.kubectl("delete", "apiserver", "cluster")
	f.await("Default")
	w.kubectl("delete", "validatingwebhookconfiguration", configurationName)
	f.eventually("no webhook", func() bool { return f.Webhooks() == nil })
}

// asGuard returns the way to the API server for a user with no more than the rights that
// the manifests grant for this.
func (w world) asGuard() *rest.Config {
	w.Helper()
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: guard}
rules:
- {apiGroups: [config.openshift.io], resources: [apiservers], resourceNames: [cluster], verbs: [list, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: guard}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: guard}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: guard}]
`)
	right := authorizationv1.ResourceAttributes{Verb: "watch", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
	if err := cluster.AwaitRight(w.Context(), w.cluster.Config, "guard", right); err != nil {
		w.Fatal(err)
	}
	config := rest.CopyConfig(w.cluster.Config)
	config.Impersonate.UserName = "guard"
	return config
}
