package ref

import (
	"math"

	"qwb/kernels/qmath"
)

// Arith is the arithmetic of a sum of products. Its results are defined to the bit, on every processor.
type Arith uint8

const (
	Float64 Arith = iota // products exact, sums in float64, one rounding to float32 at the end
	Float32              // every product rounded to float32, then every sum: what plain Go code does without contraction
	FMA32                // every step a float32 fused multiply-add: what the vector rows do
)

var arithNames = [...]string{"float64", "float32", "fma32"}

func (ar Arith) String() string { return arithNames[ar] }

// MulAdd returns acc + x*y rounded as ar prescribes. In Float32 and FMA32 acc and the result are float32 values.
func (ar Arith) MulAdd(acc float64, x, y float32) float64 {
	switch ar {
	case Float32:
		return float64(float32(acc) + float32(x*y))
	case FMA32:
		return float64(FMA(x, y, float32(acc)))
	}
	return acc + float64(float64(x)*float64(y))
}

// Add returns acc + x rounded as ar prescribes.
func (ar Arith) Add(acc float64, x float32) float64 {
	if ar == Float64 {
		return acc + float64(x)
	}
	return float64(float32(acc) + x)
}

// FMA returns x*y + z rounded once to float32, as qmath.FMA does.
func FMA(x, y, z float32) float32 { return qmath.FMA(x, y, z) }

// Epilogue is what happens to a finished sum, in this order: the bias of its column (output channel) is added, the result
// rounded to float32, Add's element added and the result rounded again, then the activation is applied. So it gives the bits
// that adding a tensor afterwards gives. The zero value does nothing.
type Epilogue struct {
	Bias   []float32 // one per column; nil: nothing is added (which differs from adding zeros for a sum of -0)
	Add    []float32 // one per sum, row by row without gaps; nil: nothing is added
	Act    Activation
	Lo, Hi float32 // the limits of Clip
	// Done, if not nil, is called with rows [from, to) of the result when all their columns are finished, and may change them: once
	// for each row, in any order, on any of the goroutines that compute.
	Done func(from, to int)
}

// Finish calls Done for all rows at once.
func (ep Epilogue) Finish(rows int) {
	if ep.Done != nil && rows > 0 {
		ep.Done(0, rows)
	}
}

// Activation is the function at the end of an Epilogue.
type Activation uint8

const (
	None Activation = iota
	Relu            // x < 0 becomes 0
	Clip            // x < Lo becomes Lo, then x > Hi becomes Hi
)

// Limits returns the activation as a pair of limits: x < lo becomes lo, then x > hi becomes hi. NaN stays NaN and -0 is not
// below 0.
func (ep Epilogue) Limits() (lo, hi float32) {
	inf := float32(math.Inf(1))
	switch ep.Act {
	case Relu:
		return 0, inf
	case Clip:
		return ep.Lo, ep.Hi
	}
	return -inf, inf
}

// Limit returns x, lo if x < lo, then hi if that is above hi. NaN passes.
func Limit(x, lo, hi float32) float32 {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}

// finish rounds acc to float32 and applies the epilogue of column j, the i-th sum. With Float64 the bias is added before the
// rounding.
func (ar Arith) finish(acc float64, ep Epilogue, j, i int) float32 {
	if ep.Bias != nil {
		acc = ar.Add(acc, ep.Bias[j])
	}
	x := float32(acc)
	if ep.Add != nil {
		x += ep.Add[i]
	}
	lo, hi := ep.Limits()
	return Limit(x, lo, hi)
}
