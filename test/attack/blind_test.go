package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// pods is where the ClusterRole has the right to pods.
const pods = "/rules/0/resources/3"

// testBlind: guards that cannot list pods do not admit what may break pods that they cannot see.
func testBlind(t *testing.T, s *stage) {
	s.introduce(t)
	s.hand(t, "", "patch", "clusterrole", "mirrorset-guard", "--type=json", "-p", fmt.Sprintf(`[{"op": "test", "path": %q, "value": "pods"}, {"op": "remove", "path": %[1]q}]`, pods))
	right := authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}
	must(t, cluster.AwaitRefusal(t.Context(), s.cluster.Config, process.User, right))
	start := time.Now()
	s.wire.Cut()
	s.wire.Mend()
	for _, g := range s.guards {
		g.Eventually(t, "it says that it is blind", func() bool {
			_, notes := g.Readyz()
			return strings.Contains(notes, "note: pods out of reach")
		})
	}
	t.Logf("known after %s", time.Since(start).Round(10*time.Millisecond))
	s.front.PushImage(t, "quay.io/late/app:v1", "tag")
	s.hand(t, "{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: shop}, spec: {containers: [{name: c, image: quay.io/late/app:v1}]}}", "create", "-f", "-")
	alice, hand := s.as(t, "alice"), s.as(t, stageHand)
	bad := tagSet("late", "quay.io/late", "mirror.example.com/late", never)
	admitted, took := 0, new(sample)
	for range campaign.Times(4, 40) {
		begun := time.Now()
		err := alice.create(t.Context(), bad)
		took.add(time.Since(begun), nil)
		switch {
		case err == nil:
			admitted++
			must(t, hand.remove(t.Context(), bad))
		case !strings.Contains(err.Error(), "out of date") && !isUndecided(err):
			t.Error(err)
		}
	}
	harmless := tagSet("harmless", "quay.io/harmless", "mirror.example.com/harmless")
	insist(t, func() error { // it takes no place away
		return alice.dryRun(t.Context(), strings.Replace(harmless, "mirrors: [mirror.example.com/harmless]", "mirrors: [quay.io/harmless]", 1))
	})
	t.Logf("admitted %d of %s", admitted, took)
	if admitted > 0 {
		t.Errorf("admitted %d times", admitted)
	}
	s.hand(t, "", "patch", "clusterrole", "mirrorset-guard", "--type=json", "-p", fmt.Sprintf(`[{"op": "add", "path": %q, "value": "pods"}]`, pods))
	must(t, cluster.AwaitRight(t.Context(), s.cluster.Config, process.User, right))
	start = time.Now()
	s.guards[0].Eventually(t, "the pod is known again", func() bool {
		err := alice.create(t.Context(), bad)
		if err == nil {
			t.Fatal("admitted")
		}
		return strings.Contains(err.Error(), "quay.io/late/app:v1")
	})
	t.Logf("seen again after %s", time.Since(start).Round(10*time.Millisecond))
	s.hand(t, "", "delete", "pod", "late", "-n", "shop", "--now")
}

// deadWays are the ways in which a tenant names an image that never ran.
var deadWays = []struct{ name, object string }{
	{"a pod that no node has tried", "{apiVersion: v1, kind: Pod, META, spec: {POD}}"},
	{"a pod whose node did not get it", "{apiVersion: v1, kind: Pod, META, spec: {POD}, status: {phase: Pending, containerStatuses: " +
		"[{NEVER, state: {waiting: {reason: ImagePullBackOff}}}]}}"},
	{"a pod that ended without it", deadDeployment + "\n---\n{apiVersion: v1, kind: Pod, META, spec: {POD}, status: {phase: Failed, containerStatuses: " +
		"[{NEVER, state: {terminated: {reason: ContainerStatusUnknown, exitCode: 137}}}]}}"},
	{"a template", "{apiVersion: v1, kind: PodTemplate, META, template: {spec: {POD}}}"},
	{"a ReplicationController", "{apiVersion: v1, kind: ReplicationController, META, spec: {replicas: 0, selector: {a: b}, TEMPLATE}}"},
	{"a ReplicaSet", "{apiVersion: apps/v1, kind: ReplicaSet, META, spec: {replicas: 0, SELECTOR, TEMPLATE}}"},
	{"a Deployment at 0", deadDeployment},
	{"a StatefulSet at 0", "{apiVersion: apps/v1, kind: StatefulSet, META, spec: {replicas: 0, serviceName: x, SELECTOR, TEMPLATE}}"},
	{"a DaemonSet without nodes", "{apiVersion: apps/v1, kind: DaemonSet, META, spec: {SELECTOR, TEMPLATE}}"},
	{"a Job that is suspended", "{apiVersion: batch/v1, kind: Job, META, spec: {suspend: true, JOB}}"},
	{"a CronJob that is suspended", "{apiVersion: batch/v1, kind: CronJob, META, spec: {schedule: '@yearly', suspend: true, jobTemplate: {spec: {JOB}}}}"},
}

