package emergency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

var errNotYet = errors.New("not yet")

// A failure is a way for a guard to be out of order.
type failure struct {
	name string
	// start has a guard that is wrong. It returns nil if none runs.
	start func(*stage, *testing.T) *guard.Process
	// change is kept out, in these words of the API server, which the page quotes.
	change load.Change
	says   []string
}

var failures = []failure{
	{
		"never started", func(*stage, *testing.T) *guard.Process { return nil },
		load.Good,
		[]string{`failed calling webhook "mirrorsets.mirrorset-guard.io": `, "connection refused"},
	},
	{
		"killed", func(s *stage, t *testing.T) *guard.Process {
			t.Helper()
			p := s.start(t, s.secret)
			p.AwaitReady(t)
			load.AwaitGuarded(t, s.api)
			p.Kill(t)
			return nil
		},
		load.Good,
		[]string{`failed calling webhook "mirrorsets.mirrorset-guard.io": `, "connection refused"},
	},
	{
		"with a certificate of another CA", func(s *stage, t *testing.T) *guard.Process {
			t.Helper()
			p := s.start(t, s.other)
			p.Eventually(t, "it serves", func() bool { status, _ := p.Readyz(); return status != 0 })
			return p
		},
		load.Good,
		[]string{`failed calling webhook "mirrorsets.mirrorset-guard.io": `, "x509"},
	},
	{
		"wrong", func(s *stage, t *testing.T) *guard.Process {
			t.Helper()
			p := s.start(t, s.secret)
			p.AwaitReady(t)
			return p
		},
		load.Bad,
		[]string{`admission webhook "mirrorsets.mirrorset-guard.io" denied the request: `},
	},
}

// TestEmergency: for each way of installing and each failure, a change that is kept out goes through
// after the page's commands, and the guard guards again after those that switch it on.
func TestEmergency(t *testing.T) {
	s := newStage(t)
	helm := os.Getenv("HELM") != ""
	for _, w := range ways {
		if w.needsHelm && !helm {
			continue // make emergency builds it
		}
		t.Run(w.name, func(t *testing.T) {
			w.prepare(s, t)
			with := failures
			if w.brief {
				with = failures[1:2]
			}
			for _, f := range with {
				t.Run(f.name, func(t *testing.T) { s.testWayOut(t, w, f) })
			}
		})
	}
	t.Run("OLM is dead", s.testWithoutOLM)
	t.Run("what is blocked", s.testScope)
	t.Run("warn", s.testWarn)
	t.Run("certificate", s.testCertificate)
	t.Run("the policy about MachineConfigs", s.testPolicy)
	if helm && !t.Failed() {
		for _, b := range s.page.missed() {
			t.Errorf("these commands of the page are not carried out:\n%s", b)
		}
	}
}

func (s *stage) testWayOut(t *testing.T, w way, f failure) {
	t.Cleanup(func() { s.clean(t) })
	w.install(s, t)
	controller := s.play(t, w)
	if controller == nil {
		s.serviceCA(t)
	}
	s.awaitRegistered(t)
	p := f.start(s, t)
	s.awaitBlocked(t, f)
	if out := s.do(t, "What is wrong?", 0); strings.Count(out, webhook.MirrorSetsWebhook) == 0 || !strings.Contains(out, w.listed) {
		t.Errorf("the page says that it was installed by %s, and the command prints\n%s", w.heading, out)
	}

	s.do(t, w.heading, w.off)
	controller.awaitRounds(t)
	load.Await(t, "the change goes through", func(ctx context.Context) error { return load.Try(ctx, s.api, "out", f.change) })
	controller.awaitRounds(t)
	must(t, load.Try(t.Context(), s.api, "again", f.change, metav1.DryRunAll))
	// A bad change that is in force is no longer one that makes things worse.
	must(t, s.api.Resource(load.Resource).Delete(t.Context(), "out", metav1.DeleteOptions{}))

	if p != nil && f.change == load.Good {
		p.Stop(t)
	}
	if p == nil || f.change == load.Good {
		p = s.start(t, s.secret)
		p.AwaitReady(t)
	}
	if w.heading == "Helm" && w.off == 2 { // all of it is gone
		s.kubectl(t, "", "wait", "--for=delete", "deployment/mirrorset-guard", "-n", "mirrorset-guard", "--timeout=60s")
	}
	s.do(t, w.heading, w.on)
	if controller == nil {
		s.serviceCA(t)
	}
	s.awaitGuarding(t)
}

// awaitRegistered waits until webhooks are registered, which a controller may have to do.
func (s *stage) awaitRegistered(t *testing.T) {
	t.Helper()
	load.Await(t, "the webhooks are registered", func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "", "get", "validatingwebhookconfigurations", "-o", "jsonpath={.items[*].webhooks[*].name}")
		if err != nil || !strings.Contains(out, webhook.MirrorSetsWebhook) || !strings.Contains(out, webhook.DeletionsWebhook) {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})
}

