package manifests

import (
	"path"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
)

// TestConfigMapHoldsTheDefaults: what can be set is there to be edited, and nothing is set to
// something else without saying so.
func TestConfigMapHoldsTheDefaults(t *testing.T) {
	var m corev1.ConfigMap
	read(t, "configmap.yaml", &m)
	want, err := config.Default().YAML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), m.Data["config.yaml"]); diff != "" || len(m.Data) != 1 {
		t.Errorf("mirrorset-guard config defaults prints other text (-want +got):\n%s", diff)
	}
	if _, err := config.Parse([]byte(m.Data["config.yaml"])); err != nil {
		t.Error(err)
	}
}

// TestDeploymentReadsTheConfigMap: as a folder, which a kubelet keeps up to date.
func TestDeploymentReadsTheConfigMap(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	var m corev1.ConfigMap
	read(t, "configmap.yaml", &m)
	pod := d.Spec.Template.Spec
	container := pod.Containers[0]
	i := slices.IndexFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--config=") })
	if i < 0 {
		t.Fatal("no --config")
	}
	folder, file := path.Split(strings.TrimPrefix(container.Args[i], "--config="))
	if m.Data[file] == "" || m.Namespace != d.Namespace {
		t.Errorf("ConfigMap %s/%s has no %s", m.Namespace, m.Name, file)
	}
	i = slices.IndexFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.MountPath == path.Clean(folder) })
	if i < 0 {
		t.Fatalf("nothing is mounted at %s", folder)
	}
	mount := container.VolumeMounts[i]
	if mount.SubPath != "" || mount.SubPathExpr != "" || !mount.ReadOnly {
		t.Errorf("mounted as %+v: a single file would not change", mount)
	}
	i = slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if i < 0 || pod.Volumes[i].ConfigMap == nil || pod.Volumes[i].ConfigMap.Name != m.Name {
		t.Errorf("volume %s is not ConfigMap %s", mount.Name, m.Name)
	}
}
