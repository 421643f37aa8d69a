package observers

import (
	"math"
	"slices"

	"qwb/kernels/ref"
)

// Limited observes two tensors by looking at one: x, and y = x with values below Lo replaced by Lo and then values above Hi by
// Hi, as Relu and Clip do. As long as x is finite and its counts determine those of y, the state of y is derived from that of
// x, to the bit. From then on y is computed and counted as well. Use NewLimited. A Limited is not safe for concurrent use.
type Limited struct {
	lo, hi float32
	x      *State
	y      *State // nil as long as it follows from x
	buf    []float32
}

// NewLimited goes on with the states of x and y, which have both seen everything before, or nothing. Neither of lo <= hi may
// be NaN.
func NewLimited(x, y *State, lo, hi float32) *Limited {
	l := &Limited{lo: lo, hi: hi, x: x, y: y}
	if x.Count() == 0 && x.hist.nan == 0 && x.hist.inf == [2]uint64{} && x.channels == channelsUnknown {
		l.y = nil
		x.hist.deepen()
	}
	return l
}

// States returns the states of x and y. They are independent of each other, and l is not to be used afterwards.
func (l *Limited) States() (x, y *State) {
	if l.y == nil {
		l.y = l.bounded()
	}
	l.x.hist = l.x.hist.shallow()
	return l.x, l.y
}

// ObservePiece is State.ObservePiece of elements of x. It returns the extents of both tensors' elements.
func (l *Limited) ObservePiece(data []float32, from, channels, inner int) (x, y Extent, nan uint64) {
	if l.y == nil && !l.follows(data) {
		l.y = l.bounded()
	}
	followed, odd := l.y == nil, l.x.odd()
	x, nan = l.x.ObservePiece(data, from, channels, inner)
	if followed && l.x.odd() == odd {
		return x, l.limit(x), nan
	}
	l.buf = append(l.buf[:0], data...)
	for i, v := range l.buf {
		l.buf[i] = ref.Limit(v, l.lo, l.hi)
	}
	if !followed {
		y, _ = l.y.ObservePiece(l.buf, from, channels, inner)
		return x, y, nan
	}
	l.y, y = l.bounded(), l.limit(x) // which have what is finite
	for i, v := range data {
		if v-v != 0 {
			one, _ := l.y.ObservePiece(l.buf[i:i+1], from+i, channels, inner)
			y = y.Union(one)
		}
	}
	return x, y, nan
}

// limit returns the extent of the bounded values.
func (l *Limited) limit(x Extent) Extent {
	if x.Empty() {
		return x
	}
	return NoExtent.Union(Extent{min(max(x.Min, l.lo), l.hi), min(max(x.Max, l.lo), l.hi)})
}

// follows reports whether the state of y can still be derived from that of x after the finite values of data are added: x must
// keep apart every octave that y keeps apart.
func (l *Limited) follows(data []float32) bool {
	if l.x.extremesOnly || len(data) == 0 {
		return true
	}
	lo, hi, _ := l.x.meter().MinMax(data)
	x := l.x.extent.Union(Extent{lo, hi})
	return lowOf(exponent(x), deepOctaves-1) <= lowOf(exponent(l.limit(x)), keptOctaves)
}

// exponent is the exponent field of the value that is farthest from zero.
func exponent(x Extent) int { return int(math.Float32bits(max(-x.Min, x.Max))>>23) & 255 }

// bounded returns what the state of y is if it follows from that of x.
func (l *Limited) bounded() *State {
	x := l.x
	y := &State{hist: x.hist.empty(), extent: l.limit(x.extent), channels: x.channels, low: slices.Clone(x.low), high: slices.Clone(x.high),
		extremesOnly: x.extremesOnly, finite: x.finite}
	for c := range y.low {
		y.setRange(c, l.limit(y.rangeOf(c)))
	}
	if !y.extent.Empty() && !y.extremesOnly {
		y.hist.raise(exponent(y.extent))
		x.hist.each(func(bits uint32, n uint64) { y.hist.increase(y.hist.counter(l.bin(bits)), n) })
	}
	return y
}

// bin returns a value in the bin that those of x in the bin of a value are in when they are bounded.
func (l *Limited) bin(bits uint32) uint32 {
	switch k := binOrder(bits); {
	case k < binOrder(math.Float32bits(l.lo)):
		return math.Float32bits(l.lo)
	case k > binOrder(math.Float32bits(l.hi)):
		return math.Float32bits(l.hi)
	}
	return bits
}

// binOrder numbers the bins in the order of their values; zeros and denormals are 0.
func binOrder(bits uint32) int {
	k := int(bits << 1 >> (binShift + 1))
	if k < binsPerOctave {
		return 0
	}
	if bits>>31 != 0 {
		return -k
	}
	return k
}
