package qdq

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// scheme is the policy of a grid. like is what the target does: where the file agrees with it, the scheme is the target's.
func (q *grid) scheme(like tqc.Config) tqc.Config {
	c := tqc.Config{Policy: tqc.Linear, Format: q.format(), Blocks: q.blocks}
	if !c.Integer() {
		c.Policy, like = tqc.Floating, tqc.Config{Policy: tqc.Symmetric}
	}
	zero := !slices.ContainsFunc(q.zero, func(z int32) bool { return z != 0 })
	if zero && c.Signed() && !q.zeros && (q.rows || q.blocks == tqc.MX ||
		like.Policy.Has(tqc.Symmetric) || like.Signed() != c.Signed() || like.Bits != c.Bits) {
		c.Policy |= tqc.Symmetric
	} else {
		c.Policy |= tqc.Asymmetric
	}
	if q.runTime {
		c.Policy |= tqc.Dynamic
	}
	if q.blocks == tqc.MX || like.Policy.Has(tqc.PowerOf2) && zero && !q.runTime &&
		!slices.ContainsFunc(q.scale, func(s float32) bool { f, _ := math.Frexp(float64(s)); return f != 0.5 }) {
		c.Policy |= tqc.PowerOf2
	}
	switch {
	case q.rows:
		c.Policy |= tqc.PerToken
	case q.axis < 0:
		c.Policy |= tqc.PerTensor
	case q.block > 0:
		c.Policy |= tqc.PerGroup
		c.Axis, c.GroupSize = q.axis, q.block
	default:
		c.Policy |= tqc.PerChannel
		c.Axis = q.axis
	}
	return c
}

// activation is the policy of a computed tensor.
func (c *configurer) activation(q *grid) tqc.Config { return q.scheme(c.t.Activation) }

// parameter is the policy of constant input i of a node: a weight, a bias or another operand. A weight that leaves the lowest
// integers of its type unused has the target's narrower range.
func (c *configurer) parameter(id graph.NodeID, i int, v graph.ValueID, q *grid) (tqc.Config, error) {
	n := c.g.Node(id)
	op := c.t.Op(n)
	weighted := op != nil && op.Role == target.Weighted
	if q.dtype == tensor.Int32 && !(weighted && i == graph.BiasOf(n)) {
		return tqc.Config{}, fmt.Errorf("int32 constant %q that is no bias", c.g.Value(v).Name)
	}
	if !weighted {
		return q.scheme(c.t.Activation), nil
	}
	if i == graph.BiasOf(n) {
		return q.scheme(tqc.Config{Policy: tqc.Symmetric | c.t.Bias.Policy&tqc.PowerOf2, Format: qmath.Format{Bits: 32, QMin: -1}}), nil
	}
	cfg := q.scheme(c.t.Weight)
	w := c.t.Weight
	if !cfg.Integer() || !q.whole() || cfg.Bits != w.Bits || cfg.Signed() != w.Signed() || !cfg.Policy.Has(tqc.Symmetric) {
		return cfg, nil
	}
	codes, err := c.weights(v, q, &cfg)
	if err != nil {
		return cfg, err
	}
	if low, _ := reach(codes); low >= w.QMin {
		cfg.QMin, cfg.QMax = w.QMin, w.QMax
	}
	return cfg, nil
}

// weights returns the integers of a weight: the file's, or what the file's Q makes of float ones, which need not be made again.
func (c *configurer) weights(v graph.ValueID, q *grid, cfg *tqc.Config) (*tensor.Tensor, error) {
	if c.q.codes[v] != nil || c.g.Const(v).DType != tensor.Float32 {
		return c.stored(v, q)
	}
	codes, err := tqc.QuantizeTo(q.dtype, c.g.Const(v), cfg, &tqc.Params{Scale: q.scale, ZeroPoint: q.zero})
	if _, sole := c.g.SoleUse(v); err == nil && sole {
		c.codes[v] = c.g.Stored(codes)
	}
	return codes, err
}

