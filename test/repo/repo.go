// Package repo says where this repository is.
package repo

import (
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
