// Package packaging tests what people install the guard with: the Helm chart, by Helm's own library; the
// bundle and the catalog for OLM, by its own; and the kustomize overlays, on an API server with the kinds
// that they name. It is a module of its own, so that none of these is in the product's go.mod.
package packaging
