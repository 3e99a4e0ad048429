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
	keys := new(corev1.ConfigMap)
	denied, err := c.mayGet(ctx, fmt.Sprintf(configMapsOf, objects.ManagedNamespace)+"/"+objects.VerificationName, keys)
	switch {
	case err != nil:
		return nil, err
	case denied:
		unread = append(unread, "ConfigMap "+objects.ManagedNamespace+"/"+objects.VerificationName)
	case keys.Name != "":
		u.Add(objects.TrimUpdateConfig(keys))
	}
	gate := new(configv1.FeatureGate)
	if denied, err = c.mayGet(ctx, featureGates, gate); err != nil {
		return nil, err
	}
	if !denied {
		u.FeatureGate = objects.TrimFeatureGate(gate)
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

// mayGet reads the object at path into out, and leaves out unchanged if there is none. Denied says that the user may not read it.
func (c *Inventory) mayGet(ctx context.Context, path string, out any) (denied bool, err error) {
	err = c.mirrors.get(ctx, path, nil, out)
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return false, err
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
