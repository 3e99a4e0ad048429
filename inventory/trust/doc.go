// Package trust works out which certificate authorities the nodes of a cluster trust when
// they pull, and which proxies they use.
//
//	follower, err := trust.Follow(config, trust.Options{OnChange: func(t trust.Trust) {
//		client.SetTrust(t.RootCAs, t.HostRootCAs, t.Proxy)
//	}})
//	go follower.Run(ctx)
//
// New makes a Trust from given objects, such as those of a dump; a Follower does so
// each time one of them changes in a running cluster. Both go by what the
// machine-config-operator puts on nodes (pkg/operator/sync.go, getImageRegistryBundles
// and getTrustedBundle; pkg/daemon/certificate_writer.go), and by what
// containers/image makes of it there (v5.36.2, pkg/tlsclientconfig).
//
// A missing object is not an error: a cluster may have no proxy and no CAs of its own. One
// bad certificate does not spoil the good ones beside it; Problems names it. Proxy URLs may
// hold passwords, so no text of this package quotes one.
package trust
