// Package input reads the records of decisions back: from files that the guard has written, from
// its log as a kubelet keeps it, and from the audit log of an API server, whose events have the
// guard's words as annotations. Files may be compressed with gzip.
//
//	reader := input.Reader{Webhooks: names, Trouble: report}
//	stats, err := reader.Read(ctx, paths, func(r input.Record) error { ... })
//
// Records come in the order of their times, each decision once, however many files tell of it.
// Memory does not depend on the size of the files: a line is read at a time from each.
//
// What cannot be read is named, with its file and line, and the rest is read all the same: half
// a line at the end of a file, a compressed file that ends early, a version of the schema that
// is not known. Stats says how much that was; who reports no such thing must not call the
// records complete.
package input
