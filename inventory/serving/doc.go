// Package serving follows the objects of a cluster that configure the guard's own serving: the TLS
// security profile (apiservers.config.openshift.io/cluster), and the webhook configuration,
// by whose CAs the API server verifies the guard's certificate.
//
//	follower, err := serving.Follow(config, serving.Options{WebhookConfiguration: name, Installed: installed})
//	go follower.Run(ctx)
//	server.TLSConfig = reloader.TLSConfig(follower.Profile)
//	verification := certs.NewVerification(reloader, follower.Webhooks)
//
// Both are read by name, so a role can be limited to these objects. Reviews do not
// wait for them. A guard that may not read them serves with its own default, and says so in
// Notes.
package serving
