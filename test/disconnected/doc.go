// Package disconnected tests a guard on a cluster from which only the mirror is reached: through a proxy
// that verifies nobody's word but asks for TLS with a private CA, to a mirror with another private CA.
// Both are told to the guard by the cluster's own objects, and it has no flag for either.
package disconnected
