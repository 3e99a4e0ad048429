// Package rights tests that the rights in the manifests are exactly what the guard
// needs: it runs the guard as its service account, with role-based access control
// enabled, and reads in the API server's audit log what the guard requested.
package rights
