package observers

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"qwb/kernels"
)

// MaxSums is how many sums are kept of one operator's input.
const MaxSums = 1 << 16

// InputSums are exact sums of what an operator that sums products reads: for each element (tap) of its window and each input channel the
// sum over all samples and output positions, padding counting as zeros. Divided by Count they are the mean of the operator's input by
// tap and channel, from which the mean of W x follows for any W. They are a function of the multiset of values.
type InputSums struct {
	Taps, Channels int
	Count          uint64  // output positions, over all samples
	Skipped        uint64  // values that were not finite and are in no sum
	Sums           []Exact // tap by tap, Channels each
}

// NewInputSums returns sums of nothing, which lie in room; nil is memory.
func NewInputSums(room Room, taps, channels int) *InputSums {
	return &InputSums{Taps: taps, Channels: channels, Sums: placed[Exact](room, taps*channels)}
}

// Clone returns an independent copy.
func (s *InputSums) Clone() *InputSums {
	c := *s
	c.Sums = slices.Clone(s.Sums)
	return &c
}

// Merge adds what o has seen; both are of one operator.
func (s *InputSums) Merge(o *InputSums) error {
	if s.Taps != o.Taps || s.Channels != o.Channels {
		return fmt.Errorf("sums of %d taps and %d channels, and of %d and %d", s.Taps, s.Channels, o.Taps, o.Channels)
	}
	s.Count, s.Skipped = s.Count+o.Count, s.Skipped+o.Skipped
	for i := range s.Sums {
		s.Sums[i].AddExact(&o.Sums[i])
	}
	return nil
}

// Mean is the mean of channel c at a tap; 0 where nothing was seen.
func (s *InputSums) Mean(tap, c int) float64 {
	if s.Count == 0 {
		return 0
	}
	return s.Sums[tap*s.Channels+c].Float64() / float64(s.Count)
}

// MarshalBinary returns the canonical form: taps, channels, count and skipped as varints, then the sums.
func (s *InputSums) MarshalBinary() ([]byte, error) {
	var b []byte
	for _, n := range []uint64{uint64(s.Taps), uint64(s.Channels), s.Count, s.Skipped} {
		b = binary.AppendUvarint(b, n)
	}
	for i := range s.Sums {
		b = s.Sums[i].append(b)
	}
	return b, nil
}

// ReadInputSums reads the canonical form, and no other, to room.
func ReadInputSums(room Room, b []byte) (*InputSums, error) {
	var head [4]uint64
	all := b
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errExact
		}
		head[i], b = v, b[n:]
	}
	taps, channels := head[0], head[1]
	if taps == 0 || channels == 0 || taps > MaxSums || channels > MaxSums || taps*channels > MaxSums || 2*taps*channels > uint64(len(b)) {
		return nil, errExact
	}
	r := NewInputSums(room, int(taps), int(channels))
	r.Count, r.Skipped = head[2], head[3]
	var err error
	for i := range r.Sums {
		if r.Sums[i], b, err = parseExact(b); err != nil {
			return nil, err
		}
	}
	if len(b) > 0 {
		return nil, errExact
	}
	if again, _ := r.MarshalBinary(); string(again) != string(all) {
		return nil, errExact
	}
	return r, nil
}

// Window adds many numbers to exact sums at little cost: in a window of 44 bits below the largest value seen they are integers, which int64
// adds exactly; what lies below the window's unit goes to the exact sums one by one. A Window has one counter for each place.
type Window struct {
	table    *kernels.Table
	counters []int64
	scale    float32 // of a value to the window's unit; 0: no window yet
	exponent int     // the unit is 2^-exponent
	room     int64   // additions to one counter before it might overflow
	// One adds a number that is not in the window to a place.
	One func(place int, v float32)
	// Flush adds m*2^e to a place.
	Flush func(place int, m int64, e int)
}

const (
	windowBits = 44
	windowRoom = 1 << 18
	// windowMax is the largest exponent of the unit: beyond it scales leave float32.
	windowMax = 120
)

// NewWindow returns a window for so many places, which adds by the rows of t.
func NewWindow(t *kernels.Table, places int, one func(int, float32), flush func(int, int64, int)) *Window {
	return &Window{table: t, counters: make([]int64, places), One: one, Flush: flush}
}

// Open makes the window wide enough for values up to largest in magnitude, and for n additions to each place. It reports false where all
// numbers have to go one by one.
func (w *Window) Open(largest float32, n int64) bool {
	if !(largest < 1<<(windowBits-1)) || n > windowRoom {
		return false
	}
	if largest > 0 && (w.scale == 0 || largest*w.scale >= 1<<windowBits) {
		w.Close()
		_, e := math.Frexp(float64(largest)) // largest < 2^e
		w.exponent = max(0, min(windowMax, windowBits-2-e))
		w.scale = float32(math.Ldexp(1, w.exponent))
	}
	if w.room < n {
		w.Close()
		w.room = windowRoom
	}
	w.room -= n
	return true
}

// Close gives what the counters hold to Flush.
func (w *Window) Close() {
	for i, m := range w.counters {
		if m != 0 {
			w.Flush(i, m, -w.exponent)
			w.counters[i] = 0
		}
	}
}

// Limits are bounds that values are limited to before they are added.
type Limits struct{ Lo, Hi float32 }

// NoLimits leave values as they are.
var NoLimits = Limits{float32(math.Inf(-1)), float32(math.Inf(1))}

// Rows adds rows of one number for each of n places, the first of which is place; open is what Open returned for these data.
func (w *Window) Rows(data []float32, place, n int, l Limits, open bool) {
	odd := func(i int, v float32) { w.One(place+i%n, v) }
	if !open {
		for i, v := range data {
			odd(i, l.apply(v))
		}
		return
	}
	w.table.AddUnits(w.counters[place:place+n], data, w.scale, l.Lo, l.Hi, odd)
}

// Run adds numbers to one place.
func (w *Window) Run(data []float32, place int, l Limits, open bool) { w.Rows(data, place, 1, l, open) }

func (l Limits) apply(v float32) float32 {
	if v < l.Lo {
		v = l.Lo
	}
	if v > l.Hi {
		v = l.Hi
	}
	return v
}