const deadDeployment = "{apiVersion: apps/v1, kind: Deployment, META, spec: {replicas: 0, SELECTOR, TEMPLATE}}"

// testDeadImage: an image that never ran, which a tenant names in whatever way, with whatever secret, decides about nobody
// else's change.
func testDeadImage(t *testing.T, s *stage) {
	s.front.PushImage(t, "quay.io/dead/cart:v1", "tag")
	s.front.PushImage(t, "mirror.example.com/dead/cart:v1", "tag")
	known := s.guards[0].Value("mirrorset_guard_inventory_images", "")
	objects := []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: idle}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: junk, namespace: idle}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{\"auths\": {\"quay.io\": {\"auth\": \"eDp4\"}}}'}}",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: account, namespace: idle}, imagePullSecrets: [{name: junk}]}",
	}
	images := 0
	for i, way := range deadWays {
		for name, secret := range map[string]string{"missing": "imagePullSecrets: [{name: missing}]", "junk": "imagePullSecrets: [{name: junk}]", "account": "serviceAccountName: account"} {
			images++
			object := strings.NewReplacer("TEMPLATE", "template: {metadata: {labels: {a: b}}, spec: {POD}}", "JOB", "template: {spec: {restartPolicy: Never, POD}}").Replace(way.object)
			objects = append(objects, strings.NewReplacer(
				"META", fmt.Sprintf("metadata: {name: %s-%d, namespace: idle}", name, i),
				"SELECTOR", "selector: {matchLabels: {a: b}}",
				"POD", fmt.Sprintf("%s, containers: [{name: c, image: \"quay.io/dead/%s/%s:v1\"}]", secret, strings.ReplaceAll(strings.ToLower(way.name), " ", "-"), name),
				"NEVER", "name: c, image: x, imageID: '', ready: false, restartCount: 0",
			).Replace(object))
		}
	}
	s.hand(t, strings.Join(objects, "\n---\n"), "create", "-f", "-")
	for _, object := range objects {
		if strings.Contains(object, "status: ") {
			s.hand(t, object, "replace", "--subresource=status", "-f", "-")
		}
	}
	for _, g := range s.guards {
		g.Eventually(t, "it knows of the images", func() bool { return int(g.Value("mirrorset_guard_inventory_images", "")-known) >= images })
	}
	alice := s.as(t, "alice")
	insist(t, func() error {
		return alice.dryRun(t.Context(), tagSet("dead", "quay.io/dead", "mirror.example.com/dead"))
	})
	s.hand(t, strings.Join(objects[1:], "\n---\n"), "delete", "-f", "-", "--wait=false")
}

// testBlips: connections that are cut twice a second do not cost others' changes more than a second.
func testBlips(t *testing.T, s *stage) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(campaign.Times(6, 60))*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			s.wire.Cut()
			s.wire.Mend()
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	took := s.others(ctx, t, "alice")
	t.Logf("small changes meanwhile: %s", took)
	alice, mended := s.as(t, "alice"), tagSet("mended", "mended.example.com", "mirror.example.com/x")
	s.guards[0].Eventually(t, "changes are admitted again", func() bool { return alice.create(t.Context(), mended) == nil })
	s.hand(t, "", "delete", "imagetagmirrorset", "mended")
	if !campaign.On() {
		return // a busy machine reads nothing between two cuts, and is slow in all it does
	}
	if err := took.failed(); err != nil {
		t.Error(err)
	}
	if more := took.at(.95) - s.calm.at(.95); more > time.Second {
		t.Errorf("95 %% of the changes took up to %s longer than in calm times", more)
	}
}
