package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// selectEvals choose or limit elements.
var selectEvals = []evaluator{
	{"Where", simple(evalWhere)},
	{"Clip", buildClip},
}

// evalWhere takes each element from input 1 where the condition holds, else from input 2: two masked moves.
func evalWhere(c *call) error {
	in, layout := c.operands(c.outShape(0))
	cond, ok := in[0].Data.([]bool)
	if !ok {
		return badType(0, in[0].DType)
	}
	if in[1].DType != in[2].DType {
		return fmt.Errorf("operands of different types: %s and %s", in[1].Type(), in[2].Type())
	}
	out, err := c.outIn(0, layout)
	if err != nil {
		return err
	}
	br := broadcastTo(out.Shape, out.Layout, -1, in...)
	a, b := in[1].Data, in[2].Data
	switch d := out.Data.(type) {
	case []float32:
		chooseFloats(c, br, d, cond, a.([]float32), b.([]float32))
	case []float64:
		choose(c, br, d, cond, a.([]float64), b.([]float64))
	case []int8:
		choose(c, br, d, cond, a.([]int8), b.([]int8))
	case []int16:
		choose(c, br, d, cond, a.([]int16), b.([]int16))
	case []int32:
		choose(c, br, d, cond, a.([]int32), b.([]int32))
	case []int64:
		choose(c, br, d, cond, a.([]int64), b.([]int64))
	case []uint8:
		choose(c, br, d, cond, a.([]uint8), b.([]uint8))
	case []uint16:
		choose(c, br, d, cond, a.([]uint16), b.([]uint16))
	case []uint32:
		choose(c, br, d, cond, a.([]uint32), b.([]uint32))
	case []uint64:
		choose(c, br, d, cond, a.([]uint64), b.([]uint64))
	case []bool:
		choose(c, br, d, cond, a.([]bool), b.([]bool))
	case []string:
		choose(c, br, d, cond, a.([]string), b.([]string))
	default:
		return badType(1, in[1].DType)
	}
	return nil
}

func choose[T any](c *call, br broadcast, out []T, cond []bool, a, b []T) {
	s0, s1, s2 := br.rowStep(0), br.rowStep(1), br.rowStep(2)
	br.rows(c.parallel, 2, func(at, n int, from []int) {
		i, j, k := from[0], from[1], from[2]
		for p := range out[at : at+n] {
			if cond[i] {
				out[at+p] = a[j]
			} else {
				out[at+p] = b[k]
			}
			i, j, k = i+s0, j+s1, k+s2
		}
	})
}

// chooseFloats is choose by a kernel.
func chooseFloats(c *call, br broadcast, out []float32, cond []bool, a, b []float32) {
	s0, s1, s2 := br.rowStep(0), br.rowStep(1), br.rowStep(2)
	br.rows(c.parallel, 1, func(at, n int, from []int) {
		take := along[bool]{x: cond, from: from[0], step: s0}
		x, y := along[float32]{x: a, from: from[1], step: s1}, along[float32]{x: b, from: from[2], step: s2}
		for lo := 0; lo < n; lo += gathered {
			dst := out[at+lo : at+min(lo+gathered, n)]
			c.run.s.table.Choose(dst, take.part(lo, len(dst)), x.part(lo, len(dst)), y.part(lo, len(dst)))
		}
	})
}

// buildClip limits to [min, max]: attributes before opset 11, optional inputs since. If min is above max the result is max.
func buildClip(n *graph.Node, version int64) (evalFunc, error) {
	if version < 11 {
		lo, hi := n.Limits()
		return func(c *call) error {
			switch d := c.raw(0).DType; d {
			case tensor.Float32:
				return limitF32(c, lo, hi)
			case tensor.Float64:
				return mapF64(c, func(x float64) float64 { return max(float64(lo), min(float64(hi), x)) })
			default:
				return badType(0, d)
			}
		}, nil
	}
	return evalClip, nil
}

func evalClip(c *call) error {
	x := c.raw(0)
	for i := 1; i < 3; i++ {
		if t := c.raw(i); t != nil && (t.DType != x.DType || t.Len() != 1) {
			return fmt.Errorf("limit %s for %s", t.Type(), x.Type())
		}
	}
	if x.DType == tensor.Float32 {
		lo, hi := float32(math.Inf(-1)), float32(math.Inf(1))
		if c.has(1) {
			lo = c.raw(1).F32()[0]
		}
		if c.has(2) {
			hi = c.raw(2).F32()[0]
		}
		return limitF32(c, lo, hi)
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	switch d := out.Data.(type) {
	case []float64:
		clip(c, d)
	case []int8:
		clip(c, d)
	case []int16:
		clip(c, d)
	case []int32:
		clip(c, d)
	case []int64:
		clip(c, d)
	case []uint8:
		clip(c, d)
	case []uint16:
		clip(c, d)
	case []uint32:
		clip(c, d)
	case []uint64:
		clip(c, d)
	default:
		return badType(0, x.DType)
	}
	return nil
}

func clip[T number](c *call, dst []T) {
	copy(dst, tensor.Of[T](c.raw(0)))
	if c.has(1) {
		lo := tensor.Of[T](c.raw(1))[0]
		for i := range dst {
			dst[i] = max(dst[i], lo)
		}
	}
	if c.has(2) {
		hi := tensor.Of[T](c.raw(2))[0]
		for i := range dst {
			dst[i] = min(dst[i], hi)
		}
	}
}
