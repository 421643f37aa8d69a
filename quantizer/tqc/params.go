package tqc

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// Params are scale and zero point: one entry per tensor, or one per channel along the config's axis, or, per group, one
// per block in the row-major order of the scale tensor.
type Params struct {
	Scale     []float32
	ZeroPoint []int32
}

// Ready reports whether there is a scale.
func (p *Params) Ready() bool { return p != nil && len(p.Scale) > 0 }

// Grid returns the integer grid of channel c under cfg; with one scale, c is ignored.
func (p *Params) Grid(cfg *Config, c int) qmath.Grid {
	if len(p.Scale) == 1 {
		c = 0
	}
	return qmath.Grid{Scale: p.Scale[c], ZeroPoint: p.ZeroPoint[c], QMin: cfg.QMin, QMax: cfg.QMax, Rounding: cfg.Rounding}
}

// NumScales returns how many scales a tensor of this shape has under c, and whether the shape says so. An axis that does not exist
// gives 0.
func NumScales(shape graph.Shape, c *Config) (n int64, known bool) {
	if c.Policy.Has(PerTensor) {
		return 1, true
	}
	axis := c.Axis
	if axis < 0 {
		axis += len(shape)
	}
	if shape == nil || axis < 0 || axis >= len(shape) {
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
	if len(p.Scale) == 0 || len(p.Scale) != len(p.ZeroPoint) {
		return fmt.Errorf("%d scales and %d zero points", len(p.Scale), len(p.ZeroPoint))
	}
	if c.Policy.Has(PerTensor) && len(p.Scale) != 1 {
		return fmt.Errorf("%d scales for a per-tensor policy", len(p.Scale))
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
