package cuda

import (
	"fmt"
	"math/bits"
)

// The types of this file mirror the structs of index.cuh, field by field.

// Divisor divides numbers below 2^31 by a number that is known before the launch.
type Divisor struct{ By, Mul, Shift uint32 }

// DivisorOf returns the divisor d, in [1, 2^31).
func DivisorOf(d int) Divisor {
	shift := bits.Len(uint(d - 1)) // smallest with 2^shift >= d
	mul := (uint64(1)<<32*(uint64(1)<<shift-uint64(d)))/uint64(d) + 1
	return Divisor{By: uint32(d), Mul: uint32(mul), Shift: uint32(shift)}
}

// Window slides over up to three spatial axes; the missing ones come first and have size 1.
type Window struct {
	In, Out, Kernel, Stride, Dilation, Begin, End [3]int32
}

// NewWindow returns the window over spatial axes, of which there are at most three. All lists have one entry for each.
func NewWindow(in, out, kernel, stride, dilation, begin, end []int) (Window, error) {
	var w Window
	rank := len(in)
	if rank < 1 || rank > 3 {
		return w, fmt.Errorf("cuda: a window over %d spatial axes", rank)
	}
	w.In, w.Out, w.Kernel, w.Stride, w.Dilation = ones, ones, ones, ones, ones
	for i, list := range [...]struct {
		to   *[3]int32
		from []int
	}{{&w.In, in}, {&w.Out, out}, {&w.Kernel, kernel}, {&w.Stride, stride}, {&w.Dilation, dilation}, {&w.Begin, begin}, {&w.End, end}} {
		if len(list.from) != rank {
			return w, fmt.Errorf("cuda: a window over %d spatial axes with %d sizes", rank, len(list.from))
		}
		for a, v := range list.from {
			if v < 0 && i < 5 || i >= 2 && i < 5 && v == 0 || v > 1<<30 || v < -1<<30 {
				return w, fmt.Errorf("cuda: size %d of a window", v)
			}
			list.to[3-rank+a] = int32(v)
		}
	}
	return w, nil
}

var ones = [3]int32{1, 1, 1}

func (w *Window) inSize() int  { return int(w.In[0]) * int(w.In[1]) * int(w.In[2]) }
func (w *Window) outSize() int { return int(w.Out[0]) * int(w.Out[1]) * int(w.Out[2]) }
