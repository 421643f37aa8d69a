package lower

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// Average is AveragePool, GlobalAveragePool or ReduceMean: the mean of the integers of a window.
type Average struct {
	Kind string // of the operator
	// Axes are averaged over; they stay with size 1 if Keep is set. Nil for AveragePool, whose windows are those of the node.
	Axes []int
	Keep bool
	X, Y qmath.Grid // Y limited by a fused activation
	// ByCount holds the arithmetic for the number of positions of a window that count; nil for numbers that do not occur. One entry
	// alone is for all windows, none where the size of the input is not known before it is there: see For.
	ByCount []*qmath.Average
}

// Name implements Op.
func (o *Average) Name() string { return o.Kind }

func (o *Average) describe() string { return fmt.Sprintf("in %d..%d", o.Y.QMin, o.Y.QMax) }

// For returns the arithmetic of profile, which the program was compiled for, for n positions that count.
func (o *Average) For(profile qmath.Profile, n int) (*qmath.Average, error) {
	switch {
	case len(o.ByCount) == 1 && o.ByCount[0].N == n:
		return o.ByCount[0], nil
	case len(o.ByCount) > 1 && n < len(o.ByCount) && o.ByCount[n] != nil:
		return o.ByCount[n], nil
	}
	a, err := profile.PrepareAverage(o.X, o.Y, n, o.kind())
	return &a, err
}

// kind is the operator as the arithmetic knows it.
func (o *Average) kind() qmath.AverageKind {
	switch o.Kind {
	case "AveragePool":
		return qmath.WindowMean
	case "GlobalAveragePool":
		return qmath.GlobalMean
	}
	return qmath.AxesMean
}

// Empty is the result of a window without positions.
func (o *Average) Empty() int32 { return min(max(o.Y.ZeroPoint, o.Y.QMin), o.Y.QMax) }

var averageFamily = family{name: "average", emit: emitAverage, ops: []string{"AveragePool", "GlobalAveragePool", "ReduceMean"}}

func emitAverage(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	encs, in, err := c.operands(u, 0, 1)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	op := &Average{Kind: n.Op, X: encs[0].Grid(), Y: y.Grid()}
	counts, err := c.counts(n, op)
	if err != nil {
		return c.fail(n.ID, "%w", err)
	}
	for _, k := range counts {
		a, err := op.For(c.profile, k)
		if err != nil && encs[0].DType().Bits() == 16 { // fewer codes of 16 bits add up in int32
			return c.refuse(u, "%w", err)
		}
		if err != nil {
			return c.fail(n.ID, "%w", err)
		}
		if len(counts) > 1 {
			op.ByCount = append(op.ByCount, make([]*qmath.Average, k-len(op.ByCount))...)
		}
		op.ByCount = append(op.ByCount, a)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, op)
	return nil
}

// counts sets the axes of op and lists, in ascending order, how many positions its windows may have; nil if that is not known.
func (c *compiler) counts(n *graph.Node, op *Average) ([]int, error) {
	if n.Op == "AveragePool" {
		geo, err := graph.PoolGeometry(n, c.g.Value(n.Inputs[0]).Shape)
		if err != nil {
			return nil, err
		}
		size := 1
		for _, k := range geo.Kernel {
			size *= k
		}
		padded := false
		for i := range geo.PadBegin {
			padded = padded || geo.PadBegin[i] != 0 || geo.PadEnd[i] != 0
		}
		if !padded && !n.Pool().Ceil {
			return []int{size}, nil
		}
		all := make([]int, size)
		for i := range all {
			all[i] = i + 1
		}
		return all, nil
	}
	var err error
	if op.Axes, op.Keep, err = c.axes(n); err != nil {
		return nil, err
	}
	size := 1
	shape := c.g.Value(n.Inputs[0]).Shape
	for _, a := range op.Axes {
		if !shape[a].Known() {
			return nil, nil
		}
		size *= int(shape[a].N)
	}
	return []int{size}, nil
}

// axes lists the axes that a mean is taken over, from the front, and whether they stay with size 1.
func (c *compiler) axes(n *graph.Node) (axes []int, keep bool, err error) {
	shape := c.g.Value(n.Inputs[0]).Shape
	if shape == nil {
		return nil, false, fmt.Errorf("the rank of its input is not known")
	}
	keep = true
	if n.Op == "ReduceMean" {
		keep = n.KeepDims()
		axes, err = c.g.ReducedAxes(n, len(shape))
		if err == nil && len(axes) == 0 && len(shape) > 0 {
			err = fmt.Errorf("it has no axes")
		}
		return axes, keep, err
	}
	for a := 2; a < len(shape); a++ {
		axes = append(axes, a)
	}
	return axes, keep, nil
}
