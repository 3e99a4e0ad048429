package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// PausedLines says of a pool that is paused since when it is, what waits for its nodes, and
// until when they can do without: a line each. Now is the time of the forecast.
func (c Cluster) PausedLines(name string, now time.Time) []string {
	pool := c.Pool(name)
	if pool == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("pool %s is paused%s", name, pausedSince(pool, now))}
	if target := pool.Spec.Configuration.Name; target != "" && target != pool.Status.Configuration.Name {
		lines = append(lines, target+" waits for its nodes already")
	}
	return append(lines, c.SignerLine())
}

// pausedSince completes "is paused": since when, and by whom, by managed fields.
func pausedSince(pool *mcfgv1.MachineConfigPool, now time.Time) string {
	since, by, ok := PausedSince(pool)
	if !ok {
		return "; since when is not recorded"
	}
	text := fmt.Sprintf(" since %s", since.UTC().Format(time.DateOnly))
	if days := int(now.Sub(since).Hours() / 24); days > 0 {
		text += fmt.Sprintf(" (%d days)", days)
	}
	return text + ", by " + by
}

// PausedSince returns when spec.paused of pool was last set, and by which field manager; false
// if its managed fields do not say. A manager that sets other fields as well has one time for
// all, so that the pool may have been paused for longer.
func PausedSince(pool *mcfgv1.MachineConfigPool) (since time.Time, by string, ok bool) {
	return setSince(pool.ManagedFields, "f:paused")
}

// CordonedSince is PausedSince for spec.unschedulable of a node.
func CordonedSince(node *corev1.Node) (since time.Time, by string, ok bool) {
	return setSince(node.ManagedFields, "f:unschedulable")
}

// setSince returns when a field of the spec was last set, and by which manager.
func setSince(managed []metav1.ManagedFieldsEntry, field string) (since time.Time, by string, ok bool) {
	for _, m := range managed {
		if m.Time != nil && m.Time.After(since) && managesSpec(m, field) {
			since, by, ok = m.Time.Time, text.Line(m.Manager), true
		}
	}
	return since, by, ok
}

func managesSpec(m metav1.ManagedFieldsEntry, field string) bool {
	if m.FieldsV1 == nil || m.Subresource != "" || !bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"`+field+`"`)) {
		return false
	}
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields)
	return err == nil && fields.Spec[field] != nil
}

// KubeletSigner is the CA by which kubelets know the API server. It is made anew 292 days after it was issued, and
// expires after 365 (Red Hat's documentation of MachineConfigPools, "Pausing"). Nodes of a
// paused pool do not get the new one.
const (
	KubeletSigner = "kube-apiserver-to-kubelet-signer"
	signerRotate  = 292 * 24 * time.Hour
)

// SignerLine says until when nodes of a paused pool can do without new certificates.
func (c Cluster) SignerLine() string {
	for _, certificate := range c.Certificates {
		if !strings.Contains(certificate.Subject, KubeletSigner) || certificate.NotBefore == nil || certificate.NotAfter == nil {
			continue
		}
		return fmt.Sprintf("its nodes get no new CA meanwhile: %s is rotated about %s, and the one that they have expires on %s",
			KubeletSigner, certificate.NotBefore.Add(signerRotate).UTC().Format(time.DateOnly), certificate.NotAfter.UTC().Format(time.DateOnly))
	}
	return fmt.Sprintf("its nodes get no new CA meanwhile: %s is rotated 292 days after it was issued, and expires after 365", KubeletSigner)
}
