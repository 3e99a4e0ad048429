package objects

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

func renderedJSON(file, rest string) []byte {
	return []byte(`{"metadata": {"name": "rendered-worker-1"}, "spec": {"osImageURL": "quay.io/os:1", "kernelArguments": ["a"], "config": {
		"storage": {"files": [` + file + `]}` + rest + `}}}`)
}

// TestDecodeApplied: the files of a MachineConfig are read in each form that MCO gives, or gave, them, and the file that cannot be read is named.
func TestDecodeApplied(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte("a = 1\n")); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	zipped := base64.StdEncoding.EncodeToString(b.Bytes())
	for name, tt := range map[string]struct{ source, compression, fails string }{
		"base64, as MCO writes it": {"data:text/plain;charset=utf-8;base64,YSA9IDEK", "", ""},
		"plain, as it used to":     {"data:text/plain,a%20%3D%201%0A", "", ""},
		"compressed":               {"data:;base64," + zipped, "gzip", ""},
		"no data URL":              {"https://example.com/file", "", "its contents are not a data URL"},
		"a compression that Ignition does not have": {"data:,x", "xz", `its compression "xz" is unknown`},
		"not compressed": {"data:,plain%20text", "gzip", "gzip: invalid header"},
		"no base64":      {"data:;base64,%%", "", `invalid URL escape "%%"`},
	} {
		file := fmt.Sprintf(`{"path": "/etc/containers/registries.conf", "contents": {"source": %q, "compression": %q}}`, tt.source, tt.compression)
		got, err := DecodeApplied(renderedJSON(file, ""))
		switch {
		case tt.fails != "":
			if want := "reading MachineConfig 99-worker-generated-registries: /etc/containers/registries.conf: " + tt.fails; err == nil || err.Error() != want {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		case err != nil || string(got.Files[mirrors.RegistriesConfPath]) != "a = 1\n":
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestDecodeRendered(t *testing.T) {
	const (
		conf = `{"path": "/etc/containers/registries.conf", "contents": {"source": "data:,a%20%3D%201%0A"}}`
		motd = `{"path": "/etc/motd", "mode": 420, "contents": {"source": "data:,secret"}}`
		unit = `, "systemd": {"units": [{"name": "a.service", "contents": "secret"}]}, "passwd": {"users": [{"name": "core"}]}`
	)
	r, err := DecodeRendered(renderedJSON(conf+","+motd, unit))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Files[mirrors.RegistriesConfPath]); got != "a = 1\n" {
		t.Errorf("got %q", got)
	}
	if len(r.Files["/etc/motd"]) == 0 || strings.Contains(string(r.Files["/etc/motd"]), "secret") || len(r.Units["a.service"]) != 64 || r.Users == "" || r.OSImage != "quay.io/os:1" {
		t.Errorf("got %+v", r)
	}
	other, err := DecodeRendered(renderedJSON(conf+","+strings.Replace(motd, "420", "384", 1), unit))
	if err != nil {
		t.Fatal(err)
	}
	if string(other.Files["/etc/motd"]) == string(r.Files["/etc/motd"]) {
		t.Error("a change of the mode is none")
	}
	for what, data := range map[string][]byte{
		"no JSON": []byte("{"), "a file that is none": renderedJSON("1", ""), "a unit that is none": renderedJSON(conf, `, "systemd": {"units": [1]}`),
		"no data URL": renderedJSON(strings.Replace(conf, "data:,", "http://", 1), ""),
	} {
		if _, err := DecodeRendered(data); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestManaged: of managed fields only that is kept which says who cordoned a node.
func TestManaged(t *testing.T) {
	at := metav1.Unix(1_700_000_000, 0)
	fields := []metav1.ManagedFieldsEntry{
		{Manager: "a", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{},"f:other":{}},"f:metadata":{}}`)},
		{Manager: "b", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:unschedulable":{}}}`)},
		{Manager: "c", Time: &at, Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`)},
		{Manager: "d", Time: &at, FieldsV1: metav1.NewFieldsV1(`garbage`)},
		{Manager: "e", Time: &at},
	}
	node := TrimNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}})
	if since, by, ok := rollout.CordonedSince(node); !ok || by != "a" || !since.Equal(at.Time) || len(node.ManagedFields) != 1 || node.ManagedFields[0].FieldsV1.GetRawString() != `{"f:spec":{"f:unschedulable":{}}}` {
		t.Errorf("got %v, %q, %t, %v", since, by, ok, node.ManagedFields)
	}
}

// TestTrimStatus: what is not as it should be keeps its words.
func TestTrimStatus(t *testing.T) {
	at := metav1.Unix(1_700_000_000, 0)
	node := &corev1.Node{}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "away", LastTransitionTime: at, LastHeartbeatTime: at},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Message: "fine", LastTransitionTime: at},
	}
	got := TrimNode(node).Status.Conditions
	if len(got) != 2 || got[0].Message != "away" || got[0].LastTransitionTime != at || !got[0].LastHeartbeatTime.IsZero() || got[1].Message != "" {
		t.Errorf("got %+v", got)
	}
	machine := &mcfgv1.MachineConfigNode{}
	machine.Status.Conditions = []metav1.Condition{{Type: "Updated", Status: "False"}, {Type: "Drained", Status: "Unknown", Message: "m"}, {Type: "Cordoned", Status: "False", Message: "m"}, {Type: "Other", Status: "True"}}
	if got := TrimMachineConfigNode(machine).Status.Conditions; len(got) != 2 || got[1].Message != "m" {
		t.Errorf("got %+v", got)
	}
	budget := &policyv1.PodDisruptionBudget{}
	budget.Status.Conditions = []metav1.Condition{{Type: "DisruptionAllowed", Reason: policyv1.SyncFailedReason, Message: "m\nn"}}
	budget.Generation = 2
	if got := TrimDisruptionBudget(budget); got.Generation != 2 || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Message != "m n" {
		t.Errorf("got %+v", got)
	}
	budget.Status.Conditions[0].Reason = policyv1.SufficientPodsReason
	if got := TrimDisruptionBudget(budget).Status.Conditions; got != nil {
		t.Errorf("got %+v", got)
	}
	operator := &configv1.ClusterOperator{}
	operator.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: "Degraded", Status: "True", Message: "m"}}
	if got := TrimClusterOperator(operator).Status.Conditions; got[0].Message != "m" {
		t.Errorf("got %+v", got)
	}
}
