package olm

import (
	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/objects"
)

// CatalogLabels are those of a catalog's image: where its files are.
func CatalogLabels() map[string]string {
	return map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}
}

// CatalogFile is the path of the catalog in its image.
const CatalogFile = "configs/" + name + "/catalog.yaml"

// Catalog offers b, whose image is named by digest, in one channel. Every earlier version may be updated to
// it directly, as nothing is kept in a cluster that would have to be converted.
func (b *Bundle) Catalog(r Release, image string) ([]byte, error) {
	return objects.Write(
		objects.Object{
			"schema": "olm.package", "name": name, "defaultChannel": channel, "description": description,
			"icon": b.csv.At("spec").List("icon")[0],
		},
		objects.Object{
			"schema": "olm.channel", "package": name, "name": channel,
			"entries": []any{objects.Object{"name": r.csvName(), "skipRange": r.skipRange()}},
		},
		objects.Object{
			"schema": "olm.bundle", "package": name, "name": r.csvName(), "image": image,
			"properties": []any{
				objects.Object{"type": "olm.package", "value": objects.Object{"packageName": name, "version": r.number()}},
				objects.Object{"type": "olm.csv.metadata", "value": b.metadata()},
			},
			"relatedImages": []any{
				objects.Object{"name": "", "image": image},
				objects.Object{"name": name, "image": r.Image},
			},
		},
	)
}

// metadata returns the part of the CSV that catalogs show.
func (b *Bundle) metadata() objects.Object {
	part := objects.Object{"annotations": b.csv.At("metadata", "annotations"), "labels": platforms, "apiServiceDefinitions": objects.Object{}, "crdDescriptions": objects.Object{}}
	for _, key := range []string{"description", "displayName", "installModes", "keywords", "links", "maintainers", "maturity", "minKubeVersion", "provider"} {
		part[key] = b.csv.At("spec")[key]
	}
	return part
}
