package kernels

import (
	"math"

	"qwb/kernels/ref"
)

// The grid on which Meter.Count counts float32 values; see ref.Bin.
const (
	BinShift      = ref.BinShift
	BinsPerOctave = ref.BinsPerOctave
	BinZeros      = ref.BinZeros
)

// BinSide is how many counters the values of one sign have where so many octaves are kept apart.
func BinSide(octaves int) int { return ref.BinSide(octaves) }

// Meter measures slices with the rows of a table: extremes, extremes of channels, histograms, of which the first allocates. It is the
// working memory of one goroutine; the zero value is not usable.
type Meter struct {
	table *Table
	args  tile
	keys  *[binBlock]float32 // made by the first histogram
}

// widest is the largest number of elements that a vector of any row has.
const widest = 16

// binBlock is how many elements OpBins finds the counters of before it increments them: both stay in the first-level cache.
const binBlock = 512

// NewMeter returns a meter that uses the rows of t.
func (t *Table) NewMeter() *Meter { return &Meter{table: t} }

// MinMax is ref.MinMax: the extremes of the finite elements of x, and whether all are finite.
func (m *Meter) MinMax(x []float32) (lo, hi float32, finite bool) {
	row := &m.table.rows[OpMinMax]
	if len(x) < row.NR {
		return ref.MinMax(x)
	}
	m.args.a, m.args.cols = x, len(x)
	row.tile(&m.args)
	if m.args.load == 0 {
		return ref.MinMax(x) // only the loop passes over what is not finite
	}
	return m.args.lo + 0, m.args.hi + 0, true
}

// ChannelMinMax widens lo[j] and hi[j] to cover x[i*n+j], n = len(lo), for all i: the extremes of each channel of a
// channels-last tensor. Infinite elements count as any others, NaN are passed over. The result is true only if all of x is
// finite; it may be false if only sums of its elements are not. len(x) must be a multiple of n. A zero among lo and hi may be
// of either sign.
func (m *Meter) ChannelMinMax(x, lo, hi []float32) bool {
	n := len(lo)
	hi = hi[:n]
	if len(x) == 0 || n == 0 {
		return true
	}
	if len(x)%n != 0 {
		panic("kernels: the elements do not fall into rows of channels")
	}
	run := m.table.rows[OpChannelMinMax].tile
	if n < m.table.rows[OpChannelMinMax].NR {
		run = goChannelMinMax
	}
	finite := true
	// All channels of a block are gone through while it is in the first-level cache.
	for step := max(1, meterBlock/n) * n; len(x) > 0; {
		part := x[:min(step, len(x))]
		x = x[len(part):]
		m.args.a, m.args.panel, m.args.dst = part, lo, hi
		m.args.rows, m.args.cols, m.args.lda = len(part)/n, n, n
		run(&m.args)
		finite = finite && m.args.load != 0
	}
	return finite
}

// meterBlock is how many elements are gone through again while they are in the first-level cache.
const meterBlock = 4096

// Count increments the counter ref.Bin(v, low, octaves) of counts for each v in x. low is the lowest exponent field that is kept apart,
// 1 or more. No value may be infinite or NaN or have an exponent of low+octaves or more; counts has BinZeros+2*BinSide(octaves)
// counters, or BinZeros+BinSide(octaves) if no value is below zero. Otherwise values are counted in wrong places, but never beside
// counts.
func (m *Meter) Count(x []float32, low, octaves int, counts []uint32) {
	side := BinSide(octaves)
	if octaves < 1 || len(counts) < BinZeros+side {
		panic("kernels: too few counters")
	}
	if low < 1 || low > 254 {
		panic("kernels: no such exponent")
	}
	whole := len(x) &^ (widest - 1)
	if m.keys == nil {
		m.keys = new([binBlock]float32)
	}
	m.args.a, m.args.cols, m.args.dst = x, whole, m.keys[:]
	m.args.counts, m.args.floor = counts, uint32(low)*BinsPerOctave-1
	m.args.side = uint32(side)
	if whole > 0 {
		m.table.rows[OpBins].tile(&m.args)
	}
	if whole < len(x) {
		m.args.a, m.args.cols = x[whole:], len(x)-whole
		goBins(&m.args)
	}
}

func goMinMax(t *tile) {
	lo, hi, finite := ref.MinMax(t.a[:t.cols])
	t.lo, t.hi, t.load = lo, hi, 0
	if finite {
		t.load = 1
	}
}

func goChannelMinMax(t *tile) {
	sum := float32(0)
	for i := range t.rows {
		row := t.a[i*t.lda:][:t.cols]
		lo, hi := t.panel[:len(row)], t.dst[:len(row)]
		for j, v := range row {
			if v < lo[j] {
				lo[j] = v
			}
			if v > hi[j] {
				hi[j] = v
			}
			sum += v
		}
	}
	if t.load = 0; sum-sum == 0 {
		t.load = 1
	}
}

// goBins has no branches: which bin comes next cannot be foretold.
func goBins(t *tile) {
	const magnitude = 1<<(31-BinShift) - 1
	counts := t.counts
	last, floor := uint32(len(counts)-1), t.floor
	for i, v := range t.a[:t.cols] {
		key := math.Float32bits(v) >> BinShift
		u := key & magnitude
		tiny := uint32(int32(u-BinsPerOctave) >> 31) // all ones for zeros and denormals
		above := int32(u - floor)
		above &^= above >> 31
		n := uint32(above) + BinZeros + key>>(31-BinShift)*t.side
		n = n&^tiny | uint32(i)%BinZeros&tiny
		counts[min(n, last)]++
	}
}
