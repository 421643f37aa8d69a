package grad

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// resize is linear in each axis: the matrix of an axis is what the operator itself makes of every unit vector along it.
func resize(t *tape, x, y, dy graph.ValueID) graph.ValueID {
	from, to := t.shape(x), t.shape(y)
	crops := t.n.AttrStr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
	if crops || t.G.Const(t.x(2)) == nil && t.x(3) == graph.NoValue {
		t.fail(fmt.Errorf("crops, and scales that are not constant, have no rule"))
		return dy
	}
	for axis := range from {
		if from[axis] == to[axis] {
			continue
		}
		m, err := t.resizeMatrix(from[axis], to[axis], axis)
		if err != nil {
			t.fail(err)
			return dy
		}
		dy = t.along(dy, len(from), axis, m)
	}
	return dy
}

// resizeMatrix is [to][from]: what the Resize under way makes of the unit vectors of one axis.
func (t *tape) resizeMatrix(from, to, axis int) ([][]float64, error) {
	g := graph.New("axis", t.G.Opset(""))
	x, err := g.AddValue(graph.Value{Name: "x", DType: tensor.Float32, Shape: graph.Static(from, 1, from)})
	if err != nil {
		return nil, err
	}
	y, err := g.AddValue(graph.Value{Name: "y"})
	if err != nil {
		return nil, err
	}
	n := graph.Node{Name: "resize", Op: "Resize", Attrs: t.n.Attrs, Outputs: []graph.ValueID{y},
		Inputs: []graph.ValueID{x, graph.NoValue, graph.NoValue, graph.NoValue}}
	if c := t.G.Const(t.n.Input(2)); c != nil && c.Len() > axis {
		n.Inputs = n.Inputs[:3]
		n.Inputs[2] = g.AddConst("scales", tensor.FromF32([]float32{1, 1, c.F32()[axis]}, 3))
	} else {
		n.Inputs[3] = g.AddConst("sizes", tensor.FromI64([]int64{int64(from), 1, int64(to)}, 3))
	}
	if _, err := g.AddNode(n); err != nil {
		return nil, err
	}
	g.Inputs, g.Outputs = []graph.ValueID{x}, []graph.ValueID{y}
	s, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	units := tensor.New(tensor.Float32, from, 1, from)
	for i := range from {
		units.F32()[i*from+i] = 1
	}
	out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": units}, nil)
	if err != nil {
		return nil, err
	}
	if out[0].Len() != from*to {
		return nil, fmt.Errorf("axis %d of %d elements becomes one of %d, not %d", axis, from, out[0].Len()/from, to)
	}
	m := make([][]float64, to)
	for o := range m {
		m[o] = make([]float64, from)
		for i := range from {
			m[o][i] = float64(out[0].F32()[i*to+o])
		}
	}
	return m, nil
}
