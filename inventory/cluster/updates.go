package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

const configMapsOf = "/api/v1/namespaces/%s/configmaps"

// UpdateConfig reads from the API server the ConfigMaps that an update depends on. They are not followed, as no
// review depends on them, and the guard in a cluster has no right to read them. What the user may not read is Unread.
func (c *Inventory) UpdateConfig(ctx context.Context) (*objects.UpdateConfig, error) {
	u := new(objects.UpdateConfig)
	var unread []string
	signatures, err := c.signatureMaps(ctx)
	if err != nil {
		if !apierrors.IsForbidden(err) {
			return nil, err
		}
		unread = append(unread, "ConfigMaps of "+objects.ManagedNamespace+" with signatures of releases")
	}
	for _, cm := range signatures {
		u.Add(objects.TrimUpdateConfig(cm))
	}
	for _, name := range [][2]string{
		{objects.ManagedNamespace, objects.VerificationName}, {objects.ManagedNamespace, objects.GatesName}, {objects.ConfigNamespace, objects.AcksName},
	} {
		var cm corev1.ConfigMap
		err := c.mirrors.get(ctx, fmt.Sprintf(configMapsOf, name[0])+"/"+name[1], nil, &cm)
		switch {
		case apierrors.IsForbidden(err):
			unread = append(unread, "ConfigMap "+name[0]+"/"+name[1])
		case err != nil:
			return nil, err
		case cm.Name != "":
			u.Add(objects.TrimUpdateConfig(&cm))
		}
	}
	if len(unread) > 0 {
		u.Unread = "not read, as the user may not: " + strings.Join(unread, ", ")
	}
	return u, nil
}

func (c *Inventory) signatureMaps(ctx context.Context) ([]*corev1.ConfigMap, error) {
	return readSelected[corev1.ConfigMap](ctx, c.mirrors, fmt.Sprintf(configMapsOf, objects.ManagedNamespace), objects.SignatureLabel)
}
