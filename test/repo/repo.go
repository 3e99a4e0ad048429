// Package repo says where this repository is, and what was built for its tests.
package repo

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// Root returns the top folder of the repository: of those that hold the working directory, which go test makes that of
// the package, the one with this package. What is compiled with -trimpath does not know where its source is.
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "test", "repo", "repo.go")); err == nil {
			return at
		}
	}
	panic("no folder above " + dir + " is the repository's")
})

// ErrNoAssets is returned by Assets if the programs are missing.
var ErrNoAssets = errors.New("kube-apiserver, etcd and kubectl are not in place: run test/controlplane/assets (make assets)")

// Assets returns the folder that holds kube-apiserver, etcd, kubectl and, unless
// KUBEBUILDER_ASSETS names it, registry; or ErrNoAssets.
func Assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(Root(), "bin", "k8s")
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", ErrNoAssets
		}
	}
	return dir, nil
}
