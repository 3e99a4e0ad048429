// Package clitest has what the tests of several groups of commands share.
package clitest

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// An Outcome is what a command wrote and ended with.
type Outcome struct {
	Out, Err string
	Code     int
}

// String is an outcome as files in testdata have it.
func (o Outcome) String() string {
	text := o.Out
	if o.Err != "" {
		text += "standard error: " + o.Err
	}
	if o.Code != 0 {
		text += fmt.Sprintf("exit code: %d\n", o.Code)
	}
	return text
}

// A Program is what runs commands: cli.Run with some of them.
type Program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Invoke runs a command in this process.
func Invoke(t testing.TB, run Program, stdin string, args ...string) Outcome {
	t.Helper()
	var out, err bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(stdin), &out, &err)
	return Outcome{out.String(), err.String(), code}
}

// Written writes text to a file for -f or --from.
func Written(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// RegistryAt starts a registry that is known as example.com, and under two names below
// that, and returns the flags that lead there.
func RegistryAt(t testing.TB, handler http.HandlerFunc) (flags []string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificates.StartTLS(server)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	flags = []string{"--registry-ca", Written(t, "ca.pem", string(ca)), "--allow-loopback"}
	for _, host := range []string{"example.com", "quay.example.com", "other.example.com"} {
		flags = append(flags, "--resolve", host+"="+strings.TrimPrefix(server.URL, "https://"))
	}
	return flags
}

// Story returns the objects of one of test/scenarios, and its change.
func Story(t *testing.T, name string) (objects, change string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "scenarios", "testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range txtar.Parse(data).Files {
		switch f.Name {
		case "objects.yaml":
			objects = string(f.Data)
		case "put.yaml":
			change = string(f.Data)
		}
	}
	if objects == "" || change == "" {
		t.Fatalf("%s has no objects, or no change", name)
	}
	return objects + "---\napiVersion: v1\nkind: ResourceQuotaList\nitems: []\n", change
}

// TestDigest is that of no image.
const TestDigest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// CartDeployment uses an image, for which shopMirror has a mirror.
const (
	CartDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"cart"},"spec":{"selector":{"matchLabels":{"app":"cart"}},"template":{"metadata":{"labels":{"app":"cart"}},"spec":{"containers":[{"name":"app","image":"quay.example.com/shop/cart:v1"}]}}}}`
	// Worker is a node.
	Worker     = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker"},"status":{"nodeInfo":{"operatingSystem":"linux","architecture":"amd64"}}}`
	ShopMirror = `{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"shop"},"spec":{"imageTagMirrors":[{"source":"quay.example.com/shop","mirrors":["example.com/shop"],"mirrorSourcePolicy":"NeverContactSource"}]}}`
)

// WatchPool is a pool whose nodes have rendered-worker-1.
const WatchPool = `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {machineconfiguration.openshift.io/mco-built-in: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-1}
`

// ConfigHeader is how a configuration file begins.
const ConfigHeader = "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"

// WatchLimit bounds how long a test waits for an event. A machine that is short of time may take long
// to start an API server, and client-go to try again after that.
const WatchLimit = 5 * time.Minute
