package convert

// Int returns 1 for true.
func Int(b bool) int {
	if b {
		return 1
	}
	return 0
}
