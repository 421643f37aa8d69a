package bench

import (
	"fmt"
	"math"

	"qwb/kernels"
)

// observeKernels are what observers do to tensors: in cache, as while they are computed, and in memory. Values are those of
// activations, of either sign or half of them zero.
func observeKernels() []Kernel {
	return []Kernel{
		observer(kernels.OpMinMax, small, numbers, minMax),
		observer(kernels.OpMinMax, large, numbers, minMax),
		observer(kernels.OpMinMax, huge, numbers, minMax),
		observer(kernels.OpChannelMinMax, small, numbers, channelMinMax),
		observer(kernels.OpChannelMinMax, large, numbers, channelMinMax),
		observer(kernels.OpBins, small, numbers, bins),
		observer(kernels.OpBins, large, numbers, bins),
		observer(kernels.OpBins, huge, numbers, bins),
		named("relu", observer(kernels.OpBins, large, rectified, bins)),
		units(small),
		units(large),
	}
}

// units adds n elements to the sums of 256 channels, limited as by a Relu.
func units(n int) Kernel {
	k := observer(kernels.OpUnits, n, numbers, minMax)
	k.Prepare = func(t *kernels.Table) func(kernels.Parallel) {
		x, sums := numbers(n), make([]int64, 256)
		return func(kernels.Parallel) { t.AddUnits(sums, x, 1<<40, 0, math.MaxFloat32, func(int, float32) {}) }
	}
	return k
}

// huge is more than caches hold.
const huge = 1 << 25

// observer reads n elements; it runs on one thread. prepare makes what measures x.
func observer(op kernels.Op, n int, values func(n int) []float32, prepare func(m *kernels.Meter) func(x []float32)) Kernel {
	return Kernel{Op: op, Shape: fmt.Sprintf("n=%d", n), Mode: "fp32", Unit: GElems, Bound: kernels.PeakRead, Ops: float64(n),
		Bytes: 4 * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			x, measure := values(n), prepare(t.NewMeter())
			return func(kernels.Parallel) { measure(x) }
		}}
}

// named tells a case from another of the same shape.
func named(what string, k Kernel) Kernel {
	k.Shape = what + " " + k.Shape
	return k
}

// rectified is numbers with those below zero set to zero.
func rectified(n int) []float32 {
	x := numbers(n)
	for i := range x {
		x[i] = max(x[i], 0)
	}
	return x
}

func minMax(m *kernels.Meter) func(x []float32) {
	return func(x []float32) { m.MinMax(x) }
}

// channelMinMax has 256 channels.
func channelMinMax(m *kernels.Meter) func(x []float32) {
	lo, hi := make([]float32, 256), make([]float32, 256)
	return func(x []float32) { m.ChannelMinMax(x, lo, hi) }
}

// bins keeps 21 octaves apart, up to that of the largest value, 1.
func bins(m *kernels.Meter) func(x []float32) {
	const octaves, one = 21, 127 // one: exponent field of 1
	counts := make([]uint32, kernels.BinZeros+2*kernels.BinSide(octaves))
	return func(x []float32) { m.Count(x, one+1-octaves, octaves, counts) }
}
