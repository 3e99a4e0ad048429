package rollout

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
)

// inDumps checks that dumps of the cluster show the causes as well: one of the guard's own, and a
// must-gather.
func (s *scene) inDumps(ctx context.Context) {
	s.Helper()
	dir := s.TempDir()
	snapshot, gathered := filepath.Join(dir, "snapshot.json"), filepath.Join(dir, "must-gather.tar.gz")
	s.shell.run(ctx, "mirrorset-guard snapshot -f "+snapshot)
	if err := s.gather(ctx, gathered); err != nil {
		s.Fatal(err)
	}
	for _, dump := range []string{snapshot, gathered} {
		if d, code := s.diagnose(ctx, dump); code != 1 || isFound(d, true) != "" {
			s.Errorf("%s: exit code %d, %s\n%+v", filepath.Base(dump), code, isFound(d, true), d)
		}
	}
}

// gatheredResources are in must-gathers, each in a file of its own here.
var gatheredResources = []string{
	"nodes", "namespaces", "pods", "poddisruptionbudgets", "machineconfigpools", "machineconfigs", "controllerconfigs", "machineconfigurations",
	"infrastructures", "images.config.openshift.io", "imagetagmirrorsets", "imagedigestmirrorsets", "clusterversions",
}

// gather writes a must-gather as it is sent.
func (s *scene) gather(ctx context.Context, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for _, resource := range gatheredResources {
		text := s.shell.run(ctx, "kubectl get "+resource+" --all-namespaces -o yaml")
		err := w.WriteHeader(&tar.Header{Name: "must-gather/" + resource + ".yaml", Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close(), f.Close())
}
