// Package disruption tests that the guard is never in the way: that no admission fails while
// its replicas are restarted, drained and given new certificates, under load; and that a start
// of everything at once, in any order, admits nothing wrong and needs no hand.
//
// The API server, the guard and the registry are real processes. A test plays the cluster around them:
// the kubelet's probes, signals and mounted secret, and a Service whose endpoints follow readiness with
// a lag.
package disruption
