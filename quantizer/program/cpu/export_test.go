package cpu

import "qwb/quantizer/program"

// Functions counts the islands that an engine looks up.
func Functions(e program.Engine) (n int) {
	for _, s := range e.(*engine).steps {
		if s.function != nil {
			n++
		}
	}
	return n
}