// awaitBlocked waits until a change is kept out in the words of a failure. An API server notices a
// registration some time after storing it.
func (s *stage) awaitBlocked(t *testing.T, f failure) {
	t.Helper()
	load.Await(t, "the change is kept out", func(ctx context.Context) error {
		err := load.Try(ctx, s.api, "blocked", f.change, metav1.DryRunAll)
		for _, words := range f.says {
			if err == nil || !strings.Contains(err.Error(), words) {
				return fmt.Errorf("got %v, want %s", err, words) //nolint:errorlint // it may be nil
			}
		}
		return nil
	})
}

// awaitGuarding wants the guard to refuse a bad change and the page's probe, and to admit a good change.
func (s *stage) awaitGuarding(t *testing.T) {
	t.Helper()
	load.AwaitGuarded(t, s.api)
	load.Await(t, "a good change is admitted", func(ctx context.Context) error { return load.Try(ctx, s.api, "good", load.Good, metav1.DryRunAll) })
	out, err := s.shell(t.Context(), s.page.block(t, "When it is over", 0))
	if err == nil || !strings.Contains(out, "denied the request: ImageTagMirrorSet guard-probe is refused") {
		t.Errorf("the page's probe: %v\n%s", err, out)
	}
}

// testWithoutOLM: neither OLM nor the guard works. The commands do not wait for OLM.
func (s *stage) testWithoutOLM(t *testing.T) {
	for _, w := range ways {
		if !strings.HasPrefix(w.name, "OLM") {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Cleanup(func() { s.clean(t) })
			w.prepare(s, t)
			w.install(s, t)
			for range 3 { // it worked when the guard was installed
				w.controller(t.Context(), s)
			}
			s.awaitRegistered(t)
			s.awaitBlocked(t, failures[0])
			s.do(t, w.heading, w.off)
			load.Await(t, "the change goes through", func(ctx context.Context) error { return load.Try(ctx, s.api, "out", load.Good) })
		})
	}
}

