package exec

import (
	"errors"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// fillEvals make tensors out of shapes and numbers.
var fillEvals = []evaluator{
	{"ConstantOfShape", buildConstantOfShape},
	{"Range", simple(evalRange)},
	{"OneHot", buildOneHot},
	{"EyeLike", buildEyeLike},
	{"Trilu", buildTrilu},
}

func buildConstantOfShape(n *graph.Node, _ int64) (evalFunc, error) {
	value := tensor.FromF32([]float32{0}, 1)
	if a := n.Attr("value"); a != nil && a.T != nil {
		if a.T.Len() != 1 {
			return nil, fmt.Errorf("value of %d elements", a.T.Len())
		}
		value = a.T
	}
	return func(c *call) error {
		shape, err := ints(c.in(0))
		if err != nil {
			return err
		}
		out, err := c.outAs(0, value.DType, shape, tensor.RowMajor)
		if err != nil {
			return err
		}
		if one := value.Data; isPacked(value.DType) {
			codes := make([]uint8, out.Len())
			fill(codes, one.([]uint8)[0])
			packInto(tensor.Of[uint8](out), value.DType, codes)
		} else {
			storageOf(out.Data).fill(one)
		}
		return nil
	}, nil
}

// evalRange is start, start+delta, ... before limit, computed as start + i*delta.
func evalRange(c *call) error {
	for i := range 3 {
		if t := c.in(i); t.Len() != 1 || t.DType != c.in(0).DType {
			return errors.New("start, limit and delta must be one number of one type each")
		}
	}
	switch c.in(0).Data.(type) {
	case []float32:
		return makeRange[float32](c)
	case []float64:
		return makeRange[float64](c)
	case []int16:
		return makeRange[int16](c)
	case []int32:
		return makeRange[int32](c)
	case []int64:
		return makeRange[int64](c)
	}
	return badType(0, c.in(0).DType)
}

func makeRange[T number](c *call) error {
	start, limit, delta := tensor.Of[T](c.in(0))[0], tensor.Of[T](c.in(1))[0], tensor.Of[T](c.in(2))[0]
	n := math.Ceil((float64(limit) - float64(start)) / float64(delta))
	if delta == 0 || math.IsNaN(n) || n > maxElements {
		return fmt.Errorf("range from %v to %v by %v", start, limit, delta)
	}
	out, err := c.outAs(0, c.in(0).DType, []int{int(max(n, 0))}, tensor.RowMajor)
	if err != nil {
		return err
	}
	d := tensor.Of[T](out)
	for i := range d {
		d[i] = start + T(i)*delta
	}
	return nil
}

// buildOneHot sets, along a new axis, the on value at the index and the off value elsewhere. Indices outside of
// [-depth, depth) leave only off values.
func buildOneHot(n *graph.Node, _ int64) (evalFunc, error) {
	axis := n.Axis()
	return func(c *call) error {
		raw, err := float64s(c.in(0))
		if err != nil {
			return err
		}
		depths, err := float64s(c.in(1))
		if err != nil {
			return err
		}
		values := c.in(2)
		if len(depths) != 1 || values.Len() != 2 || depths[0] < 0 || depths[0] > maxElements {
			return fmt.Errorf("depth %v and values %s", depths, values.Type())
		}
		depth := int(depths[0])
		shape := c.in(0).Shape
		a, err := axisIn(axis, len(shape)+1)
		if err != nil {
			return err
		}
		full := append(append(append([]int(nil), shape[:a]...), depth), shape[a:]...)
		out, err := c.outAs(0, values.DType, full, tensor.RowMajor)
		if err != nil {
			return err
		}
		inner := tensor.Count(shape[a:])
		var hot []int
		for i, v := range raw {
			k := int(v)
			if k < 0 {
				k += depth
			}
			if k >= 0 && k < depth {
				hot = append(hot, i/inner*depth*inner+k*inner+i%inner)
			}
		}
		dst := storageOf(out.Data)
		dst.fill(values.Data)
		for _, at := range hot {
			copyElements(out.Data, at, values.Data, 1, 1)
		}
		return nil
	}, nil
}

func buildEyeLike(n *graph.Node, _ int64) (evalFunc, error) {
	k := int(n.AttrInt("k", 0))
	return func(c *call) error {
		out, err := c.out(0)
		if err != nil {
			return err
		}
		rows, cols := out.Shape[0], out.Shape[1]
		one, err := castTo(out.DType, tensor.FromI64([]int64{0, 1}, 2))
		if err != nil {
			return err
		}
		storageOf(out.Data).fill(one)
		for r := range rows {
			if j := r + k; j >= 0 && j < cols {
				copyElements(out.Data, r*cols+j, one, 1, 1)
			}
		}
		return nil
	}, nil
}

// buildTrilu keeps the upper (or lower) triangle of each matrix, shifted by input 1.
func buildTrilu(n *graph.Node, _ int64) (evalFunc, error) {
	upper := n.AttrInt("upper", 1) != 0
	return func(c *call) error {
		x := c.in(0)
		k := 0
		if c.has(1) {
			var err error
			if k, err = scalarInt(c.in(1)); err != nil {
				return err
			}
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		r := len(x.Shape)
		if r < 2 {
			return fmt.Errorf("matrices expected, got %s", x.Type())
		}
		rows, cols := x.Shape[r-2], x.Shape[r-1]
		zero := tensor.MakeData(x.DType, 1)
		storageOf(out.Data).fill(zero)
		for m := range tensor.Count(x.Shape[:r-2]) {
			for i := range rows {
				lo, hi := 0, min(cols, max(0, i+k+1))
				if upper {
					lo, hi = max(0, min(cols, i+k)), cols
				}
				at := (m*rows+i)*cols + lo
				copyElements(out.Data, at, x.Data, at, hi-lo)
			}
		}
		return nil
	}, nil
}
