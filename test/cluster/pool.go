package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// poolVariable names the folder of a pool of clusters, for the tests that NewPool was made for.
const poolVariable = "CLUSTER_POOL"

// A Pool is some running clusters that tests of several packages use in turn: in its folder, a
// kubeconfig for each. Who holds the lock on one has that cluster alone.
type Pool struct {
	dir      string
	clusters []*Cluster
}

// NewPool starts a pool of n clusters in dir. It is to be stopped.
func NewPool(dir string, n int) (*Pool, error) {
	p := &Pool{dir: dir}
	for i := range n {
		own := filepath.Join(dir, fmt.Sprint("cluster-", i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		c, err := Start(own)
		if err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		p.clusters = append(p.clusters, c)
	}
	return p, nil
}

// Environment is the variable by which tests find the pool.
func (p *Pool) Environment() string { return poolVariable + "=" + p.dir }

// noteStart leaves a file in the pool's folder, if there is a pool: one for each API server.
func noteStart() error {
	dir := os.Getenv(poolVariable)
	if dir == "" {
		return nil
	}
	f, err := os.CreateTemp(dir, "started-")
	if err != nil {
		return err
	}
	return f.Close()
}

// Started is the number of API servers that were started, those of tests among them.
func (p *Pool) Started() (int, error) {
	started, err := filepath.Glob(filepath.Join(p.dir, "started-*"))
	return len(p.clusters) + len(started), err
}

// Stop ends the clusters.
func (p *Pool) Stop() error {
	var errs []error
	for _, c := range p.clusters {
		errs = append(errs, c.Stop())
	}
	return errors.Join(errs...)
}

// pooled returns a cluster of the pool, once one is free, or nil if there is none. dir is for the
// caller's own kubeconfig.
func pooled(dir string) (*Cluster, error) {
	for {
		kubeconfigs, err := filepath.Glob(filepath.Join(os.Getenv(poolVariable), "cluster-*", "kubeconfig"))
		if err != nil || os.Getenv(poolVariable) == "" || len(kubeconfigs) == 0 { // all may be spoilt
			return nil, err
		}
		for _, file := range kubeconfigs {
			lock, err := tryLock(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has just been spoilt
			}
			if err != nil {
				return nil, err
			}
			if lock != nil {
				return borrow(file, dir, lock)
			}
		}
		time.Sleep(20 * time.Millisecond) // flock has no way to wait for any of several
	}
}

// tryLock returns file with a lock on it, or nil if another process has that.
func tryLock(file string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// borrow opens the cluster of a kubeconfig, with a copy of that in dir, and notes its contents.
func borrow(kubeconfig, dir string, lock *os.File) (*Cluster, error) {
	assets, err := repo.Assets()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 2000 // as envtest has it
	c := &Cluster{Config: config, Kubeconfig: filepath.Join(dir, "kubeconfig"), kubectl: filepath.Join(assets, "kubectl")}
	if err := os.WriteFile(c.Kubeconfig, data, 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	before, err := contentOf(ctx, config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("what the cluster holds: %w", err), lock.Close())
	}
	c.giveBack = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := before.restore(ctx, config); err != nil {
			// It is of no use to others any more.
			return errors.Join(fmt.Errorf("taking away what the test has left: %w", err), os.Remove(kubeconfig), lock.Close())
		}
		return lock.Close()
	}
	return c, nil
}
