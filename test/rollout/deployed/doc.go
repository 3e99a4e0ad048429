// Package deployed tests the guard as it is installed: its manifests on a real API server, with
// Kubernetes' own controllers and scheduler, while 50 changes a second are made. A rolling
// restart, kubectl drain and scaling must cost no change, with 2 and with 3 replicas; a single
// replica may be drained, and nothing bad is admitted meanwhile.
//
// Played are the kubelets, which run the program that is released, and the network, as there is
// none but loopback.
package deployed
