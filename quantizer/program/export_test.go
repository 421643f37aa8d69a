package program

// Functions counts the islands that the CPU backend looks up.
func Functions(e *Executor) (n int) {
	for _, s := range e.engine.(*cpuEngine).steps {
		if s.function != nil {
			n++
		}
	}
	return n
}
