package sim

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// applyAtRunTime is apply with scales from the numbers of src: one for the tensor, for each row of its last axis (tokens), or for each
// group along the config's axis, the last of which may be shorter.
func applyAtRunTime(table *kernels.Table, dst, src *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, mode Mode) error {
	r := &runTime{table: table, meter: table.NewMeter(), cfg: cfg, mode: mode}
	if cfg.NeedsScale() {
		r.tensor = p.Scale[0]
	}
	d, s := dst.F32(), src.F32()
	if cfg.Policy.Has(tqc.PerTensor) {
		r.part(d, s)
		return nil
	}
	at, size := cfg.Axis, cfg.GroupSize
	if cfg.Policy.Has(tqc.PerToken) {
		at = -1
	}
	axis, ok := graph.Axis(at, len(src.Shape))
	if !ok {
		return fmt.Errorf("simulate: scales along axis %d of %s", at, src.Type())
	}
	outer, n, inner := src.Blocks(axis)
	if cfg.Policy.Has(tqc.PerToken) {
		size = max(n, 1)
	}
	part := make([]float32, min(size, n))
	for o := range outer {
		for c := 0; c < n; c += size {
			m := min(size, n-c)
			for i := range inner {
				first := (o*n+c)*inner + i
				if inner == 1 {
					r.part(d[first:first+m], s[first:first+m])
					continue
				}
				for k := range m {
					part[k] = s[first+k*inner]
				}
				r.part(part[:m], part[:m])
				for k := range m {
					d[first+k*inner] = part[k]
				}
			}
		}
	}
	return nil
}

// runTime quantizes parts of a tensor, each by the scale that its own numbers give.
type runTime struct {
	table  *kernels.Table
	meter  *kernels.Meter
	cfg    *tqc.Config
	mode   Mode
	tensor float32 // the scale of the whole tensor for NV blocks
}

// part handles the elements of one scale. What is not finite has no part in it, and saturates.
func (r *runTime) part(d, s []float32) {
	lo, hi, _ := r.meter.MinMax(s)
	if !(lo <= hi) { // no finite element
		lo, hi = 0, 0
	}
	c := qmath.Codec{Format: r.cfg.Format, Rounding: r.cfg.Rounding}
	c.Scale, c.ZeroPoint = r.cfg.RunTimeScale(lo, hi, r.tensor)
	slice(r.table, d, s, c, r.mode)
}
