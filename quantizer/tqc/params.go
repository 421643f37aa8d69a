package tqc

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Params are scale and zero point: one entry per tensor, or one per channel along the config's axis, or, per group, one
// per block in the row-major order of the scale tensor. Scales that are computed at run time have none; of NV blocks at run time the one
// entry is the float32 of the tensor.
type Params struct {
	Scale     []float32
	ZeroPoint []int32
	// Global is the float32 of a constant in NV blocks, whose scales are E4M3 numbers times it; else 0.
	Global float32
	// Codes are the integers of a bias, row-major, where its float32 numbers do not give them: beyond 2^24 float32 has gaps. Each
	// number is its code dequantized. Nil: the integers follow from the numbers.
	Codes []int32
}

// Ready reports whether there is a scale.
func (p *Params) Ready() bool { return p != nil && len(p.Scale) > 0 }

// Grid returns the integer grid of channel c under cfg; with one scale, c is ignored.
func (p *Params) Grid(cfg *Config, c int) qmath.Grid {
	return p.Codec(cfg, c).Grid()
}

// Codec returns what codes of channel, group or tensor c mean under cfg, in any format; with one scale, c is ignored.
func (p *Params) Codec(cfg *Config, c int) qmath.Codec {
	if len(p.Scale) == 1 {
		c = 0
	}
	return qmath.Codec{Format: cfg.Format, Scale: p.Scale[c], ZeroPoint: p.ZeroPoint[c], Rounding: cfg.Rounding}
}

// BiasCode returns the integer of element i of a bias, whose number is x, and whether it fits into int32: that of Codes, else
// qmath.QuantizeBias of x on the scale.
func (p *Params) BiasCode(i int, x, scale float32) (q int32, fits bool) {
	if p != nil && i < len(p.Codes) {
		return p.Codes[i], true
	}
	return qmath.QuantizeBias(x, scale)
}

// BiasCode64 is BiasCode for a bias that is added to accumulators of 64 bits: it fits as qmath.QuantizeBias64 says.
func (p *Params) BiasCode64(i int, x, scale float32) (q int64, fits bool) {
	if p != nil && i < len(p.Codes) {
		return int64(p.Codes[i]), true
	}
	return qmath.QuantizeBias64(x, scale)
}

// CheckCodes holds Codes to the constant they are the integers of, whose scales are one or lie along its last axis.
func (p *Params) CheckCodes(cfg *Config, t *tensor.Tensor) error {
	if p.Codes == nil {
		return nil
	}
	if t == nil || t.DType != tensor.Float32 {
		return fmt.Errorf("integers of what is not a constant of float32")
	}
	n := len(p.Scale)
	if len(p.Codes) != t.Len() || n != 1 && (n == 0 || t.Shape[len(t.Shape)-1] != n) {
		return fmt.Errorf("%d integers and %d scales for %s", len(p.Codes), n, t.Type())
	}
	for i, x := range t.ToRowMajor().F32() {
		if g := p.Grid(cfg, i%n); g.Dequantize(p.Codes[i]) != x {
			return fmt.Errorf("integer %d of element %d stands for %g at scale %g, the constant has %g", p.Codes[i], i,
				g.Dequantize(p.Codes[i]), g.Scale, x)
		}
	}
	return nil
}

// NumScales returns how many scales Params has for a tensor of this shape under c, and whether the shape says so. An axis that does not
// exist gives 0.
func NumScales(shape graph.Shape, c *Config) (n int64, known bool) {
	switch {
	case !c.NeedsScale():
		return 0, true
	case c.Policy.Has(PerTensor), c.RunTime():
		return 1, true
	}
	axis, ok := graph.Axis(c.Axis, len(shape))
	if shape == nil || !ok {
		return 0, shape != nil
	}
	if c.Policy.Has(PerChannel) {
		return shape[axis].N, shape[axis].Known()
	}
	n = 1
	for i, d := range shape {
		if !d.Known() {
			return 0, false
		}
		if i == axis {
			n *= (d.N + int64(c.GroupSize) - 1) / int64(c.GroupSize)
		} else {
			n *= d.N
		}
	}
	return n, true
}

// check holds p to the policy that it is for.
func (p *Params) check(c *Config) error {
	switch {
	case !c.NeedsScale() && len(p.Scale) > 0:
		return fmt.Errorf("%d scales, which are computed at run time", len(p.Scale))
	case c.NeedsScale() && len(p.Scale) == 0 || len(p.Scale) != len(p.ZeroPoint):
		return fmt.Errorf("%d scales and %d zero points", len(p.Scale), len(p.ZeroPoint))
	case c.Policy.Has(PerTensor) && len(p.Scale) > 1:
		return fmt.Errorf("%d scales for a per-tensor policy", len(p.Scale))
	case c.RunTime() && len(p.Scale) > 1:
		return fmt.Errorf("%d scales for a tensor whose blocks find theirs at run time", len(p.Scale))
	}
	if err := p.checkBlocks(c); err != nil {
		return err
	}
	if p.Codes != nil && !c.BeyondFloat() {
		return fmt.Errorf("integers of their own for %d bits", c.Bits)
	}
	for i := range p.Scale {
		if !qmath.Representable(p.Scale[i]) {
			return fmt.Errorf("scale %g", p.Scale[i])
		}
		if z := p.ZeroPoint[i]; z < c.QMin || z > c.QMax {
			return fmt.Errorf("zero point %d outside [%d, %d]", z, c.QMin, c.QMax)
		}
		if z := p.ZeroPoint[i]; z != 0 && c.QMin < 0 && c.Policy.Has(Symmetric) {
			return fmt.Errorf("zero point %d for a symmetric policy", z)
		}
	}
	return nil
}

// checkBlocks holds the scales of blocks of a constant to what they are stored as.
func (p *Params) checkBlocks(c *Config) error {
	if c.Blocks != NV || c.RunTime() {
		if p.Global != 0 {
			return fmt.Errorf("a global scale %g, which only constants in NV blocks have", p.Global)
		}
	} else if !qmath.Representable(p.Global) {
		return fmt.Errorf("global scale %g of NV blocks", p.Global)
	}
	if c.Blocks == FreeScales || c.RunTime() {
		return nil
	}
	for i, s := range p.Scale {
		stored := s
		if c.Blocks == NV {
			stored = float32(qmath.E4M3FN.Decode(qmath.E4M3FN.Encode(float64(s/p.Global), true)) * p.Global)
		} else {
			stored = qmath.DecodeE8M0(qmath.EncodeE8M0(float64(s), qmath.Down, true))
		}
		if stored != s {
			return fmt.Errorf("scale %d is %g, which %s blocks do not have", i, s, c.Blocks)
		}
	}
	return nil
}
