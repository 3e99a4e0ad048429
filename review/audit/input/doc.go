// Package input reads the records of decisions back: from files that the guard has written, from
// its log as a kubelet keeps it, and from the audit log of an API server, whose events have the
// guard's words as annotations. Files may be compressed with gzip.
//
//	reader := input.Reader{Webhooks: names, Trouble: report}
//	stats, err := reader.Read(ctx, paths, func(r input.Record) error { ... })
//
// Records come in the order of their times, each decision once, even if several files have it.
// Memory does not depend on the size of the files: a line is read at a time from each.
//
// Parts that cannot be read are reported, with file and line, and the rest is read all the same: half
// a line at the end of a file, a compressed file that ends early, an unknown version of the
// schema. Stats counts them; a caller that does not report them must not call the
// records complete.
package input
