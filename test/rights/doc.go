// Package rights holds the test that the rights in the manifests are what the guard
// needs: it runs the guard as its service account, with role-based access control
// on, and reads in the audit log of the API server what was asked for.
package rights
