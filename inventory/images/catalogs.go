package images

import "github.com/mirrorset-guard/mirrorset-guard/policy"

// Catalogs returns the images of the CatalogSources among all, by NAMESPACE/NAME. A CatalogSource that has an address
// instead of an image is not among them.
func Catalogs(all policy.Images) map[string]string {
	catalogs := map[string]string{}
	for img := range all.All() {
		for _, c := range img.Consumers {
			if c.Kind == "CatalogSource" && c.Container == "spec.image" {
				catalogs[c.Namespace+"/"+c.Name] = img.Ref
			}
		}
	}
	return catalogs
}
