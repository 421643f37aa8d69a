package rewrite

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Shift takes vector "shift", of one number per channel, off what node At computes and adds what its readers then lack to their biases:
// W x + b = W (x - z) + (b + W z). At is a LayerNormalization, or a Conv or Gemm with a bias; its readers are Gemm, MatMul and Conv
// without padding, with constant weights. (Li et al. 2023, "RepQ-ViT", section 3.3: z is the middle of each channel's range.)
var Shift = Kind{Name: "shift", Doc: "moves the zero of output channels and takes that up in the biases of their readers",
	Apply: applyShift}

// CanShift reports whether the output channels of a node can be shifted.
func CanShift(g *graph.Graph, id graph.NodeID) bool {
	_, _, err := shiftable(g, id)
	return err == nil
}

// shiftable is the number of channels of a node that can be shifted, and its readers.
func shiftable(g *graph.Graph, id graph.NodeID) (n int, readers []*Reader, err error) {
	node := g.Node(id)
	axis, n, err := produces(g, id)
	if err != nil {
		return 0, nil, err
	}
	switch b := g.Const(node.Input(2)); {
	case node.Op != "LayerNormalization" && node.Op != "Conv" && node.Op != "Gemm":
		return 0, nil, fmt.Errorf("%s has no offset", node.Op)
	case b == nil && node.Op != "LayerNormalization" || b != nil && (len(b.Shape) != 1 || b.Len() != n) || node.Gemm().Beta != 1:
		return 0, nil, errors.New("it has no offset of each channel")
	}
	y := node.Output(0)
	if len(node.Outputs) != 1 || g.IsOutput(y) || g.Captured(y) {
		return 0, nil, fmt.Errorf("%q is seen outside", g.Value(y).Name)
	}
	for _, u := range g.Uses(y) {
		r, err := shiftReader(g, u, axis, n)
		if err != nil {
			return 0, nil, g.ErrorAt("", u.Node, err)
		}
		readers = append(readers, r)
	}
	if len(readers) == 0 {
		return 0, nil, errors.New("nobody reads it")
	}
	return n, readers, nil
}

// shiftReader reads a reader that can take a shift up.
func shiftReader(g *graph.Graph, u graph.Use, axis, n int) (*Reader, error) {
	node := g.Node(u.Node)
	r := ReaderOf(g, u.Node)
	if r == nil || r.Data != u.Index || r.Axis != axis || r.In != n {
		return nil, fmt.Errorf("%s does not multiply the channels by constants", node.Op)
	}
	if node.Op == "MatMul" {
		if r.At == 0 {
			return nil, errors.New("the channels of its product do not lie along the last axis")
		}
		return r, nil
	}
	if node.Conv().Transposed {
		return nil, errors.New("the borders of a ConvTranspose read fewer elements")
	}
	if b := node.Input(2); b != graph.NoValue && (g.Const(b) == nil || !slices.Equal(g.Const(b).Shape, []int{r.Out})) ||
		node.Gemm().Beta != 1 {
		return nil, errors.New("its bias is not one number for each channel")
	}
	if a := node.AttrStr("auto_pad", "NOTSET"); node.Op == "Conv" &&
		(a != "NOTSET" && a != "VALID" || slices.ContainsFunc(node.AttrInts("pads"), func(p int64) bool { return p != 0 })) {
		return nil, errors.New("its padding is not shifted")
	}
	return r, nil
}

func applyShift(g *graph.Graph, s *Step) error {
	id, ok := g.LookupNode(s.At)
	if !ok {
		return errors.New("there is no such node")
	}
	n, readers, err := shiftable(g, id)
	if err != nil {
		return err
	}
	shift := s.Vectors["shift"]
	if len(shift) != n {
		return fmt.Errorf("%d numbers for %d channels", len(shift), n)
	}
	lack := make([][]float64, len(readers))
	for i, r := range readers {
		lack[i] = make([]float64, r.Out)
		alpha := float64(g.Node(r.Node).Gemm().Alpha)
		r.Each(func(o, c int, w []float32) {
			for _, x := range w {
				lack[i][o] += float64(alpha * float64(float64(x)*float64(shift[c])))
			}
		})
	}
	down := make([]float64, n)
	for c, z := range shift {
		down[c] = -float64(z)
	}
	if err := offset(g, id, down); err != nil {
		return err
	}
	for i, r := range readers {
		if err := offset(g, r.Node, lack[i]); err != nil {
			return err
		}
	}
	return nil
}

// offset adds a number to each channel that a node computes.
func offset(g *graph.Graph, id graph.NodeID, add []float64) error {
	n := g.Node(id)
	if n.Op == "MatMul" {
		return offsetBehind(g, id, add)
	}
	t := tensor.New(tensor.Float32, len(add))
	old := g.Const(n.Input(2))
	for c, d := range add {
		if t.F32()[c] = float32(d); old != nil {
			t.F32()[c] = float32(float64(old.ToRowMajor().F32()[c]) + d)
		}
	}
	if err := checkFinite(t); err != nil {
		return err
	}
	if old != nil {
		g.OwnConst(id, 2, t)
	} else {
		g.SetInput(id, 2, g.AddConst(n.Name+".offset", t))
	}
	return nil
}

// offsetBehind adds a number to each channel of a MatMul: to the constant that is added to it, or by an Add of its own, whose result is
// then the value that the MatMul's was.
func offsetBehind(g *graph.Graph, id graph.NodeID, add []float64) error {
	y := g.Node(id).Output(0)
	if u, sole := g.SoleUse(y); sole && g.Node(u.Node).Op == "Add" && !g.IsOutput(y) {
		if t := g.Const(g.Node(u.Node).Inputs[1-u.Index]); t != nil && t.DType == tensor.Float32 && len(t.Shape) == 1 && t.Len() == len(add) {
			sum := tensor.New(tensor.Float32, len(add))
			for c, d := range add {
				sum.F32()[c] = float32(float64(t.ToRowMajor().F32()[c]) + d)
			}
			if err := checkFinite(sum); err != nil {
				return err
			}
			g.OwnConst(u.Node, 1-u.Index, sum)
			return nil
		}
	}
	t := tensor.New(tensor.Float32, len(add))
	for c, d := range add {
		t.F32()[c] = float32(d)
	}
	if err := checkFinite(t); err != nil {
		return err
	}
	name := g.Node(id).Name
	mid, err := g.AddValue(graph.Value{Name: g.FreshName(g.Value(y).Name + "/product"), DType: g.Value(y).DType, Shape: g.Value(y).Shape})
	if err != nil {
		return err
	}
	if err := g.SetOutput(id, 0, mid); err != nil {
		return err
	}
	_, err = g.AddNode(graph.Node{Name: g.FreshName(name + "/offset"), Op: "Add", Inputs: []graph.ValueID{mid, g.AddConst(name+".offset", t)},
		Outputs: []graph.ValueID{y}})
	return err
}
