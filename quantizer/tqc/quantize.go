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
	out := make([]int32, 0, t.Len())
	err := Codes(t, c, p, func(_ int, codes []int32) bool {
		out = append(out, codes...)
		return true
	})
	return out, err
}

// stretch is how many codes are made at a time: they stay in the processor's cache.
const stretch = 4096

// Codes calls f, until it returns false, with the codes that Quantize gives, a stretch of elements from one on at a time. They are there
// until f returns.
func Codes(t *tensor.Tensor, c *Config, p *Params, f func(from int, codes []int32) bool) error {
	if t.DType != tensor.Float32 || t.F32() == nil && t.Len() > 0 {
		return fmt.Errorf("a constant of type %s cannot be quantized", t.Type())
	}
	t = t.ToRowMajor()
	x, codes, nan, first, more := t.F32(), make([]int32, 0, min(stretch, t.Len())), -1, 0, true
	if grids := columns(t, c, p); grids != nil {
		return columnCodes(x, grids, codes, f)
	}
	err := Runs(t, c, p, func(from, to int, codec qmath.Codec) bool {
		for from < to && more {
			n := min(to-from, cap(codes)-len(codes))
			own := codes[len(codes):][:n]
			codes = codes[:len(codes)+n]
			if nan = quantize(own, x[from:from+n], from, c, p, codec); nan >= 0 {
				return false
			}
			if from += n; len(codes) == cap(codes) {
				more = f(first, codes)
				first, codes = first+len(codes), codes[:0]
			}
		}
		return more
	})
	switch {
	case err != nil:
		return err
	case nan >= 0:
		return fmt.Errorf("the constant holds NaN at element %d", nan)
	case more && len(codes) > 0:
		f(first, codes)
	}
	return nil
}

// columns are the grids of a matrix whose columns have scales, nil for what is none.
func columns(t *tensor.Tensor, c *Config, p *Params) []qmath.Grid {
	parts, err := PartsOf(t, c)
	if err != nil || c.RunTime() || c.BeyondFloat() || parts.grouped || parts.inner != 1 || len(p.Scale) != parts.n || parts.n < 2 {
		return nil
	}
	grids := make([]qmath.Grid, parts.n)
	for i := range grids {
		codec := p.Codec(c, i)
		if !codec.Integer() {
			return nil
		}
		grids[i] = codec.Grid()
	}
	return grids
}

// columnCodes is Codes of such a matrix. codes holds a stretch.
func columnCodes(x []float32, grids []qmath.Grid, codes []int32, f func(from int, codes []int32) bool) error {
	for from := 0; from < len(x); from += len(codes) {
		codes = codes[:min(cap(codes), len(x)-from)]
		for at := 0; at < len(codes); {
			column := (from + at) % len(grids)
			n := min(len(codes)-at, len(grids)-column)
			row := x[from+at : from+at+n]
			for i, v := range row {
				if v != v {
					return fmt.Errorf("the constant holds NaN at element %d", from+at+i)
				}
			}
			qmath.QuantizeColumns(codes[at:], row, grids[column:])
			at += n
		}
		if !f(from, codes) {
			return nil
		}
	}
	return nil
}

// quantize writes the codes of numbers that share a codec, which are the elements from on of a constant. It returns the element that is
// NaN, or -1.
func quantize(dst []int32, x []float32, from int, c *Config, p *Params, codec qmath.Codec) (nan int) {
	for i, v := range x {
		if v != v {
			return from + i
		}
	}
	switch {
	case c.BeyondFloat():
		for i, v := range x {
			dst[i] = p.Code(c, from+i, v, codec)
		}
	case len(x) == 1:
		dst[0] = codec.Quantize(x[0])
	default:
		codec.QuantizeSlice(dst, x)
	}
	return -1
}

// QuantizeTo is Quantize with codes of type d, in the shape of t; codes that do not fit into it are an error.
func QuantizeTo(d tensor.DType, t *tensor.Tensor, c *Config, p *Params) (*tensor.Tensor, error) {
	if d.Bits() < 8 { // several in a byte
		codes, err := Quantize(t, c, p)
		if err != nil {
			return nil, err
		}
		return Narrow(d, t.Shape, codes)
	}
	out := tensor.New(d, t.Shape...)
	var outside error
	if err := Codes(t, c, p, func(from int, codes []int32) bool {
		outside = put(out, from, codes)
		return outside == nil
	}); err != nil {
		return nil, err
	}
	return out, outside
}

// Narrow stores codes in a new tensor of type d and the given shape, row-major; they must fit.
func Narrow(d tensor.DType, shape []int, codes []int32) (*tensor.Tensor, error) {
	out := tensor.New(d, shape...)
	if out.Len() != len(codes) {
		return nil, fmt.Errorf("%d codes for %s", len(codes), out.Type())
	}
	if d.Bits() >= 8 {
		return out, put(out, 0, codes)
	}
	out = out.WithIntegers(codes)
	for i, q := range out.Integers() {
		if q != codes[i] {
			return nil, outsideError(d, codes[i])
		}
	}
	return out, nil
}

func outsideError(d tensor.DType, q int32) error { return fmt.Errorf("%d does not fit into %s", q, d) }

// put stores codes from an element on; those that do not fit are an error.
func put(out *tensor.Tensor, from int, codes []int32) error {
	bad := -1
	switch x := out.Data.(type) {
	case []int8:
		bad = store(x[from:], codes)
	case []uint8:
		bad = store(x[from:], codes)
	case []int16:
		bad = store(x[from:], codes)
	case []uint16:
		bad = store(x[from:], codes)
	case []int32:
		copy(x[from:], codes)
	default:
		panic("tqc: " + out.Type() + " holds no codes")
	}
	if bad >= 0 {
		return outsideError(out.DType, codes[bad])
	}
	return nil
}

// store returns the first code that does not fit, or -1.
func store[T int8 | uint8 | int16 | uint16](dst []T, codes []int32) int {
	dst = dst[:len(codes)]
	outside := int32(0)
	for i, q := range codes {
		dst[i] = T(q)
		outside |= int32(dst[i]) ^ q
	}
	if outside == 0 {
		return -1
	}
	for i, q := range codes {
		if int32(dst[i]) != q {
			return i
		}
	}
	return -1
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
