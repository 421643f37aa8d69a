package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// Forms is a class of forms from accumulator to code. Kernels whose epilogue is worth it are compiled for each, so that they carry
// the code of one.
type Forms int

const (
	AnyForm   Forms = iota
	OnlyScale       // one float32 product, half to even: qmath.FloatAfter
	OnlyFloat       // every float form
	OnlyFixed       // every integer form
)

// FormsOf returns the narrowest class of a scaling.
func FormsOf(s qmath.Scaling) Forms {
	switch {
	case s.Form == qmath.FloatAfter && s.Rounding == qmath.HalfEven:
		return OnlyScale
	case s.Float():
		return OnlyFloat
	}
	return OnlyFixed
}

// Scaling mirrors the struct of requantize.cuh: a step from accumulator to code but for its multiplier.
type Scaling struct {
	Form, Rounding int32
	Zero, Lo, Hi   int32
	Out            float32
}

// codeLimit bounds zero points and limits of codes of the float forms, so that their differences fit into 32 bits.
const codeLimit = 1 << 30

func scalingOf(s qmath.Scaling, zero, lo, hi int32, out float32) (Scaling, error) {
	if s.Form == qmath.FloatTwice {
		lo = max(lo, -127)
	}
	for _, q := range [...]int32{zero, lo, hi} {
		if s.Float() && (q < -codeLimit || q > codeLimit) {
			return Scaling{}, fmt.Errorf("cuda: zero point %d with codes from %d to %d", zero, lo, hi)
		}
	}
	if s.Form == qmath.SingleAny {
		return Scaling{}, fmt.Errorf("cuda: no kernel rounds %s with a multiplier of %d bits", s.Rounding, s.Bits)
	}
	if lo > hi {
		return Scaling{}, fmt.Errorf("cuda: codes from %d to %d", lo, hi)
	}
	return Scaling{Form: int32(s.Form), Rounding: int32(s.Rounding), Zero: zero, Lo: lo, Hi: hi, Out: out}, nil
}

// Requantize mirrors the struct of requantize.cuh: what an epilogue makes codes with. Multipliers is the address of a table that
// PackMultipliers or PackChannels makes; Step is 1 for one entry per channel and 0 for one that serves all.
type Requantize struct {
	Multipliers driver.Ptr
	Step        int32
	SkipZero    int32
	SkipScale   float32
	_           int32
	Scaling     Scaling
}

// PackMultipliers returns the multipliers of a number of channels as kernels read them: 8 bytes each. Channels are counted modulo
// the length of m; one multiplier stays one.
func PackMultipliers(s qmath.Scaling, m []qmath.Multiplier, channels int) []byte {
	return packPairs(len(m), channels, func(c int) (a, b uint32) {
		if s.Float() {
			return math.Float32bits(m[c].Scale), math.Float32bits(m[c].Bias)
		}
		return uint32(m[c].M), uint32(m[c].Shift)
	})
}

// PackChannels is PackMultipliers for real outputs: factor and bias of Channel.Accumulated.
func PackChannels(list []qmath.Channel, channels int) []byte {
	return packPairs(len(list), channels, func(c int) (a, b uint32) {
		return math.Float32bits(float32(list[c].X * list[c].W)), math.Float32bits(list[c].Bias)
	})
}

func packPairs(n, channels int, at func(c int) (a, b uint32)) []byte {
	if n == 1 {
		channels = 1
	}
	out := make([]byte, 0, 8*channels)
	for c := range channels {
		a, b := at(c % n)
		out = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(out, a), b)
	}
	return out
}

// step is the distance of the channels in a table of n.
func step(n int) int32 {
	if n == 1 {
		return 0
	}
	return 1
}

// NewRequantize returns what makes codes as s.Requantize does with the multipliers m, whose table is at an address. skip is that of
// the residual, the zero value where there is none.
func NewRequantize(s qmath.Scaling, m []qmath.Multiplier, table driver.Ptr, skip qmath.Skip, zero, lo, hi int32) (Requantize, error) {
	if len(m) == 0 {
		return Requantize{}, fmt.Errorf("cuda: no multipliers")
	}
	for _, k := range m {
		if k.Double != 0 {
			return Requantize{}, fmt.Errorf("cuda: no kernel scales by factors of float64")
		}
		if k.Out != m[0].Out {
			return Requantize{}, fmt.Errorf("cuda: outputs of scale %g and %g in one tensor", m[0].Out, k.Out)
		}
	}
	sc, err := scalingOf(s, zero, lo, hi, m[0].Out)
	return Requantize{Multipliers: table, Step: step(len(m)), SkipZero: skip.ZeroPoint, SkipScale: skip.Scale, Scaling: sc}, err
}

// Accumulated mirrors the struct of requantize.cuh: what an epilogue makes real numbers with. The table at Multipliers is that of
// PackChannels.
type Accumulated struct {
	Multipliers driver.Ptr
	Step        int32
	SkipZero    int32
	SkipScale   float32
	Lo, Hi      float32
	_           int32
}

// NewAccumulated returns what makes real numbers as Channel.Accumulated does, limited to [lo, hi]. residual is the grid of a
// residual, the zero value where there is none.
func NewAccumulated(list []qmath.Channel, table driver.Ptr, residual qmath.Grid, lo, hi float32) Accumulated {
	return Accumulated{Multipliers: table, Step: step(len(list)), SkipZero: residual.ZeroPoint, SkipScale: residual.Scale, Lo: lo, Hi: hi}
}
