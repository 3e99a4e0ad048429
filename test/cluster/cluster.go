// Package cluster starts a real kube-apiserver and etcd with OpenShift's own
// CustomResourceDefinitions, for tests and for the demo. It has nothing that would
// run pods, so objects stay as they are written.
//
// It needs the programs that test/controlplane/assets provides, and talks only to
// loopback.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// A Cluster is a running control plane.
type Cluster struct {
	// Config is that of an administrator (system:masters).
	Config *rest.Config
	// Kubeconfig is a file for the same user.
	Kubeconfig string
	// Dir is where kubectl runs; "" for the current folder.
	Dir string

	kubectl string
	env     *envtest.Environment
	// giveBack returns a cluster to the pool that it is of; nil if it is of none.
	giveBack func() error
	// restarted is the API server after KillAPIServer and StartAPIServer, apiServerArgs its
	// command line.
	restarted     *exec.Cmd
	apiServerArgs []string
}

// An Option changes how the programs are started.
type Option func(*envtest.ControlPlane)

// WithAudit makes the API server write an audit log to a file, one JSON object per line,
// by an audit policy in another file.
func WithAudit(policyFile, logFile string) Option {
	return func(c *envtest.ControlPlane) {
		c.GetAPIServer().Configure().Append("audit-policy-file", policyFile).Append("audit-log-path", logFile)
	}
}

// WithAdmission makes the API server read how it is to call webhooks from an
// AdmissionConfiguration in a file.
func WithAdmission(file string) Option {
	return func(c *envtest.ControlPlane) {
		c.GetAPIServer().Configure().Append("admission-control-config-file", file)
	}
}

// Start starts a cluster whose files live in dir. The caller stops it.
func Start(dir string, options ...Option) (*Cluster, error) {
	assets, err := repo.Assets()
	if err != nil {
		return nil, err
	}
	crds, err := openshiftCRDs()
	if err != nil {
		return nil, err
	}
	env, err := StartEnvironment(func() *envtest.Environment {
		env := &envtest.Environment{
			BinaryAssetsDirectory: assets,
			CRDInstallOptions:     envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true},
		}
		// Pods name service accounts that no controller creates here.
		env.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "ServiceAccount")
		for _, option := range options {
			option(&env.ControlPlane)
		}
		return env
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Config: env.Config, Kubeconfig: filepath.Join(dir, "kubeconfig"), kubectl: filepath.Join(assets, "kubectl"), env: env}
	if err := os.WriteFile(c.Kubeconfig, env.KubeConfig, 0o600); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return c, nil
}

// setLogger sets the logger of controller-runtime, which otherwise complains that it has
// none. SetLogger must not be called by two tests at once.
var setLogger = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// Stop ends the control plane, or gives it back.
func (c *Cluster) Stop() error {
	if c.giveBack != nil {
		return c.giveBack()
	}
	var err error
	if c.restarted != nil {
		err = errors.Join(c.restarted.Process.Kill(), ended(c.restarted))
	}
	return errors.Join(err, c.env.Stop())
}

// OpenShiftAPI returns the folder of the module openshift/api, where CRDs are.
func OpenShiftAPI() (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api")
	cmd.Dir = repo.Root()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the openshift/api module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// openshiftCRDs returns the files that define the kinds the guard reads.
func openshiftCRDs() ([]string, error) {
	api, err := OpenShiftAPI()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range []string{
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagetagmirrorsets.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagedigestmirrorsets.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_images.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_clusterimagepolicies.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagepolicies.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_featuregates.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
		"operator/v1alpha1/zz_generated.crd-manifests/0000_10_config-operator_01_imagecontentsourcepolicies.crd.yaml",
		"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigpools-SelfManagedHA.crd.yaml",
		"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigs.crd.yaml",
		"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_pinnedimagesets.crd.yaml",
	} {
		files = append(files, filepath.Join(api, filepath.FromSlash(name)))
	}
	return files, nil
}

// Kubectl runs kubectl as an administrator would, with stdin if it is not "".
// The error of a command that ran and failed is an *exec.ExitError; output is
// what it wrote to both streams.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (output string, err error) {
	cmd := c.KubectlCommand(ctx, args...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// KubectlCommand is the command that Kubectl runs.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.kubectl, args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	return cmd
}

// KubectlPath is the program, for instructions that people read.
func (c *Cluster) KubectlPath() string { return c.kubectl }
