// Package auditlog writes the records of decisions, to standard output or to a file that is
// rotated.
//
//	log, err := auditlog.New(auditlog.Options{Stdout: os.Stdout, Guard: guard})
//	err = log.Configure("/var/log/mirrorset-guard/audit.log")
//	go log.Run(ctx) // writes until ctx ends, and then the rest
//	log.Record(decision)
//
// Recording never waits. A full disk, or a pipe without a reader, does not delay an
// admission: records wait in a bounded queue. Those that find no room are lost, and reported in
// a metric, in the log, and as a Loss in the records themselves as soon as they can be
// written again. Refusing changes instead would make a full disk an outage of the API, and
// the API server's own audit log has the annotations anyway.
package auditlog
