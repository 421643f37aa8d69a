package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// scatterEvals write elements to computed positions of a copy of their first input.
var scatterEvals = []evaluator{
	{"ScatterElements", buildScatterElements},
	{"Scatter", buildScatterElements}, // its name before opset 11
	{"ScatterND", buildScatterND},
}

var scatterOps = map[string]arithOp{"add": opAdd, "mul": opMul, "max": opMax, "min": opMin}

func checkReduction(n *graph.Node) (string, error) {
	name := n.AttrStr("reduction", "none")
	if _, ok := scatterOps[name]; !ok && name != "none" {
		return "", fmt.Errorf("reduction %q is not supported", name)
	}
	return name, nil
}

func buildScatterElements(n *graph.Node, _ int64) (evalFunc, error) {
	axis := n.Axis()
	reduction, err := checkReduction(n)
	return func(c *call) error {
		index, err := alongIndices(c, c.in(0).Shape, axis)
		if err != nil {
			return err
		}
		return scatter(c, index, 1, reduction)
	}, err
}

func buildScatterND(n *graph.Node, _ int64) (evalFunc, error) {
	reduction, err := checkReduction(n)
	return func(c *call) error {
		index, size, err := tuples(c, c.in(0).Shape, 0)
		if err != nil {
			return err
		}
		return scatter(c, index, size, reduction)
	}, err
}

// scatter writes the blocks of input 2 to the numbered blocks of a copy of input 0, in order.
func scatter(c *call, index []int, size int, reduction string) error {
	x, updates := c.in(0), c.in(2)
	if updates.DType != x.DType || updates.Len() != len(index)*size {
		return fmt.Errorf("updates %s do not fit %d blocks of %d", updates.Type(), len(index), size)
	}
	out, err := c.outAs(0, x.DType, x.Shape, tensor.RowMajor)
	if err != nil {
		return err
	}
	copyElements(out.Data, 0, x.Data, 0, x.Len())
	if reduction == "none" {
		storageOf(out.Data).scatter(updates.Data, index, size)
		return nil
	}
	op := scatterOps[reduction]
	switch d := out.Data.(type) {
	case []float32:
		accumulate(d, updates.F32(), index, size, floatFunc[float32](op))
	case []float64:
		accumulate(d, tensor.Of[float64](updates), index, size, floatFunc[float64](op))
	case []int8:
		accumulate(d, tensor.Of[int8](updates), index, size, intFunc[int8](op))
	case []int16:
		accumulate(d, tensor.Of[int16](updates), index, size, intFunc[int16](op))
	case []int32:
		accumulate(d, tensor.Of[int32](updates), index, size, intFunc[int32](op))
	case []int64:
		accumulate(d, tensor.Of[int64](updates), index, size, intFunc[int64](op))
	case []uint8:
		accumulate(d, tensor.Of[uint8](updates), index, size, intFunc[uint8](op))
	case []uint16:
		accumulate(d, tensor.Of[uint16](updates), index, size, intFunc[uint16](op))
	case []uint32:
		accumulate(d, tensor.Of[uint32](updates), index, size, intFunc[uint32](op))
	case []uint64:
		accumulate(d, tensor.Of[uint64](updates), index, size, intFunc[uint64](op))
	case []bool:
		accumulate(d, tensor.Of[bool](updates), index, size, boolFunc(op))
	default:
		return badType(0, x.DType)
	}
	return nil
}

// boolFunc takes truth values as 0 and 1, sums limited to 1.
func boolFunc(op arithOp) func(a, b bool) bool {
	if op == opAdd || op == opMax {
		return func(a, b bool) bool { return a || b }
	}
	return func(a, b bool) bool { return a && b }
}

func accumulate[T any](dst, updates []T, index []int, size int, f func(a, b T) T) {
	for i, k := range index {
		for j := range size {
			dst[k*size+j] = f(dst[k*size+j], updates[i*size+j])
		}
	}
}
