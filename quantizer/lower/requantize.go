package lower

import (
	"fmt"

	"qwb/kernels/qmath"
)

// Requantize brings integers from one encoding to another.
type Requantize struct {
	Rescale qmath.Rescale
}

// Name implements Op.
func (*Requantize) Name() string { return "Requantize" }

func (o *Requantize) describe() string { return describeRescale(o.Rescale) }

func describeRescale(r qmath.Rescale) string {
	switch {
	case r.Float:
		return fmt.Sprintf("%g/%g", r.X.Scale, r.Y.Scale)
	case r.Eighth != 0:
		return fmt.Sprintf("*%d>>8", r.Eighth)
	}
	return describeMultiplier(r.M)
}

// requantize prepares the way from one encoding to another, limited to [lo, hi].
func (c *compiler) requantize(from, to Encoding, lo, hi int32) (*Requantize, error) {
	y := to.Grid()
	y.QMin, y.QMax = lo, hi
	r, err := c.profile.PrepareRescale(from.Grid(), y)
	return &Requantize{Rescale: r}, err
}

// Quantize makes integers of float32 numbers.
type Quantize struct {
	Quantizer qmath.Quantizer
}

// Name implements Op.
func (*Quantize) Name() string     { return "Quantize" }
func (*Quantize) describe() string { return "" }

// Dequantize makes float32 numbers of integers: (q - zero point) * scale, by the encoding of its input.
type Dequantize struct{}

// Name implements Op.
func (*Dequantize) Name() string     { return "Dequantize" }
func (*Dequantize) describe() string { return "" }
