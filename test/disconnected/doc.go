// Package disconnected tests a guard on a cluster from which only a mirror is reached, through a proxy. Each has
// a CA of its own, which the guard knows from the cluster's objects: it has no flag for either. The same is
// tested with a guard that may use nothing but what FIPS 140-3 approves.
package disconnected
