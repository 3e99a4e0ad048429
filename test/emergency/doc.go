// Package emergency tests docs/emergency.md: its commands are read from the page and carried out on
// a real API server that a guard keeps from storing changes, because it was killed, was never
// started, has the certificate of another CA, or refuses what it should not.
//
// A test plays the others that act on webhook configurations in a cluster: the service CA, the kubelet,
// OLM, Argo CD and Flux.
package emergency
