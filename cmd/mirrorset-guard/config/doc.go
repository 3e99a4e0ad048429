// Package config reads the configuration file of the guard: one YAML document, strictly decoded, with
// all mistakes reported at once by their paths.
//
//	cfg, err := config.Parse(data)      // *config.Error lists the mistakes
//	settings := cfg.Settings()          // for package policy
//
// The commands check and serve read the same file in the same way, so that a pipeline and the
// cluster give the same answers. A Reloader picks up a file that changes, and keeps the last
// good one. The format itself is package api/config/v1alpha1; the schema and the explanations are
// made from its types and their comments.
package config
