package observers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The encoding is canonical: equal statistics are equal bytes. All integers are unsigned varints, float32 are four bytes
// little-endian.
//
//	version (1), flags (1: channels, 2: channels mixed, 4: rows, 8: minima and maxima only), minimum, maximum
//	histogram; with flag 8 NaN, -Inf, +Inf, finite values
//	channels: how many, then minimum and maximum of each
//	rows: ties, histogram of L2, histogram of L1-L2
//
//	histogram: NaN, -Inf, +Inf, zeros; largest exponent; folded positive, folded negative;
//	           per sign (positive, negative) the number of bins that are not empty, then of each the distance from the one before
//	           (the first: from the lowest bin of the lowest octave kept) and the count
const encodingVersion = 1

const (
	flagChannels = 1 << iota
	flagMixed
	flagRows
	flagExtremes
)

var errEncoding = errors.New("observer state is damaged")

// MarshalBinary returns the canonical encoding. It does not fail.
func (st *State) MarshalBinary() ([]byte, error) {
	flags := byte(0)
	if st.channels == channelsMixed {
		flags = flagMixed
	}
	if st.channels > 0 {
		flags = flagChannels
	}
	if st.rows != nil {
		flags |= flagRows
	}
	if st.extremesOnly {
		flags |= flagExtremes
	}
	b := appendExtent([]byte{encodingVersion, flags}, st.extent)
	if st.extremesOnly {
		for _, n := range []uint64{st.hist.nan, st.hist.inf[1], st.hist.inf[0], st.finite} {
			b = binary.AppendUvarint(b, n)
		}
	} else {
		b = st.hist.append(b)
	}
	if st.channels > 0 {
		b = binary.AppendUvarint(b, uint64(st.channels))
		for c := range st.low {
			b = appendExtent(b, st.rangeOf(c))
		}
	}
	if st.rows != nil {
		b = binary.AppendUvarint(b, st.rows.ties)
		b = st.rows.gap.append(st.rows.second.append(b))
	}
	return b, nil
}

func appendExtent(b []byte, x Extent) []byte {
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x.Min))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(x.Max))
}

func (h *histogram) append(b []byte) []byte {
	for _, n := range []uint64{h.nan, h.inf[1], h.inf[0], h.zeros(), uint64(h.top), h.folded(0), h.folded(1)} {
		b = binary.AppendUvarint(b, n)
	}
	for s := range 2 {
		n := uint64(0)
		var body []byte
		last, end := h.octave(s, h.low()), h.octave(s, h.top+1)
		for i := h.next(last, end); i < end; i = h.next(i+1, end) {
			body = binary.AppendUvarint(body, uint64(i-last))
			body = binary.AppendUvarint(body, h.at(i))
			last = i
			n++
		}
		b = append(binary.AppendUvarint(b, n), body...)
	}
	return b
}

