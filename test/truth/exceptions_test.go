package truth

// An exception is a difference between the guard and a runtime that has a reason
// and stays. docs/truth.md tells the reasons at length.
type exception struct {
	name string
	why  string
	// covers recognises the difference by the place it comes from, so that nothing
	// else hides behind it.
	covers func(*scenario, verdict, result) bool
}

var exceptions = []exception{}
