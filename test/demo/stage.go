package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/ports"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

//go:embed objects/*.yaml
var objects embed.FS

// The registries of the story.
const (
	sourceHost = "quay.io"
	mirrorHost = "mirror.example.com"
	routerRepo = "openshift-release-dev/ocp-v4.0-art-dev"
)

// A stage is everything that runs during the story.
type stage struct {
	out     io.Writer
	env     []string // of the guard's program, besides that of the demo
	dir     string
	binary  string
	cluster *cluster.Cluster
	source  *registries.Process
	mirror  *registries.Process
	ca      []byte
	router  string // digest of the router image
	listen  string // where the guard answers the API server
	health  string // where it answers /readyz
	guard   *exec.Cmd
	logs    *os.File
	close   []func()
}

// setUp starts everything, up to the registered webhook.
func setUp(ctx context.Context, binary string, out io.Writer, env ...string) (_ *stage, err error) {
	s := &stage{out: out, env: append(os.Environ(), env...)}
	if s.binary, err = filepath.Abs(binary); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "mirrorset-guard-demo-"); err != nil {
		return nil, err
	}
	s.close = append(s.close, func() { _ = os.RemoveAll(s.dir) })
	start := time.Now()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"a control plane: kube-apiserver and etcd, with OpenShift's own CRDs", s.startCluster},
		{"two registries: " + sourceHost + " and " + mirrorHost, s.startRegistries},
		{"images: the platform's and the shop's at the source, the shop's at the mirror", s.fillRegistries},
		{"a small cluster as objects: nodes, pools, routers, applications, and the policy that asks for signatures of the platform", s.fillCluster},
		{"the guard, with the rights of its manifests", s.startGuard},
		{"the webhook, from the manifests", s.register},
	} {
		fmt.Fprintf(out, "%5.1fs  %s\n", time.Since(start).Seconds(), step.what)
		if err := step.do(ctx); err != nil {
			s.tearDown()
			return nil, fmt.Errorf("setting up %s: %w", step.what, err)
		}
	}
	fmt.Fprintf(out, "%5.1fs  ready\n", time.Since(start).Seconds())
	return s, nil
}

// tearDown stops what was started, in reverse order.
func (s *stage) tearDown() {
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
	s.close = nil
}

func (s *stage) startCluster(context.Context) (err error) {
	if s.cluster, err = cluster.Start(s.dir); err != nil {
		return err
	}
	s.cluster.Dir = s.dir
	s.close = append(s.close, func() { _ = s.cluster.Stop() })
	return nil
}

func (s *stage) startRegistries(context.Context) (err error) {
	dir := filepath.Join(s.dir, "tls")
	if err = os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if s.ca, err = certificates.SelfSigned(dir, []string{"127.0.0.1", sourceHost, mirrorHost}, 24*time.Hour); err != nil {
		return err
	}
	if s.source, err = s.startRegistry("source"); err != nil {
		return err
	}
	s.mirror, err = s.startRegistry("mirror")
	return err
}

func (s *stage) startRegistry(name string) (*registries.Process, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	logs, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	p, err := registries.StartProcess(dir, filepath.Join(s.dir, "tls", certs.CertFile), filepath.Join(s.dir, "tls", certs.KeyFile), logs)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, func() { _ = p.Stop() })
	return p, nil
}

// fillRegistries pushes the shop's images to both registries and the router, an
// index for both architectures, to the source only.
func (s *stage) fillRegistries(ctx context.Context) error {
	for _, image := range []string{"shop/cart:v1", "shop/migrate:v1", "shop/legacy:v1", "shop/report:v2"} {
		for _, host := range []string{sourceHost, mirrorHost} {
			if err := s.push(ctx, host+"/"+image); err != nil {
				return err
			}
		}
	}
	index, err := registries.Index("router")
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	s.router = digest.String()
	ref, err := name.ParseReference(sourceHost + "/" + routerRepo + "@" + s.router)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, s.remote(ctx)...); err != nil {
		return err
	}
	return s.signRouter(ctx, index)
}

// release is the key with which the platform is signed.
const release = signer.Key("release")

// signRouter pushes the signatures of the router's parts to the source.
func (s *stage) signRouter(ctx context.Context, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, part := range manifest.Manifests {
		digest := part.Digest.String()
		signature := release.Sign(sourceHost+"/"+routerRepo+":4.22.1", digest)
		if err := s.pushSignature(ctx, sourceHost+"/"+routerRepo+":"+signer.Tag(digest), signature); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) pushSignature(ctx context.Context, at string, signature signing.Signature) error {
	ref, err := name.ParseReference(at)
	if err != nil {
		return err
	}
	img, err := registries.NewAttached(signer.Attach(signature))
	if err != nil {
		return err
	}
	return remote.Write(ref, img, s.remote(ctx)...)
}

func (s *stage) push(ctx context.Context, image string) error {
	ref, err := name.ParseReference(image)
	if err != nil {
		return err
	}
	_, repo, _ := strings.Cut(image, "/") // both hold the same content
	img, err := registries.Image(repo)
	if err != nil {
		return err
	}
	return remote.Write(ref, img, s.remote(ctx)...)
}

// copyImage does what skopeo copy --all would.
func (s *stage) copyImage(ctx context.Context, from, to string) error {
	source, err := name.ParseReference(from)
	if err != nil {
		return err
	}
	target, err := name.ParseReference(to)
	if err != nil {
		return err
	}
	index, err := remote.Index(source, s.remote(ctx)...)
	if err != nil {
		return err
	}
	return remote.WriteIndex(target, index, s.remote(ctx)...)
}

// remote directs the names of the story's registries to loopback.
func (s *stage) remote(ctx context.Context) []remote.Option {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ca)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := map[string]string{sourceHost + ":443": s.source.Addr, mirrorHost + ":443": s.mirror.Addr}[addr]
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	}
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport)}
}