// UnmarshalBinary replaces st by the state encoded in data. Whatever is not the encoding of a possible state is an error
// and leaves st as it was; memory stays below MaxMemory for any input.
func (st *State) UnmarshalBinary(data []byte) error {
	d := decoder{b: data}
	version, flags := d.byte(), d.byte()
	if d.err == nil && version != encodingVersion {
		return fmt.Errorf("observer state has version %d; only %d is known", version, encodingVersion)
	}
	n := New()
	if st.hist != nil {
		n = NewIn(st.hist.room)
	}
	n.extent = d.extent()
	if flags&flagExtremes != 0 {
		n.dropBins()
		n.hist.nan, n.hist.inf[1], n.hist.inf[0], n.finite = d.uint(), d.uint(), d.uint(), d.uint()
		if flags&flagRows != 0 {
			return errEncoding
		}
	} else {
		n.hist = d.histogram(n.hist.empty())
	}
	switch flags &^ (flagRows | flagExtremes) {
	case 0:
	case flagMixed:
		n.dropChannels()
	case flagChannels:
		c := d.uint()
		if d.err != nil || c == 0 || c > MaxChannels || !n.setChannels(int(c)) {
			return errEncoding
		}
		all := NoExtent
		for c := range n.low {
			x := d.extent()
			n.low[c], n.high[c] = x.Min, x.Max
			all = all.Union(x)
		}
		if all != n.extent {
			return errEncoding
		}
	default:
		return errEncoding
	}
	if flags&flagRows != 0 {
		n.rows = &rows{ties: d.uint(), second: d.histogram(n.hist.empty()), gap: d.histogram(n.hist.empty())}
		if d.err == nil && !n.rows.possible() {
			return errEncoding
		}
	}
	if d.err != nil || len(d.b) > 0 {
		return errEncoding
	}
	if err := n.checkExtent(); err != nil {
		return fmt.Errorf("%w: %v", errEncoding, err)
	}
	// One state has one encoding: overlong varints, unordered or impossible fields end here.
	if again, _ := n.MarshalBinary(); !bytes.Equal(again, data) {
		return errEncoding
	}
	*st = *n
	return nil
}

// possible reports whether r can have been observed.
func (r *rows) possible() bool {
	if r.second.nan|r.gap.nan|r.second.inf[0]|r.second.inf[1]|r.gap.inf[0]|r.gap.inf[1] != 0 {
		return false
	}
	for _, h := range []*histogram{r.second, r.gap} {
		for b := range h.bins {
			if b.Lo < 0 {
				return false
			}
		}
	}
	return r.second.count() == r.gap.count()
}

type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || len(d.b) < n {
		d.err, d.b = errEncoding, nil
		return make([]byte, n)
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) byte() byte { return d.take(1)[0] }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 {
		d.err, d.b = errEncoding, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// extent reads a range and normalises nothing: the comparison of encodings finds a -0.
func (d *decoder) extent() Extent {
	p := d.take(8)
	x := Extent{math.Float32frombits(binary.LittleEndian.Uint32(p)), math.Float32frombits(binary.LittleEndian.Uint32(p[4:]))}
	if x == NoExtent {
		return x
	}
	if x.Min-x.Min != 0 || x.Max-x.Max != 0 || x.Min > x.Max || isNegativeZero(x.Min) || isNegativeZero(x.Max) {
		d.err = errEncoding
	}
	return x
}

func isNegativeZero(v float32) bool { return math.Float32bits(v) == 1<<31 }

func (d *decoder) histogram(h *histogram) *histogram {
	h.nan, h.inf[1], h.inf[0] = d.uint(), d.uint(), d.uint()
	zeros, top := d.uint(), d.uint()
	if d.err != nil || top > finiteTop {
		d.err = errEncoding
		return h
	}
	if top > 0 {
		h.raise(int(top))
	}
	folded := [2]uint64{d.uint(), d.uint()}
	total := uint64(0)
	overflow := false
	add := func(i int, n uint64) {
		total += n
		if overflow = overflow || total < n || total >= 1<<63; !overflow {
			h.increase(i, n)
		}
	}
	add(0, zeros)
	add(h.below(0), folded[0])
	add(h.below(1), folded[1])
	used := false
	for s := range 2 {
		n := d.uint()
		key := uint64(h.low() * binsPerOctave)
		for i := uint64(0); i < n && d.err == nil; i++ {
			gap, c := d.uint(), d.uint()
			end := (top + 1) * binsPerOctave
			if gap >= end || key+gap >= end || c == 0 || i > 0 && gap == 0 {
				d.err = errEncoding
				return h
			}
			key += gap
			used = used || key/binsPerOctave == top
			add(h.octave(s, int(key/binsPerOctave))+int(key%binsPerOctave), c)
		}
	}
	if overflow || used != (top > 0) || h.low() == 1 && folded[0]|folded[1] != 0 {
		d.err = errEncoding
	}
	return h
}
