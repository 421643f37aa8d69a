package verify

import (
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// spread is what a tensor that was not recorded may be: its integers lie between those of lo and hi, which differ where the exact
// value lies within its bound of a rounding boundary.
type spread struct{ lo, hi *tensor.Tensor }

// rising reports whether no result of an operation falls when its inputs rise, so that the ends of a spread give the ends of the
// result.
func rising(op operation) bool {
	switch op.(type) {
	case *passing, *concat, *choose, *clamp, *requantize, *average:
		return true
	}
	return false
}

// widen gives the exact outputs of a step their least and largest values where inputs were not recorded.
func (a *again) widen(op operation, s *lower.Step, in []*tensor.Tensor, expected []*exact) error {
	lo, hi := make([]*tensor.Tensor, len(in)), make([]*tensor.Tensor, len(in))
	open := false
	for k, id := range s.Inputs {
		lo[k], hi[k] = in[k], in[k]
		if w, ok := a.open[id]; ok {
			lo[k], hi[k], open = w.lo, w.hi, true
		}
	}
	if !open || !rising(op) {
		return nil
	}
	low, err := op.exact(a.computer, lo)
	if err != nil {
		return err
	}
	high, err := op.exact(a.computer, hi)
	if err != nil {
		return err
	}
	for k, e := range expected {
		if e != nil && !e.real {
			e.low, e.high = low[k].value, high[k].value
		}
	}
	return nil
}

// leaveOpen keeps what an unrecorded output may be, if that is not what the program computed alone.
func (a *again) leaveOpen(id lower.TensorID, e *exact, computed *tensor.Tensor) {
	lo, hi := computed.Integers(), computed.Integers()
	differ := false
	for i := range lo {
		least, most := e.codes(i)
		lo[i], hi[i] = min(lo[i], least), max(hi[i], most)
		differ = differ || lo[i] != hi[i]
	}
	if differ {
		a.open[id] = spread{computed.WithIntegers(lo), computed.WithIntegers(hi)}
	}
}
