package standing

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

const syncUser = "system:serviceaccount:mirrorset-guard:mirrorset-guard-sync"

// A syncJob is the CronJob of the overlay sync.
type syncJob struct {
	*stage
	args   []string // of its container, with what is mounted elsewhere
	role   rbacv1.ClusterRole
	rights []cluster.Right
}

// TestSyncJob: an API server takes the CronJob of the overlay; its command, with the rights of its account alone, each of which it needs,
// copies what mirrors lack; and without a right it says that it does not know, instead of that all is well.
func TestSyncJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, audit := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	must(t, os.WriteFile(policy, []byte(cluster.AuditOf(syncUser)), 0o600))
	job := newSyncJob(t, setUp(t, cluster.WithAudit(policy, audit)))
	job.run(t, 0, "all verified")

	job.remove(t, "report")
	job.remove(t, "cart")
	job.run(t, 0, "Copied 2 of 2 images", "all verified")
	for _, image := range []string{"report", "cart"} {
		if _, err := remote.Head(job.tag(t, mirrorHost, image).Context().Digest(job.digestOf(t, image)), job.remote()...); err != nil {
			t.Errorf("the mirror lacks %s: %v", image, err)
		}
	}
	unused, forbidden, err := cluster.Use(audit, job.rights, true)
	must(t, err)
	for _, r := range unused {
		if r.Name != "99-worker-generated-registries" { // which is read when MCO rejects what is in force
			t.Errorf("nothing uses %+v", r)
		}
	}
	for _, r := range forbidden {
		t.Errorf("forbidden: %+v", r)
	}

	for _, lost := range []struct{ group, resource string }{{"apps", "deployments"}, {"config.openshift.io", "imagetagmirrorsets"}, {"", "nodes"}, {"machineconfiguration.openshift.io", "machineconfigs"}} {
		t.Run("without "+lost.resource, func(t *testing.T) {
			job.grant(t, lost.group, lost.resource)
			defer job.grant(t, "", "")
			must(t, cluster.AwaitRefusal(t.Context(), job.cluster.Config, syncUser, authorizationv1.ResourceAttributes{Verb: "list", Group: lost.group, Resource: lost.resource}))
			job.run(t, 2, lost.resource)
		})
	}
}

func newSyncJob(t *testing.T, s *stage) *syncJob {
	t.Helper()
	job := &syncJob{stage: s}
	built := s.kubectl(t, "", "kustomize", filepath.Join(repo.Root(), "manifests", "overlays", "sync"))
	s.kubectl(t, "", "create", "secret", "docker-registry", "mirrorset-guard-push", "-n", "mirrorset-guard",
		"--docker-server="+mirrorHost, "--docker-username=pusher", "--docker-password=secret")
	var cron batchv1.CronJob
	mounted := map[string]map[string]string{} // by the name of the volume's object
	for doc := range strings.SplitSeq(built, "\n---\n") {
		object := decoded[metav1.PartialObjectMetadata](t, doc)
		if object.Labels["app.kubernetes.io/name"] == "mirrorset-guard-sync" {
			s.apply(t, doc)
		}
		switch object.Kind {
		case "CronJob":
			cron = decoded[batchv1.CronJob](t, doc)
		case "ConfigMap":
			m := decoded[corev1.ConfigMap](t, doc)
			mounted[m.Name] = m.Data
		case "Role", "ClusterRole":
			role := decoded[rbacv1.ClusterRole](t, doc)
			if role.Name != "mirrorset-guard-sync" {
				break
			}
			if object.Kind == "ClusterRole" {
				job.role = role
			}
			defer func() {
				must(t, cluster.AwaitRights(t.Context(), s.cluster.Config, syncUser, role.Namespace, role.Rules))
			}()
			job.rights = append(job.rights, cluster.RightsOf(role.Namespace, role.Rules)...)
		}
	}
	mounted["mirrorset-guard-push"] = map[string]string{".dockerconfigjson": s.kubectl(t, "", "get", "secret", "mirrorset-guard-push", "-n", "mirrorset-guard", "-o", `go-template={{index .data ".dockerconfigjson" | base64decode}}`)}
	pod := cron.Spec.JobTemplate.Spec.Template.Spec
	if len(pod.Containers) != 1 || "system:serviceaccount:"+cron.Namespace+":"+pod.ServiceAccountName != syncUser {
		t.Fatalf("it runs as %s: %+v", pod.ServiceAccountName, pod)
	}
	job.args = slices.Clone(pod.Containers[0].Args)
	for _, volume := range pod.Volumes {
		name := ""
		if volume.ConfigMap != nil {
			name = volume.ConfigMap.Name
		} else {
			name = volume.Secret.SecretName
		}
		job.mount(t, volume.Name, pod.Containers[0].VolumeMounts, mounted[name])
	}
	return job
}

// mount writes what a volume holds, and has the arguments name it there.
func (j *syncJob) mount(t *testing.T, volume string, mounts []corev1.VolumeMount, files map[string]string) {
	t.Helper()
	at := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	dir := t.TempDir()
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for i := range j.args {
		j.args[i] = strings.Replace(j.args[i], mounts[at].MountPath, dir, 1)
	}
}

func decoded[T any](t *testing.T, doc string) (o T) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(doc), &o))
	return o
}

// run runs the CronJob's command as its account.
func (j *syncJob) run(t *testing.T, code int, says ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), j.binary, append(slices.Clone(j.args),
		"--kubeconfig", process.KubeconfigOf(t, j.cluster, j.dir, "mirrorset-guard-sync"), "--registry-ca", filepath.Join(j.dir, "tls", certificates.CAFile),
		"--resolve", sourceHost+"="+j.source.Addr, "--resolve", mirrorHost+"="+j.mirror.Addr)...)
	out, _ := cmd.CombinedOutput() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, out)
	}
	for _, want := range says {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}

// grant applies the ClusterRole without a resource.
func (j *syncJob) grant(t *testing.T, group, resource string) {
	t.Helper()
	role := j.role.DeepCopy()
	for i := range role.Rules {
		if r := &role.Rules[i]; r.APIGroups[0] == group {
			r.Resources = slices.DeleteFunc(r.Resources, func(of string) bool { return of == resource })
		}
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 })
	text, err := yaml.Marshal(role)
	must(t, err)
	j.apply(t, string(text))
}

// digestOf returns the digest of image shop/NAME:v1 at its source.
func (j *syncJob) digestOf(t *testing.T, image string) string {
	t.Helper()
	head, err := remote.Head(j.tag(t, sourceHost, image), j.remote()...)
	must(t, err)
	return fmt.Sprint(head.Digest)
}
