package calib

import (
	"context"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// parameter gives a constant its scales, straight from its values: per tensor, per channel or per group. Any method may be
// asked for; automatic choice is for activations and means minmax here.
func (r *renderer) parameter(ctx context.Context, sl *tqc.Slot) error {
	t := r.g.Const(sl.Value)
	defer r.g.Forget(t)
	if r.cfg.Frozen != nil {
		f := r.cfg.Frozen(sl)
		if f.Params.Ready() {
			return r.set.Render(sl.ID, f.Params)
		}
		if f.Base != nil {
			t = f.Base
		}
	}
	if r.masks.about([]graph.ValueID{sl.Value}) && !sl.Config.Policy.Has(tqc.PerChannel) {
		masked, err := r.masks.try([]graph.ValueID{sl.Value}, observers.MinMax, sl.Config, 0)
		if err != nil {
			return err
		}
		return r.set.Render(sl.ID, masked.params)
	}
	p, outcomes, err := r.parameterScales(ctx, t, sl.Config)
	if err != nil {
		return err
	}
	if on, err := onGrid(t, sl.Config, &p); err != nil {
		return err
	} else if on {
		r.onGrids = append(r.onGrids, sl)
	}
	r.mended(sl, withoutZero(outcomes), len(p.Scale))
	return r.set.Render(sl.ID, p)
}

// parameterScales are the scales of a constant under a policy, with what had to be mended.
func (r *renderer) parameterScales(ctx context.Context, t *tensor.Tensor, c tqc.Config) (p tqc.Params,
	outcomes map[qmath.Outcome]int, err error) {
	if t.DType != tensor.Float32 {
		return p, nil, fmt.Errorf("a parameter of type %s cannot be quantized", t.Type())
	}
	if c.RunTime() {
		return p, nil, fmt.Errorf("scales of a constant are not computed at run time (policy %q)", c.Policy)
	}
	parts, err := tqc.PartsOf(t, &c)
	if err != nil {
		return p, nil, err
	}
	method := observers.MinMax
	if c.Observer != tqc.ObserverNone && c.Observer != tqc.ObserverAuto {
		if method, err = r.method(c.Observer); err != nil {
			return p, nil, err
		}
	}
	_, parameter, _ := c.Observer.Split() // 0 where there is none
	ranges := make([]observers.Range, parts.Count())
	err = parallel(ctx, len(ranges), r.cfg.Threads, func(i int) error {
		var err error
		ranges[i], err = partRange(t.F32(), parts, i, method, c, parameter)
		return err
	})
	if err != nil {
		return p, nil, err
	}
	global := float32(0)
	if c.Blocks == tqc.NV {
		most := 0.0
		for _, r := range ranges {
			most = max(most, -r.Lo, r.Hi)
		}
		global = qmath.NVGlobal(float32(min(most, math.MaxFloat32)))
	}
	return scales(ranges, c, global)
}

// withoutZero drops the channels that are all zero: in parameters they are common and lose nothing.
func withoutZero(outcomes map[qmath.Outcome]int) map[qmath.Outcome]int {
	delete(outcomes, qmath.ZeroRange)
	return outcomes
}

// partRange is the range of one part by a method, as if it were a tensor of its own.
func partRange(data []float32, p tqc.Parts, i int, m *observers.Method, c tqc.Config, parameter float64) (observers.Range, error) {
	if m == observers.MinMax {
		return partExtent(data, p, i)
	}
	st := observers.New()
	var err error
	p.Each(i, func(from, to int) {
		if _, e := st.Observe(tensor.FromF32(data[from:to], to-from), -1); e != nil && err == nil {
			err = e
		}
	})
	if err != nil {
		return observers.Range{}, err
	}
	if st.Count() == 0 {
		return observers.Range{}, nil
	}
	st.SetSampleMean(observers.MeanOf(st.Extent()))
	c.Policy = c.Policy&^(tqc.PerChannel|tqc.PerGroup) | tqc.PerTensor
	r, _, err := m.Range(st, c, parameter)
	return r, err
}

// partExtent is the exact range, infinite values included: qmath replaces and reports them. No elements are the range [0, 0].
func partExtent(data []float32, p tqc.Parts, i int) (observers.Range, error) {
	x := observers.NoExtent
	nan := false
	p.Each(i, func(from, to int) {
		for _, v := range data[from:to] {
			if v < x.Min {
				x.Min = v
			}
			if v > x.Max {
				x.Max = v
			}
			nan = nan || v != v
		}
	})
	if nan {
		return observers.Range{}, qmath.ErrNaN
	}
	if x.Empty() {
		return observers.Range{}, nil
	}
	return observers.Range{Lo: float64(x.Min), Hi: float64(x.Max)}, nil
}