// stored returns the integers of a constant: the file's, or what the file's Q makes of float ones.
func (c *configurer) stored(v graph.ValueID, q *grid) (*tensor.Tensor, error) {
	if own := c.q.codes[v]; own != nil {
		return own.codes, nil
	}
	t := c.g.Const(v)
	if t.DType != tensor.Float32 {
		return nil, fmt.Errorf("constant %q of type %s is quantized", c.g.Value(v).Name, t.Type())
	}
	t = t.ToRowMajor()
	x, codes, of := t.F32(), make([]int32, t.Len()), q.index(t.Shape)
	for from, to := 0, 0; from < len(x); from = to {
		k := of(from)
		for to = from + 1; to < len(x) && of(to) == k; {
			to++
		}
		q.at(k).QuantizeSlice(codes[from:to], x[from:to])
	}
	return &tensor.Tensor{DType: tensor.Int32, Shape: t.Shape, Data: codes}, nil
}

// prove quantizes every constant again and compares its integers with the file's. A bias whose numbers do not give its integers,
// beyond 2^24 where float32 has gaps, keeps them beside its scale; other differences are errors.
func (c *configurer) prove() error {
	for _, id := range c.bound.Order {
		for i, s := range c.set.Inputs(id) {
			if s == tqc.NoSlot || !c.set.Slot(s).Weight || c.set.Slot(s).State() == tqc.FP32 {
				continue
			}
			if err := c.proveSlot(s); err != nil {
				return c.g.ErrorAt(stage, id, fmt.Errorf("input %d: %w", i, err))
			}
		}
	}
	return nil
}

// comesBack reports whether quantizing the numbers gives the codes, as arithmetic says: where their differences from the zero point have
// few bits, times a scale that is a normal number and divided by it they are off by two roundings, far less than half a step. False says
// nothing.
func (o *code) comesBack(c *tqc.Config, p *tqc.Params) bool {
	q := o.grid
	if !c.Integer() || c.Bits > 16 || c.Rounding != qmath.HalfEven || q.block > 0 || c.Policy.Has(tqc.PerGroup) ||
		!slices.Equal(p.Scale, q.scale) || !slices.Equal(p.ZeroPoint, q.zero) || len(q.scale) > 1 && c.Axis != q.axis ||
		slices.ContainsFunc(q.scale, func(s float32) bool { return !(s >= 0x1p-126 && s <= 0x1p100) }) {
		return false
	}
	low, high := reach(o.codes)
	return low >= c.QMin && high <= c.QMax
}

func (c *configurer) proveSlot(s tqc.SlotID) error {
	sl := c.set.Slot(s)
	own := c.q.codes[sl.Value]
	if own == nil {
		return nil // float in the file: the integers are what quantizing gives
	}
	p := *c.set.Params(s)
	if own.numbers == c.g.Const(sl.Value) && own.comesBack(&sl.Config, &p) {
		c.codes[sl.Value] = own.codes
		return nil
	}
	bad, back, file := -1, int32(0), []int32(nil)
	err := tqc.Codes(c.g.Const(sl.Value), &sl.Config, &p, func(from int, codes []int32) bool {
		file = slices.Grow(file[:0], len(codes))[:len(codes)]
		own.codes.IntegersAt(from, file)
		for i, q := range codes {
			if q != file[i] {
				bad, back = from+i, q
				return false
			}
		}
		return true
	})
	if err != nil || bad < 0 {
		return err
	}
	if sl.Config.Bits == 32 {
		p.Codes = slices.Clone(own.codes.Integers())
		if err := p.CheckCodes(&sl.Config, c.g.Const(sl.Value)); err != nil {
			return err
		}
		return c.set.Render(s, p)
	}
	return fmt.Errorf("element %d of %q: code %d has no float32 form at its scale (it comes back as %d)", bad, c.g.Value(sl.Value).Name,
		own.codes.Integers()[bad], back)
}
