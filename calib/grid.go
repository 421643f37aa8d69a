package calib

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// fewestOnGrid is how many numbers beside one of each part must lie on the grid of a constant for it to be no accident.
const fewestOnGrid = 16

// onGrid gives a constant whose numbers lie on a grid that its scales miss the scales of that grid: weights that were rounded before, by a
// fake quantization that nothing in the file names any more. Every number of every part has to be a multiple of a step, bit for bit or up
// to what folding a normalization leaves, by a code that the configuration has. It reports whether anything changed.
func onGrid(t *tensor.Tensor, c tqc.Config, p *tqc.Params) (bool, error) {
	if !c.Integer() || c.Blocks != tqc.FreeScales {
		return false, nil
	}
	parts, err := tqc.PartsOf(t, &c)
	if err != nil {
		return false, err
	}
	scale, zero := append([]float32(nil), p.Scale...), append([]int32(nil), p.ZeroPoint...)
	changed, evidence := false, 0
	var x []float32
	for i := range scale {
		x = x[:0]
		parts.Each(i, func(from, to int) { x = append(x, t.F32()[from:to]...) })
		if n := nonzero(x); n == 0 {
			continue
		} else {
			evidence += n - 1
		}
		if qmath.Multiples(x, scale[i], qmath.FoldedSlack) {
			continue
		}
		s, ok := qmath.Step(x, min(int(c.QMax-c.QMin), 255), qmath.FoldedSlack) // by finer steps anything is a multiple
		if m, _ := math.Frexp(float64(s)); !ok || c.Policy.Has(tqc.PowerOf2) && m != 0.5 {
			return false, nil
		}
		lo, hi := int32(0), int32(0)
		for _, v := range x {
			code := qmath.Grid{Scale: s, QMin: math.MinInt32, QMax: math.MaxInt32}.Quantize(v)
			lo, hi = min(lo, code), max(hi, code)
		}
		if c.Policy.Has(tqc.Asymmetric) && (zero[i]+lo < c.QMin || zero[i]+hi > c.QMax) {
			zero[i] = c.QMin - lo
		}
		if zero[i]+lo < c.QMin || zero[i]+hi > c.QMax {
			return false, nil
		}
		scale[i], changed = s, true
	}
	if !changed || evidence < fewestOnGrid {
		return false, nil
	}
	p.Scale, p.ZeroPoint = scale, zero
	return true, nil
}

func nonzero(x []float32) (n int) {
	for _, v := range x {
		if v != 0 {
			n++
		}
	}
	return n
}

// grids warns of the constants that onGrid found.
func (r *renderer) grids() {
	if n := len(r.onGrids); n > 0 {
		r.out.Warnings = append(r.out.Warnings, tqc.Warning{Node: r.g.Node(r.onGrids[0].Node).Name, Value: float64(n),
			Text: fmt.Sprintf("the weights of %d operators were rounded before (fake quantization): their scales are the steps of that grid, and "+
				"they lose nothing", n)})
	}
}