// object returns one of the story's files, with the router's digest in it.
func (s *stage) object(file string) (string, error) {
	data, err := objects.ReadFile("objects/" + file)
	return strings.NewReplacer("{router}", s.router, "{key}", base64.StdEncoding.EncodeToString(release.PEM())).Replace(string(data)), err
}

func (s *stage) fillCluster(ctx context.Context) error {
	for _, file := range []string{"cluster.yaml", "policy.yaml"} {
		text, err := s.object(file)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// apply applies objects that are part of the scenery.
func (s *stage) apply(ctx context.Context, text string) error {
	if out, err := s.cluster.Kubectl(ctx, text, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// access are the manifests that give the guard its account and its rights.
var access = []string{
	"namespace.yaml", "serviceaccount.yaml", "clusterrole.yaml", "clusterrolebinding.yaml",
	"pullsecret-role.yaml", "pullsecret-rolebinding.yaml", "registryca-role.yaml", "registryca-rolebinding.yaml",
	"events-role.yaml", "events-rolebinding.yaml", "lease-role.yaml", "lease-rolebinding.yaml",
}

// startGuard starts the guard as the service account of its manifests and waits
// until it is ready.
func (s *stage) startGuard(ctx context.Context) error {
	for _, file := range access {
		text, err := manifests.Base.ReadFile("base/" + file)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, string(text)); err != nil {
			return err
		}
	}
	kubeconfig, err := s.serviceAccount(ctx)
	if err != nil {
		return err
	}
	addresses, err := ports.Free("127.0.0.1", 3)
	if err != nil {
		return err
	}
	s.listen, s.health = addresses[0], addresses[1]
	caFile := filepath.Join(s.dir, "tls", certificates.CAFile)
	// The story changes registries faster than facts expire.
	config := filepath.Join(s.dir, "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\nfactLifetime: 1ms\n"), 0o600); err != nil {
		return err
	}
	s.guard = exec.Command(s.binary, "serve", "--kubeconfig", kubeconfig,
		"--tls-dir", filepath.Join(s.dir, "tls"), "--webhook-bind-address", s.listen, "--health-probe-bind-address", s.health, "--metrics-bind-address", addresses[2],
		"--registry-ca", caFile, "--resolve", sourceHost+"="+s.source.Addr, "--resolve", mirrorHost+"="+s.mirror.Addr,
		"--config", config,
		"--shutdown-delay", "0s")
	s.guard.Env = s.env
	if s.logs, err = os.Create(filepath.Join(s.dir, "guard.log")); err != nil {
		return err
	}
	s.guard.Stderr = s.logs
	if err := s.guard.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = s.guard.Wait() // a signal ends it
		close(ended)
	}()
	s.close = append(s.close, func() {
		_ = s.guard.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(maxWait):
			_ = s.guard.Process.Kill()
		}
	})
	return s.waitReady(ctx, ended)
}

// maxWait is how long the guard may take to be ready, to be asked, and to end.
const maxWait = 2 * time.Minute

func (s *stage) waitReady(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	last := errors.New("no answer")
	for {
		select {
		case <-ended:
			log, _ := os.ReadFile(s.logs.Name())
			return fmt.Errorf("the guard ended:\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("the guard is not ready: %w", last)
		case <-time.After(50 * time.Millisecond):
		}
		resp, err := http.Get("http://" + s.health + "/readyz")
		if err != nil {
			last = err
			continue
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		last = errors.New(string(body))
	}
}

// serviceAccount writes a kubeconfig with a token of the guard's own account.
func (s *stage) serviceAccount(ctx context.Context) (string, error) {
	token, err := s.cluster.Kubectl(ctx, "", "create", "token", webhook.ServiceName, "--namespace", webhook.Namespace, "--duration", "4h")
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, token)
	}
	path := filepath.Join(s.dir, "guard.kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: demo, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: guard, user: {token: %q}}]
contexts: [{name: demo, context: {cluster: demo, user: guard}}]
current-context: demo
`, s.cluster.Config.Host, base64CA(s.cluster.Config.CAData), strings.TrimSpace(token))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// register registers the webhook of the manifests at the guard's own address, and
// waits until the API server asks it.
func (s *stage) register(ctx context.Context) error {
	config, err := process.WebhooksAt("https://"+s.listen, s.ca)
	if err != nil {
		return err
	}
	for i := range config.Webhooks {
		config.Webhooks[i].TimeoutSeconds = new(int32(30)) // the machine may be busy
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, string(text)); err != nil {
		return err
	}
	return s.waitGuarded(ctx)
}

// waitGuarded repeats a dry run that the guard is sure to refuse, until it is refused.
func (s *stage) waitGuarded(ctx context.Context) error {
	text, err := s.object("everything.yaml")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		out, err := s.cluster.Kubectl(ctx, text, "create", "--dry-run=server", "-f", "-")
		if err != nil && strings.Contains(out, "denied the request") {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the API server does not ask the guard: %s", out)
		}
	}
}

// residentKB returns the memory of the guard in kB, 0 if /proc does not say.
func (s *stage) residentKB() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.guard.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		var kb int
		if n, _ := fmt.Sscanf(string(line), "VmRSS: %d kB", &kb); n == 1 {
			return kb
		}
	}
	return 0
}
