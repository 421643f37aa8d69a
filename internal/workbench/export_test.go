package workbench

// SetKept says how many bytes of results are kept, and returns how many were.
func SetKept(n int) (before int) {
	before, keptBytes = keptBytes, n
	return before
}
