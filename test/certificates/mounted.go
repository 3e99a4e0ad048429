package certificates

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A Mounted is a secret as a kubelet mounts it: the files of Dir are links into a folder that
// is swapped for another in one step (k8s.io/kubernetes, pkg/volume/util/atomic_writer.go).
type Mounted struct {
	Dir string

	pairs int
}

// dataDir is the link that is swapped.
const dataDir = "..data"

// Mount returns a secret in dir that has no content yet.
func Mount(dir string) (*Mounted, error) {
	m := &Mounted{Dir: dir}
	for _, name := range []string{certFile, keyFile} {
		if err := os.Symlink(filepath.Join(dataDir, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Add makes a pair that is not in use yet, by SelfSigned. It returns the name of the pair for
// Use, and its CA.
func (m *Mounted) Add(hosts []string, validity time.Duration) (name string, caPEM []byte, err error) {
	m.pairs++
	name = fmt.Sprintf("..pair%d", m.pairs)
	dir := filepath.Join(m.Dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil, err
	}
	caPEM, err = SelfSigned(dir, hosts, validity)
	return name, caPEM, err
}

// AddTorn makes a pair of the certificate of one and the key of another, as in a secret that is
// half written.
func (m *Mounted) AddTorn(certFrom, keyFrom string) (name string, err error) {
	m.pairs++
	name = fmt.Sprintf("..pair%d", m.pairs)
	link := func(from, file string) error {
		return os.Symlink(filepath.Join("..", from, file), filepath.Join(m.Dir, name, file))
	}
	if err := os.Mkdir(filepath.Join(m.Dir, name), 0o755); err != nil {
		return "", err
	}
	return name, errors.Join(link(certFrom, certFile), link(keyFrom, keyFile))
}

// Use swaps the pair in use for another.
func (m *Mounted) Use(name string) error {
	tmp := filepath.Join(m.Dir, "..data_tmp")
	return errors.Join(os.Symlink(name, tmp), os.Rename(tmp, filepath.Join(m.Dir, dataDir)))
}
