// Package v1alpha1 is the home of the documents that the guard publishes, which the commands write as JSON or YAML. The
// records of decisions are in package api/audit/v1alpha1, the configuration file in package api/config/v1alpha1.
//
// A field is added without a new version; none changes its meaning or goes away. The types have no
// methods, and know nothing of what computes them: the maker of a document copies into it, so that the
// published format does not change with the computation.
package v1alpha1

// APIVersion is the version of the documents.
const APIVersion = "mirrorset-guard.io/v1alpha1"
