package cluster

import (
	"context"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

const configMapsOf = "/api/v1/namespaces/%s/configmaps"

// UpdateConfig reads from the API server the ConfigMaps that an update depends on, and the FeatureGate. They are not followed, as no
// review depends on them. Those that the user may not read are Unread.
func (c *Inventory) UpdateConfig(ctx context.Context) (*objects.UpdateConfig, error) {
	u := new(objects.UpdateConfig)
	var unread []string
	signatures, more, err := c.signatureMaps(ctx)
	switch {
	case apierrors.IsForbidden(err):
		unread = append(unread, signaturesOfReleases)
		u.SignaturesUnread = notRead(unread)
	case err != nil:
		return nil, err
	case more:
		u.SignaturesUnread = "more ConfigMaps of " + objects.ManagedNamespace + " have signatures, or larger ones, than are read"
	}
	u.Signatures = signatures
	for _, name := range [][2]string{
		{objects.ManagedNamespace, objects.VerificationName}, {objects.ManagedNamespace, objects.GatesName}, {objects.ConfigNamespace, objects.AcksName},
	} {
		cm, denied, err := c.configMap(ctx, name[0], name[1])
		switch {
		case err != nil:
			return nil, err
		case denied:
			what := "ConfigMap " + name[0] + "/" + name[1]
			unread = append(unread, what)
			if name[1] == objects.GatesName {
				u.GatesUnread = notRead([]string{what})
			}
		case cm != nil:
			u.Add(objects.TrimUpdateConfig(cm))
		}
	}
	gate := new(configv1.FeatureGate)
	switch err := c.mirrors.get(ctx, featureGates, nil, gate); {
	case err == nil:
		u.FeatureGate = objects.TrimFeatureGate(gate)
	case !apierrors.IsForbidden(err):
		return nil, err
	}
	if len(unread) > 0 {
		u.Unread = notRead(unread)
	}
	return u, nil
}

const signaturesOfReleases = "ConfigMaps of " + objects.ManagedNamespace + " with signatures of releases"

func notRead(what []string) string {
	return "not read, as the user may not: " + strings.Join(what, ", ")
}

// configMap reads a ConfigMap: nil if there is none, or if the user may not read it, which is denied.
func (c *Inventory) configMap(ctx context.Context, namespace, name string) (cm *corev1.ConfigMap, denied bool, err error) {
	cm = new(corev1.ConfigMap)
	switch err := c.mirrors.get(ctx, fmt.Sprintf(configMapsOf, namespace)+"/"+name, nil, cm); {
	case apierrors.IsForbidden(err):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case cm.Name == "":
		return nil, false, nil
	}
	return cm, false, nil
}

// The limits of ConfigMaps with signatures of releases. Each has some 2 KB, and a cluster has one for each release that it was ever
// mirrored or updated to; each may have 1 MiB.
const (
	maxSignatureMaps  = 2000
	maxSignatureBytes = 16 << 20
	signaturePage     = 20
)

// signatureMaps reads the ConfigMaps with signatures of releases, and reports whether there are more than is read.
func (c *Inventory) signatureMaps(ctx context.Context) (kept []*corev1.ConfigMap, more bool, err error) {
	size := 0
	labelled := map[string]string{"labelSelector": objects.SignatureLabel}
	err = readPages(ctx, c.mirrors, fmt.Sprintf(configMapsOf, objects.ManagedNamespace), labelled, signaturePage, func(page []corev1.ConfigMap) bool {
		for i := range page {
			cm := objects.TrimUpdateConfig(&page[i])
			for key, signature := range cm.BinaryData {
				size += len(key) + len(signature)
			}
			if more = size > maxSignatureBytes || len(kept) == maxSignatureMaps; more {
				return false
			}
			kept = append(kept, cm)
		}
		return true
	})
	return kept, more, err
}