// testScope: with a dead guard exactly that is blocked which the page says.
func (s *stage) testScope(t *testing.T) {
	t.Cleanup(func() { s.clean(t) })
	must(t, load.Try(t.Context(), s.api, "old", load.Good))
	must(t, load.Try(t.Context(), s.api, "held", load.Good))
	s.kubectl(t, "", "patch", "imagetagmirrorset", "held", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	t.Cleanup(func() {
		s.kubectl(t, "", "patch", "imagetagmirrorset", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})
	s.kustomization(t)
	s.applyKustomization(t)
	s.serviceCA(t)
	s.awaitBlocked(t, failures[0])
	for _, row := range []struct {
		what    string
		blocked bool
		stdin   string
		args    []string
	}{
		{"a label of one", true, "", []string{"label", "imagetagmirrorset", "old", "a=b"}},
		{"an annotation of one", true, "", []string{"annotate", "imagetagmirrorset", "old", "a=b"}},
		{"the spec of one", true, "", []string{"patch", "images.config.openshift.io", "cluster", "--type=merge", "-p", `{"spec":{"registrySources":{"insecureRegistries":["a.example.com"]}}}`}},
		{"the creation of an IDMS", true, "{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: x}, spec: {imageDigestMirrors: []}}", []string{"create", "-f", "-"}},
		{"the creation of an ICSP", true, "{apiVersion: operator.openshift.io/v1alpha1, kind: ImageContentSourcePolicy, metadata: {name: x}, spec: {}}", []string{"create", "-f", "-"}},
		{"the creation of an ImagePolicy", true, policyOf("ImagePolicy, metadata: {name: x, namespace: default}"), []string{"create", "-f", "-"}},
		{"the creation of a ClusterImagePolicy", true, policyOf("ClusterImagePolicy, metadata: {name: x}"), []string{"create", "-f", "-"}},
		{"the creation of a PinnedImageSet", true, "{apiVersion: machineconfiguration.openshift.io/v1, kind: PinnedImageSet, metadata: {name: x}, spec: {pinnedImages: [{name: quay.io/a@sha256:" + strings.Repeat("0", 64) + "}]}}", []string{"create", "-f", "-"}},
		{"the deletion of one with a finalizer", false, "", []string{"delete", "imagetagmirrorset", "held", "--wait=false"}},
		{"and the end of it", true, "", []string{"patch", "imagetagmirrorset", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`}},
		{"the deletion of one", false, "", []string{"delete", "imagetagmirrorset", "old"}},
		{"the status of one", false, "", []string{"patch", "images.config.openshift.io", "cluster", "--subresource=status", "--type=merge", "-p", `{"status":{"internalRegistryHostname":"registry.example.com"}}`}},
		{"anything else", false, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}}", []string{"create", "-f", "-"}},
		{"the guard itself", false, "", []string{"-n", "mirrorset-guard", "rollout", "restart", "deployment/mirrorset-guard"}},
		{"its registration", false, "", []string{"label", "validatingwebhookconfiguration", "mirrorset-guard", "a=b"}},
	} {
		out, err := s.Kubectl(t.Context(), row.stdin, row.args...)
		if blocked := err != nil && strings.Contains(out, "failed calling webhook"); blocked != row.blocked || !row.blocked && err != nil {
			t.Errorf("%s: blocked is %t, want %t: %s", row.what, blocked, row.blocked, out)
		}
	}
	s.kubectl(t, "", "-n", webhook.Namespace, "delete", "service", webhook.ServiceName) // as with its namespace
	s.awaitBlocked(t, failure{change: load.Good, says: []string{`failed calling webhook "mirrorsets.mirrorset-guard.io": `, `service "mirrorset-guard" not found`}})
	s.kubectl(t, "", "delete", "validatingwebhookconfiguration", "mirrorset-guard")
	load.Await(t, "the registration is gone", func(ctx context.Context) error { return load.Try(ctx, s.api, "out", load.Good) })
}

// policyOf returns a policy with a key, which the API server only wants to be base64.
func policyOf(head string) string {
	return "{apiVersion: config.openshift.io/v1, kind: " + head + `, spec: {scopes: [registry.example.com/x], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: "` + "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KQUFBQQotLS0tLUVORCBQVUJMSUMgS0VZLS0tLS0K" + `"}}}}}`
}

// testWarn: a guard that refuses what it should not is made to warn, without a restart.
func (s *stage) testWarn(t *testing.T) {
	t.Cleanup(func() { s.clean(t) })
	s.kustomization(t)
	s.applyKustomization(t)
	s.serviceCA(t)
	p := s.start(t, s.secret)
	p.AwaitReady(t)
	load.AwaitGuarded(t, s.api)
	const heading = "It refuses what it should not"
	for block := range 2 {
		if block == 1 {
			s.kubectl(t, "", "-n", webhook.Namespace, "delete", "configmap", "mirrorset-guard-config")
		}
		s.do(t, heading, block)
		s.configuration(t)
		load.Await(t, "what was refused goes through", func(ctx context.Context) error { return load.Try(ctx, s.api, "warned", load.Bad) })
		must(t, s.api.Resource(load.Resource).Delete(t.Context(), "warned", metav1.DeleteOptions{}))
		s.do(t, heading, 2)
		s.configuration(t)
		s.awaitGuarding(t)
	}
}

// testPolicy: the policy of the overlay refuses a MachineConfig without a guard, until its binding is gone.
func (s *stage) testPolicy(t *testing.T) {
	for _, file := range []string{"policy.yaml", "binding.yaml"} {
		text, err := os.ReadFile(filepath.Join(repo.Root(), "manifests", "overlays", "machineconfigs", file))
		must(t, err)
		s.kubectl(t, strings.Replace(string(text), "[Warn, Audit]", "[Deny]", 1), "apply", "-f", "-")
	}
	create := func(ctx context.Context) (string, error) {
		return s.Kubectl(ctx, `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 99-files, labels: {machineconfiguration.openshift.io/role: worker}}
spec: {config: {ignition: {version: 3.4.0}, storage: {files: [{path: /etc/containers/registries.conf}]}}}
`, "create", "--dry-run=server", "-f", "-")
	}
	load.Await(t, "the policy refuses it", func(ctx context.Context) error {
		if out, err := create(ctx); err == nil || !strings.Contains(out, "mirrorset-guard-machineconfigs") {
			return fmt.Errorf("%w: %s", errNotYet, out)
		}
		return nil
	})
	s.do(t, "MachineConfigs are refused", 0)
	load.Await(t, "it goes through", func(ctx context.Context) error {
		_, err := create(ctx)
		return err
	})
}

// testCertificate: a certificate that is not accepted is issued again.
func (s *stage) testCertificate(t *testing.T) {
	t.Cleanup(func() { s.clean(t) })
	s.kustomization(t)
	s.applyKustomization(t)
	s.serviceCA(t)
	lost, secret := s.secret, s.other
	p := s.start(t, secret)
	s.awaitBlocked(t, failures[2])
	s.do(t, "Mend the certificate", 0)
	if _, err := s.kube.CoreV1().Secrets(webhook.Namespace).Get(t.Context(), "mirrorset-guard-tls", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the secret that the guard mounts is still there: %v", err)
	}
	s.ca, s.secret = s.renew(t, secret), secret
	s.other = lost
	s.serviceCA(t)
	p.AwaitReady(t)
	s.awaitGuarding(t)
}
