package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// Rows are computed by 16 threads each, so many in a block.
const floatRowsPerBlock = 8

// What normalize_wide of float_rows.cu has: threads of a block, and the longest row that it keeps in shared memory.
const (
	wideThreads = 512
	wideMost    = 12000
)

// floatRows mirrors FloatRows of float_rows.cu.
type floatRows struct {
	x, y    driver.Ptr
	rows, n uint32
	log     uint32
	_       uint32
}

// FloatSoftmax is ref.Softmax of each of the rows, which have n elements. y may be x.
func FloatSoftmax(s *Stream, y, x driver.Ptr, rows, n int) error {
	return softmax(s, y, x, rows, n, false)
}

// FloatLogSoftmax is ref.LogSoftmax of each row, with the logarithm that package math has on x86-64.
func FloatLogSoftmax(s *Stream, y, x driver.Ptr, rows, n int) error {
	return softmax(s, y, x, rows, n, true)
}

func softmax(s *Stream, y, x driver.Ptr, rows, n int, log bool) error {
	if err := fits("rows", rows, n); err != nil || n == 0 {
		return err
	}
	p := floatRows{x: x, y: y, rows: uint32(rows), n: uint32(n), log: uint32(flag(log))}
	return overBlocks(s, "float_rows", "softmax", floatParts(rows, floatRowsPerBlock), 128, &p)
}

// FloatNorm normalizes rows of n elements: (x - mean) / sqrt(variance + Eps), times scale, plus bias, in float64 rounded once, as
// ref.LayerNorm and ref.RMSNorm do.
type FloatNorm struct {
	Rows, N int
	Eps     float64
	// Center is false for a mean of 0 (ref.RMSNorm).
	Center bool
	// Element i of row r has entry (r % Groups * (N/Inner) + i/Inner) / Share of scale and bias. Groups, Inner and Share of 0 mean 1:
	// one entry for each element of a row.
	Groups, Inner, Share int
}

// floatNormalize mirrors FloatNormalize of float_rows.cu.
type floatNormalize struct {
	x, scale, bias, y, mean, inv driver.Ptr
	eps                          float64
	rows, n, center, groups      uint32
	inner, share                 uint32
}

// Launch computes y from x. scale and bias may be 0, and so may mean and inv, which take a number per row: the mean and the factor.
func (f FloatNorm) Launch(s *Stream, y, x, scale, bias, mean, inv driver.Ptr) error {
	if err := fits("rows", f.Rows, f.N); err != nil || f.N == 0 {
		return err
	}
	one := func(n int) uint32 { return uint32(max(n, 1)) }
	p := floatNormalize{x: x, scale: scale, bias: bias, y: y, mean: mean, inv: inv, eps: f.Eps, rows: uint32(f.Rows), n: uint32(f.N),
		center: uint32(flag(f.Center)), groups: one(f.Groups), inner: one(f.Inner), share: one(f.Share)}
	if f.N%int(p.inner) != 0 {
		return fmt.Errorf("cuda: rows of %d elements in runs of %d", f.N, p.inner)
	}
	if f.Rows < floatRowsPerBlock*s.Device.Multiprocessors && f.N >= wideThreads && f.N <= wideMost {
		// Blocks of several rows would leave multiprocessors idle.
		return launchFile(s, "float_rows", "normalize_wide", driver.Dim{X: p.rows, Y: 1, Z: 1}, wideThreads, 4*f.N, &p)
	}
	return overBlocks(s, "float_rows", "normalize", floatParts(f.Rows, floatRowsPerBlock), 128, &p)
}

// FloatReduction is what FloatReduce makes of a group of elements.
type FloatReduction int32

const (
	FloatSum     FloatReduction = iota // ref.Sum, rounded once
	FloatMean                          // ref.Sum divided by the number of elements
	FloatSquares                       // the sum of squares
	FloatL1                            // the sum of magnitudes
	FloatL2                            // the square root of the sum of squares
	FloatMaxima                        // the largest element as kernels.Table.Maxima finds it, of neighbours
	FloatMax                           // the largest, +0 above -0, NaN where there is one
	FloatMin                           // the smallest, likewise
)

// floatReduce mirrors FloatReduce of float_rows.cu.
type floatReduce struct {
	x, y                        driver.Ptr
	rows, n                     uint32
	op, outside, inside, contig int32
	outsideSize, insideSize     [floatAxes]Divisor
	outsideStep, insideStep     [floatAxes]int32
}

// floatAxes is how many axes arrays have at most: AXES of index.cuh.
const floatAxes = 8

// FloatReduce reduces x to one element per index of the axes outside, each over all indices of the axes inside, in order, the last axis
// fastest. Steps say how far apart neighbours along an axis lie.
func FloatReduce(s *Stream, op FloatReduction, y, x driver.Ptr, outside, outsideStep, inside, insideStep []int) error {
	outside, steps := joinAxes(outside, outsideStep)
	p := floatReduce{x: x, y: y, op: int32(op)}
	var err error
	if p.rows, p.outside, err = putAxes(&p.outsideSize, outside, [][]int{steps[0]}, &p.outsideStep); err != nil {
		return err
	}
	inside, steps = joinAxes(inside, insideStep)
	if p.n, p.inside, err = putAxes(&p.insideSize, inside, [][]int{steps[0]}, &p.insideStep); err != nil {
		return err
	}
	p.contig = flag(p.n < 2 || p.inside == 1 && p.insideStep[0] == 1)
	if op == FloatMaxima && p.contig == 0 {
		return fmt.Errorf("cuda: maxima of elements that are not neighbours")
	}
	return overBlocks(s, "float_rows", "reduce", floatParts(int(p.rows), floatRowsPerBlock), 128, &p)
}

// joinAxes joins neighbouring axes that all operands step through alike, and drops those of one element. At least one axis is left.
func joinAxes(sizes []int, steps ...[]int) ([]int, [][]int) {
	var size []int
	out := make([][]int, len(steps))
	for a, n := range sizes {
		if n == 1 {
			continue
		}
		last := len(size) - 1
		joins := last >= 0
		for k := range steps {
			joins = joins && out[k][last] == n*steps[k][a]
		}
		if joins {
			size[last] *= n
			for k := range steps {
				out[k][last] = steps[k][a]
			}
			continue
		}
		size = append(size, n)
		for k := range steps {
			out[k] = append(out[k], steps[k][a])
		}
	}
	if len(size) == 0 {
		size = []int{1}
		for k := range out {
			out[k] = []int{0}
		}
	}
	return size, out
}

// putAxes writes joined axes as kernels have them, and returns the product of the sizes.
func putAxes(to *[floatAxes]Divisor, sizes []int, steps [][]int, toStep ...*[floatAxes]int32) (count uint32, axes int32, err error) {
	if len(sizes) > floatAxes {
		return 0, 0, fmt.Errorf("cuda: an array of %d axes", len(sizes))
	}
	if err := fits("an array", sizes...); err != nil {
		return 0, 0, err
	}
	n := 1
	for a, size := range sizes {
		n *= size
		to[a] = DivisorOf(max(size, 1))
		for k := range steps {
			toStep[k][a] = int32(steps[k][a])
		}
	}
	return uint32(n), int32(len(sizes)), nil
}
