package espdl

import (
	"maps"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// tested are the test values of an input or output.
const tested export.ItemKind = "test values"

// between are the entries of a table of int16 that stand between those of the file.
const between export.ItemKind = "entries between those of a table"

// wants is all of a program, the limits of operators that compute integers of integers, and of tables the entries that a file has.
func wants(in *export.Input, yield func(*export.Item) error) error {
	err := export.OfProgram(in, func(it *export.Item) error {
		if it.Kind == export.Table {
			return nil
		}
		return yield(it)
	})
	if err != nil {
		return err
	}
	held := in.State.(*places).held // back has asked whether it is there
	for _, id := range slices.Sorted(maps.Keys(held)) {
		it := &export.Item{At: export.TensorName(in.Program.Tensors[id].Name), Kind: tested}
		if x := held[id].ToRowMajor(); x.DType == tensor.Float32 {
			it.Floats = x.F32()
		} else {
			it.Ints = x.Integers()
		}
		if err := yield(it); err != nil {
			return err
		}
	}
	for i := range in.Program.Steps {
		s := &in.Program.Steps[i]
		at := export.StepName(in.Program, s)
		var list []*export.Item
		limits := func(y *qmath.Grid) {
			list = []*export.Item{{At: at, Kind: export.Clamp, Ints: []int32{y.QMin, y.QMax}}}
		}
		switch op := s.Op.(type) {
		case *lower.Sum:
			limits(&op.Sum.Y)
		case *lower.Product:
			limits(&op.Product.Y)
		case *lower.Average:
			limits(&op.Y)
		case *lower.Island:
			realNumbers(op, func(n *graph.Node, i int, x *tensor.Tensor) {
				list = append(list, &export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: x.ToRowMajor().F32()})
			})
			floatOperators(op, func(_ *graph.Node, it *export.Item) { list = append(list, it) })
		case *lower.Table:
			list = entries(at, op.Codes.Integers(), in.Program.Profile.Step)
		}
		if it := windowOf(in.Program, s); it != nil {
			list = append(list, it)
		}
		if it := moveOf(in.Program, s); it != nil {
			list = append(list, it)
		}
		if it := in.State.(*places).numbers(in.Program, s); it != nil {
			list = append(list, it)
		}
		if it := in.State.(*places).sources(in.Program, s); it != nil {
			list = append(list, it)
		}
		layouts(in.Program, in.State.(*places), s, func(_ int, it *export.Item) { list = append(list, it) })
		for _, it := range list {
			if err := yield(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// realNumbers visits the float32 constants that operators in float read.
func realNumbers(op *lower.Island, see func(n *graph.Node, i int, x *tensor.Tensor)) {
	for _, id := range op.Graph.Nodes() {
		n := op.Graph.Node(id)
		for i, v := range n.Inputs {
			if v == graph.NoValue {
				continue
			}
			if x := op.Graph.Const(v); x != nil && x.DType == tensor.Float32 {
				see(n, i, x)
			}
		}
	}
}

// entries are those of a function of codes as a file has them, from the lowest code up, and the others, in the order of codes.
func entries(at string, codes []int32, step int) []*export.Item {
	held, others := &export.Item{At: at, Kind: export.Table}, &export.Item{At: at, Kind: between, Ints: []int32{}}
	half := len(codes) / 2
	if step = max(step, 1); len(codes) == 256 {
		step = 1
	}
	for q := -half; q < half; q++ {
		if x := codes[q&(len(codes)-1)]; (q+half)%step == 0 {
			held.Ints = append(held.Ints, x)
		} else if q < half-1 {
			others.Ints = append(others.Ints, x)
		}
	}
	if len(codes) != 256 { // one more at the end: what the highest code reads
		held.Ints = append(held.Ints, codes[half-1])
	}
	if len(others.Ints) == 0 {
		return []*export.Item{held}
	}
	return []*export.Item{held, others}
}
