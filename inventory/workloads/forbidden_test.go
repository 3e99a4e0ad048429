package workloads

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestSecurityVersions: what only later versions of the standards allow, an API server or a namespace may forbid.
func TestSecurityVersions(t *testing.T) {
	for _, tt := range []struct {
		sysctl string
		want   rollout.SecurityLevel
	}{
		{"kernel.shm_rmid_forced", rollout.Baseline},
		{"net.ipv4.ip_local_reserved_ports", ""}, // since 1.27
		{"net.ipv4.tcp_keepalive_time", ""},      // since 1.29
		{"kernel.msgmax", ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: tt.sysctl, Value: "1"}}}, Containers: []corev1.Container{{Name: "c"}},
		}}
		if got := securityOf(pod); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.sysctl, got, tt.want)
		}
	}
}

// TestSecurityIsTheAPIServers holds the levels to the API server's own evaluation, version by version.
func TestSecurityIsTheAPIServers(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := func(change func(*corev1.PodSpec, *corev1.SecurityContext)) *corev1.Pod {
		own := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
		spec := corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers:      []corev1.Container{{Name: "c", SecurityContext: own}},
		}
		change(&spec, own)
		return &corev1.Pod{Spec: spec}
	}
	met := map[rollout.SecurityLevel]int{}
	for i, pod := range []*corev1.Pod{
		restricted(func(*corev1.PodSpec, *corev1.SecurityContext) {}),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Privileged = new(true) }),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil }),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Capabilities = nil }),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Capabilities.Add = []corev1.Capability{"CHOWN"} }),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) {
			c.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		}),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.RunAsUser = new(int64) }),
		restricted(func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.ProcMount = new(corev1.UnmaskedProcMount) }),
		restricted(func(s *corev1.PodSpec, c *corev1.SecurityContext) {
			c.ProcMount, s.HostUsers = new(corev1.UnmaskedProcMount), new(false)
		}),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) {
			s.HostUsers, s.SecurityContext.RunAsNonRoot = new(false), nil
		}),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) { s.SecurityContext = nil }),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) { s.SecurityContext.SeccompProfile = nil }),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) { s.HostNetwork = true }),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) { s.OS = &corev1.PodOS{Name: corev1.Windows} }),
		restricted(func(s *corev1.PodSpec, c *corev1.SecurityContext) {
			s.OS, c.Capabilities, s.SecurityContext.SeccompProfile = &corev1.PodOS{Name: corev1.Windows}, nil, nil
		}),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) {
			s.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.1"}}}
		}),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) {
			s.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_engine_t"}
		}),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}),
		restricted(func(s *corev1.PodSpec, _ *corev1.SecurityContext) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "a"}}}}
		}),
		{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}},
		{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{HostPort: 80}}}}}},
	} {
		want := rollout.SecurityLevel("")
		for _, level := range []rollout.SecurityLevel{rollout.Baseline, rollout.Restricted} {
			allowed := true
			for minor := rollout.OldestStandards; minor < rollout.OldestStandards+30; minor++ {
				at := api.LevelVersion{Level: api.Level(level), Version: api.MajorMinorVersion(1, minor)}
				allowed = allowed && policy.AggregateCheckResults(evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)).Allowed
			}
			if allowed {
				want = level
			}
		}
		met[want]++
		if got := securityOf(pod); got != want {
			t.Errorf("pod %d: got %q, want %q", i, got, want)
		}
	}
	if len(met) != 3 {
		t.Errorf("pods by level: %v, want some of each", met)
	}
}
