package calib

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// parameter gives a constant its scales, straight from its values: per tensor, per channel or per group. Any method may be
// asked for; automatic choice is for activations and means minmax here.
func (r *renderer) parameter(sl *tqc.Slot) error {
	t := r.g.Const(sl.Value)
	if r.cfg.Frozen != nil {
		f := r.cfg.Frozen(sl)
		if f.Params.Ready() {
			return r.set.Render(sl.ID, f.Params)
		}
		if f.Base != nil {
			t = f.Base
		}
	}
	if t.DType != tensor.Float32 {
		return fmt.Errorf("a parameter of type %s cannot be quantized", t.Type())
	}
	c := sl.Config
	parts, err := partition(t, c)
	if err != nil {
		return err
	}
	method := observers.Find(c.Observer)
	if method == nil {
		method = observers.MinMax
	}
	_, parameter, _ := c.Observer.Split() // 0 where there is none
	ranges := make([]observers.Range, parts.count())
	err = parallel(len(ranges), r.cfg.Threads, func(i int) error {
		var err error
		ranges[i], err = partRange(parts, i, method, c, parameter)
		return err
	})
	if err != nil {
		return err
	}
	p, outcomes, err := scales(ranges, c)
	if err != nil {
		return err
	}
	r.mended(sl, withoutZero(outcomes), len(ranges))
	return r.set.Render(sl.ID, p)
}

// withoutZero drops the channels that are all zero: in parameters they are common and lose nothing.
func withoutZero(outcomes map[qmath.Outcome]int) map[qmath.Outcome]int {
	delete(outcomes, qmath.ZeroRange)
	return outcomes
}

// parts says which elements of a tensor share a scale: outer x n x inner as tensor.Blocks has it, and along n runs of size
// elements. Per channel, outer and inner belong to one part; per group, each index of them has parts of its own.
type parts struct {
	data            []float32
	outer, n, inner int
	size            int
	grouped         bool
}

func partition(t *tensor.Tensor, c tqc.Config) (parts, error) {
	p := parts{data: t.F32(), outer: 1, n: 1, inner: t.Len(), size: 1}
	if c.Policy.Has(tqc.PerTensor) {
		return p, nil
	}
	axis := c.Axis
	if axis < 0 {
		axis += len(t.Shape)
	}
	if axis < 0 || axis >= len(t.Shape) {
		return p, fmt.Errorf("scales along axis %d of %s", c.Axis, t.Type())
	}
	p.outer, p.n, p.inner = t.Blocks(axis)
	if c.Policy.Has(tqc.PerGroup) {
		p.grouped, p.size = true, c.GroupSize
		if p.n%p.size != 0 {
			return p, fmt.Errorf("groups of %d do not divide axis %d of %s", p.size, axis, t.Type())
		}
	}
	return p, nil
}

// count is the number of scales; per group they are in the row-major order of the scale tensor.
func (p parts) count() int {
	if p.grouped {
		return p.outer * (p.n / p.size) * p.inner
	}
	return p.n
}

// each calls f with the elements of part i, run by run.
func (p parts) each(i int, f func(run []float32)) {
	if !p.grouped {
		for o := range p.outer {
			f(p.data[(o*p.n+i)*p.inner:][:p.inner])
		}
		return
	}
	in, block := i%p.inner, i/p.inner // block counts outer and the groups along the axis
	for k := range p.size {
		at := (block*p.size+k)*p.inner + in
		f(p.data[at : at+1])
	}
}

// partRange is the range of one part by a method, as if it were a tensor of its own.
func partRange(p parts, i int, m *observers.Method, c tqc.Config, parameter float64) (observers.Range, error) {
	if m == observers.MinMax {
		return partExtent(p, i)
	}
	st := observers.New()
	var err error
	p.each(i, func(run []float32) {
		if _, e := st.Observe(tensor.FromF32(run, len(run)), -1); e != nil && err == nil {
			err = e
		}
	})
	if err != nil {
		return observers.Range{}, err
	}
	if st.Count() == 0 {
		return observers.Range{}, nil
	}
	c.Policy = c.Policy&^(tqc.PerChannel|tqc.PerGroup) | tqc.PerTensor
	r, _, err := m.Range(st, c, parameter)
	return r, err
}

// partExtent is the exact range, infinite values included: qmath replaces and reports them. No elements are the range [0, 0].
func partExtent(p parts, i int) (observers.Range, error) {
	x := observers.NoExtent
	nan := false
	p.each(i, func(run []float32) {
		for _, v := range run {
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
