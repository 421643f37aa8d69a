package exec

import (
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Floats of 8 and 16 bits are stored as they are and computed with in float32: what a node reads is widened, which is exact, its
// evaluator runs, and each float32 result that is to be of such a type is rounded to nearest, ties to even, once.

// widens reports whether d is computed with in float32.
func widens(d tensor.DType) bool {
	f, ok := minifloats[d]
	return ok && f != qmath.E2M1
}

// evaluateSmall computes step i in float32.
func (r *runnerState) evaluateSmall(i int, c *call) error {
	typ := c.typ
	c.typ = r.types[i].inFloat32()
	for k := range c.ins {
		if t := c.ins[k].t; t != nil && widens(t.DType) {
			h, err := c.widened(k)
			if err != nil {
				return err
			}
			c.ins[k], c.swapped[k] = h, true
		}
	}
	if err := c.step.eval(c); err != nil {
		return err
	}
	for k, h := range c.outs {
		if h.t == nil || h.t.DType != tensor.Float32 || !widens(typ[k].declared) {
			continue
		}
		out, buf, err := r.mem.alloc(typ[k].declared, h.t.Shape, h.t.Layout)
		if err != nil {
			return err
		}
		narrow(out, h.t.F32())
		c.setOut(k, handle{t: out, buf: buf})
	}
	return nil
}

// widened returns input k in float32; that of a constant is kept.
func (c *call) widened(k int) (handle, error) {
	h := c.ins[k]
	if w, ok := derived[*tensor.Tensor](c, k); ok {
		return handle{t: w, buf: noBuf, fixed: true}, nil
	}
	if h.fixed {
		w := &tensor.Tensor{DType: tensor.Float32, Layout: h.t.Layout, Shape: h.t.Shape, Data: readable(h.t)}
		return handle{t: derive(c, k, w), buf: noBuf, fixed: true}, nil
	}
	w, buf, err := c.run.mem.alloc(tensor.Float32, h.t.Shape, h.t.Layout)
	if err != nil {
		return h, err
	}
	widen(w.F32(), h.t)
	return handle{t: w, buf: buf}, nil
}

// widen decodes the elements of t.
func widen(dst []float32, t *tensor.Tensor) {
	if codes, ok := t.Data.([]uint16); ok {
		decodeHalves(dst, codes, t.DType)
		return
	}
	f := minifloats[t.DType]
	for i, code := range tensor.Of[uint8](t) {
		dst[i] = f.Decode(uint16(code))
	}
}

// narrow rounds src to the elements of t. Floats of 8 bits saturate.
func narrow(t *tensor.Tensor, src []float32) {
	f := minifloats[t.DType]
	if codes, ok := t.Data.([]uint16); ok {
		encodeHalves(codes, src, f)
		return
	}
	codes := tensor.Of[uint8](t)
	for i, v := range src {
		codes[i] = uint8(f.Encode(float64(v), true))
	}
}

// evaluatePacked moves elements that share bytes: unpacked to a byte each, and packed again.
func (r *runnerState) evaluatePacked(i int, c *call) error {
	typ := c.typ
	c.typ = r.types[i].inBytes()
	for k := range c.ins {
		if t := c.ins[k].t; t != nil && isPacked(t.DType) {
			t := &tensor.Tensor{DType: tensor.Uint8, Layout: t.Layout, Shape: t.Shape, Data: unpackBits(t)}
			c.ins[k], c.swapped[k] = handle{t: t, buf: noBuf}, true
		}
	}
	if err := c.step.eval(c); err != nil {
		return err
	}
	for k, h := range c.outs {
		if h.t == nil || h.t.DType != tensor.Uint8 || !isPacked(typ[k].declared) {
			continue
		}
		if h.t.Layout != tensor.RowMajor {
			h.t = h.t.ToRowMajor()
		}
		out, buf, err := r.mem.alloc(typ[k].declared, h.t.Shape, tensor.RowMajor)
		if err != nil {
			return err
		}
		packInto(tensor.Of[uint8](out), out.DType, tensor.Of[uint8](h.t))
		c.setOut(k, handle{t: out, buf: buf})
	}
	return nil
}

// inFloat32 is out with the types that are computed in float32 replaced by it; inBytes the same of packed types and bytes. The
// slices stay until types are inferred anew: what depends on types is cached by them.
func (cache *typeCache) inFloat32() []outType { return cache.replaced(widens, tensor.Float32) }
func (cache *typeCache) inBytes() []outType   { return cache.replaced(isPacked, tensor.Uint8) }

func (cache *typeCache) replaced(old func(tensor.DType) bool, d tensor.DType) []outType {
	if cache.other == nil {
		cache.other = append(make([]outType, 0, len(cache.out)), cache.out...)
		for k := range cache.other {
			if o := &cache.other[k]; old(o.dtype) {
				o.dtype = d
			}
		}
	}
	return cache.other
}
