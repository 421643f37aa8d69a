package cpu

import (
	"qwb/graph/tensor"
	"qwb/quantizer/program"
)

// Functions counts the islands that an engine looks up.
func Functions(e program.Engine) (n int) {
	for _, s := range e.(*engine).steps {
		if s.function != nil {
			n++
		}
	}
	return n
}

// Crossings counts the products that an engine computes together with what is behind them.
func Crossings(e program.Engine) (n int) {
	for _, s := range e.(*engine).steps {
		if s.crossing != nil {
			n += len(s.crossing.parts)
		}
	}
	return n
}

// Apart counts the products of crossings that an engine without hooks has computed by themselves.
func Apart(e program.Engine) (n int) {
	for _, s := range e.(*engine).steps {
		if s.crossing != nil {
			for _, p := range s.crossing.parts {
				if p.step.out[0] != nil {
					n++
				}
			}
		}
	}
	return n
}

// Parts is into how many parts an engine cuts a batch.
func Parts(e program.Engine, feeds []*tensor.Tensor) int { return e.(*engine).divide(feeds, nil) }
