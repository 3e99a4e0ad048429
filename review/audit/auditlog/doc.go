// Package auditlog writes the records of decisions, to standard output or to a file that is
// rotated.
//
//	log, err := auditlog.New(auditlog.Options{Stdout: os.Stdout, Guard: guard})
//	err = log.Configure(auditlog.Settings{To: auditlog.File, ...})
//	go log.Run(ctx) // writes until ctx ends, and then what is left
//	log.Record(decision)
//
// Recording never waits. A disk that is full, or a pipe that nobody reads, does not hold up an
// admission: records wait in a bounded queue, and what finds no room there is lost, counted in
// a metric, told in the log, and in the records themselves by a Loss as soon as they can be
// written again. To refuse changes instead would make a full disk an outage of the API, and
// nothing would be known that the API server's own audit log does not say.
package auditlog
