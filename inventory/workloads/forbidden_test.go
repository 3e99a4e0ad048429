package workloads

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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
