// Package planning is the plan: read and written, derived from its decisions, changed by deciding something, told as a log.
package planning

import (
	"context"
	"errors"
	"math"
	"slices"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// sameValue is the largest difference, relative to the largest value of a tensor, that is taken for rounding.
const sameValue = 1e-5

// CompareFloat runs two graphs on samples. nsr is the largest error of an output of b against a's, relative to its power. changed names the
// tensors of b that a has not, or has with other values.
func CompareFloat(ctx context.Context, a, b *graph.Graph, samples []calib.Kept, threads int) (nsr float64, changed map[string]bool,
	err error) {
	if len(samples) == 0 {
		return 0, nil, errors.New("the statistics keep no samples that steps could be checked on")
	}
	sa, err := exec.New(a, exec.Options{Context: ctx, Threads: threads})
	if err != nil {
		return 0, nil, err
	}
	sb, err := exec.New(b, exec.Options{Context: ctx, Threads: threads})
	if err != nil {
		return 0, nil, err
	}
	changed = map[string]bool{}
	ra, rb := sa.NewRunner(), sb.NewRunner()
	for _, s := range samples {
		va, err := ra.RunAll(ctx, s.Feeds, nil, nil)
		if err != nil {
			return 0, nil, err
		}
		vb, err := rb.RunAll(ctx, s.Feeds, nil, nil)
		if err != nil {
			return 0, nil, err
		}
		for id, y := range vb {
			v := graph.ValueID(id)
			if y == nil || y.DType != tensor.Float32 || b.Const(v) != nil {
				continue
			}
			var x *tensor.Tensor
			if other, ok := a.Lookup(b.Value(v).Name); ok && a.Const(other) == nil {
				x = va[other]
			}
			if name := b.Value(v).Name; !b.IsInput(v) && !changed[name] && !sameTensors(x, y) {
				changed[name] = true
			}
			if b.IsOutput(v) {
				nsr = max(nsr, errorOf(x, y))
			}
		}
	}
	return nsr, changed, nil
}

// sameTensors says whether y is x up to rounding. x may be nil. Nothing is copied where both lie in memory alike.
func sameTensors(x, y *tensor.Tensor) bool {
	if !alike(x, y) {
		return false
	}
	if x.Layout != y.Layout {
		x, y = x.ToRowMajor(), y.ToRowMajor()
	}
	var most, worst float64
	ys := y.F32()
	for i, v := range x.F32() {
		a, d := math.Abs(float64(v)), math.Abs(float64(ys[i])-float64(v))
		if !(d <= worst) {
			if worst = d; d != d {
				return false
			}
		}
		if a > most {
			most = a
		}
	}
	return worst <= sameValue*most
}

// errorOf is the error of y relative to the power of x, infinite where there is no x like it.
func errorOf(x, y *tensor.Tensor) float64 {
	if !alike(x, y) {
		return math.Inf(1)
	}
	var noise, signal float64
	ys := y.ToRowMajor().F32()
	for i, v := range x.ToRowMajor().F32() {
		d := float64(ys[i]) - float64(v)
		noise, signal = noise+float64(d*d), signal+float64(float64(v)*float64(v))
	}
	return noise / (signal + 1e-7)
}

func alike(x, y *tensor.Tensor) bool {
	return x != nil && x.DType == y.DType && x.Len() == y.Len() && slices.Equal(x.Shape, y.Shape)
}
