package tqc

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// floatBits is the width up to which the numbers of a constant give its integers back: float32 has 24 bits.
const floatBits = 24

// BeyondFloat reports whether codes have more bits than float32 keeps: those of biases, which are quantized in double precision.
func (c *Config) BeyondFloat() bool { return c.Bits > floatBits }

// Code returns the code of element i of a constant, whose number is x, under the codec of its part;
// it is what Quantize does with each element.
func (p *Params) Code(c *Config, i int, x float32, codec qmath.Codec) int32 {
	if c.BeyondFloat() {
		q, _ := p.BiasCode(i, x, codec.Scale)
		return q
	}
	return codec.Quantize(x)
}

// Quantize returns the codes of a float32 constant, row-major: integers, or the bit patterns of other formats. NaN is an error, and so are
// scales that do not fit the tensor, and those of run time.
func Quantize(t *tensor.Tensor, c *Config, p *Params) ([]int32, error) {
	if t.DType != tensor.Float32 || t.F32() == nil && t.Len() > 0 {
		return nil, fmt.Errorf("a constant of type %s cannot be quantized", t.Type())
	}
	t = t.ToRowMajor()
	x, out, nan := t.F32(), make([]int32, t.Len()), -1
	err := Runs(t, c, p, func(from, to int, codec qmath.Codec) bool {
		for i, v := range x[from:to] {
			if v != v {
				nan = from + i
				return false
			}
		}
		if to == from+1 && !c.BeyondFloat() { // a matrix whose columns have scales
			out[from] = codec.Quantize(x[from])
			return true
		}
		if !c.BeyondFloat() {
			codec.QuantizeSlice(out[from:to], x[from:to])
			return true
		}
		for i := from; i < to; i++ {
			out[i] = p.Code(c, i, x[i], codec)
		}
		return true
	})
	if err == nil && nan >= 0 {
		err = fmt.Errorf("the constant holds NaN at element %d", nan)
	}
	return out, err
}

// QuantizeTo is Quantize with codes of type d, in the shape of t; codes that do not fit into it are an error.
func QuantizeTo(d tensor.DType, t *tensor.Tensor, c *Config, p *Params) (*tensor.Tensor, error) {
	codes, err := Quantize(t, c, p)
	if err != nil {
		return nil, err
	}
	return Narrow(d, t.Shape, codes)
}

// Narrow stores codes in a new tensor of type d and the given shape, row-major; they must fit.
func Narrow(d tensor.DType, shape []int, codes []int32) (*tensor.Tensor, error) {
	out := tensor.New(d, shape...)
	if out.Len() != len(codes) {
		return nil, fmt.Errorf("%d codes for %s", len(codes), out.Type())
	}
	out = out.WithIntegers(codes)
	if within(d, codes) {
		return out, nil
	}
	for i, q := range out.Integers() {
		if q != codes[i] {
			return nil, fmt.Errorf("%d does not fit into %s", codes[i], d)
		}
	}
	return out, nil
}

// within reports whether a type of whole bytes holds all codes, without writing them.
func within(d tensor.DType, codes []int32) bool {
	var low int32
	switch d {
	case tensor.Int8, tensor.Int16:
		low = -1 << (d.Bits() - 1)
	case tensor.Uint8, tensor.Uint16:
	default:
		return false
	}
	outside := int32(0)
	for _, q := range codes {
		outside |= (q - low) >> d.Bits()
	}
	return outside == 0
}

// Runs calls f, until it returns false, with the bounds of every run of elements of t that share a scale, in memory order, and with what
// codes mean there. Scales of run time, and scales that do not fit the tensor, are an error.
func Runs(t *tensor.Tensor, c *Config, p *Params, f func(from, to int, codec qmath.Codec) bool) error {
	if c.RunTime() {
		return fmt.Errorf("scales of policy %q are there at run time only", c.Policy)
	}
	parts, err := PartsOf(t, c)
	if err != nil {
		return err
	}
	if n := parts.Count(); len(p.Scale) != n && !c.Policy.Has(PerTensor) {
		return fmt.Errorf("%d scales along axis %d of %s, which has %d", len(p.Scale), c.Axis, t.Type(), n)
	}
	codecs := make([]qmath.Codec, min(len(p.Scale), t.Len())) // runs may be of one element each
	for i := range codecs {
		codecs[i] = p.Codec(c, i)
	}
	parts.Runs(func(part, from, to int) bool {
		if part < len(codecs) {
			return f(from, to, codecs[part])
		}
		return f(from, to, p.Codec(c, part))
	})
	return nil
}
