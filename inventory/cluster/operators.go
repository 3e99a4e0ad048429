package cluster

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// An operatorKind is a kind of what OLM has installed, in the version that is read.
type operatorKind struct{ group, version, resource, name string }

var (
	subscriptions = operatorKind{"operators.coreos.com", "v1alpha1", "subscriptions", "Subscriptions of operators.coreos.com"}
	extensions    = operatorKind{"olm.operatorframework.io", "v1", "clusterextensions", "ClusterExtensions"}
)

// Operators reads from the API server which operators are installed; none of a cluster without OLM. They are not
// followed, as no review depends on them. What may be missing is Unread.
func (c *Inventory) Operators(ctx context.Context) (*objects.Operators, error) {
	subscribed, lacksSubscribed, err := readOperators[objects.Subscription](ctx, c, subscriptions)
	if err != nil {
		return nil, err
	}
	extended, lacksExtended, err := readOperators[objects.ClusterExtension](ctx, c, extensions)
	if err != nil {
		return nil, err
	}
	return &objects.Operators{
		Subscriptions: each.Of(subscribed, objects.TrimSubscription),
		Extensions:    each.Of(extended, objects.TrimClusterExtension),
		Unread:        strings.Join(slices.DeleteFunc([]string{lacksSubscribed, lacksExtended}, func(why string) bool { return why == "" }), "; "),
	}, nil
}

// readOperators reads all objects of a kind, or says why there may be more. An API server answers the same for a kind that it does not
// serve, for one that it serves in other versions and, to users without the right, for all: which of them holds is asked for.
func readOperators[T any](ctx context.Context, c *Inventory, k operatorKind) (all []*T, unread string, err error) {
	all, err = readAll[T](ctx, c.mirrors, "/apis/"+k.group+"/"+k.version+"/"+k.resource)
	denied := apierrors.IsForbidden(err)
	if err != nil && !denied || len(all) > 0 {
		return all, "", err
	}
	versions, err := c.versionsOf(ctx, k)
	switch {
	case apierrors.IsForbidden(err):
		return nil, k.name + " may be missing, as the user may not ask in which versions they are served", nil
	case err != nil:
		return nil, "", err
	case len(versions) == 0: // a cluster without OLM
		return nil, "", nil
	case denied:
		return nil, k.name + " were not read, as the user may not", nil
	case !slices.Contains(versions, k.version):
		return nil, k.name + " were not read, as they are not served as " + k.version + ", but as " + strings.Join(versions, ", "), nil
	}
	return nil, "", nil
}

// versionsOf returns the versions in which the API server serves a kind.
func (c *Inventory) versionsOf(ctx context.Context, k operatorKind) ([]string, error) {
	var group metav1.APIGroup
	if err := c.mirrors.get(ctx, "/apis/"+k.group, nil, &group); err != nil {
		return nil, err
	}
	var versions []string
	for _, v := range group.Versions {
		served, err := c.serves(ctx, "/apis/"+v.GroupVersion+"/"+k.resource)
		if err != nil {
			return nil, err
		}
		if served {
			versions = append(versions, v.Version)
		}
	}
	return versions, nil
}
