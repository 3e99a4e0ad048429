// Package catalog reads which bundles a catalog of operators has for packages, from its image, and which of them an
// update passes through.
//
//	c, err := catalog.Read(ctx, image, []string{"quay-operator"})
//	update, err := c.Packages["quay-operator"].Follow(ctx, subscription.Spec, catalog.Installed{Name: "quay-operator.v3.11.1"})
//	for _, b := range update.Bundles { ... }
//
// A catalog is file-based: the label operators.operatorframework.io.index.configs.v1 names a folder of JSON and YAML
// files, which declare packages, channels and bundles (github.com/operator-framework/operator-registry,
// alpha/declcfg). Those of Red Hat have some hundreds of MB, so that files are read as they flow by, and nothing is
// kept of packages that were not asked for.
//
// What bundles require of others is in them, and the packages that are required may be read as those that are installed.
//
// What is read was made by somebody else, and what no catalog has is refused: see the limits in read.go. A file that cannot be
// read is an error, as it may declare anything. What is wrong with one package is its Fault.
package catalog
