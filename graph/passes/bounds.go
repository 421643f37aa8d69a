package passes

import (
	"math"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// Bounds gives limits on a value one form, which targets fuse behind the operator that computes it.
var Bounds = Pass{
	Name: "bounds",
	Doc:  "Writes Max and Min with a number as Clip, removes Clip without bounds, and makes one of Relu and Clip in a row.",
	sweep: func(c *Context) error {
		if err := limits(c); err != nil {
			return err
		}
		return joined(c)
	},
}

// The second sweep sees what the first wrote, so that relu6 as Max and Min is one Clip before other passes look for idioms.
var (
	limits = each(at("y = Max|Min(x, scalar k)", limit))
	joined = each(at("y = Clip(x, ...)", unbounded), at("x = Relu|Clip(u, ...)\ny = Relu|Clip(x, ...)", boundTwice))
)

func limit(c *Context, m *pattern.Match) (*Patch, error) {
	n, x, k := c.G.Node(m.Root), m.Value("x"), c.G.Const(m.Value("k"))
	v, ok := pattern.Scalar(k)
	if !ok || k.DType != tensor.Float32 || c.G.Const(x) != nil || c.G.Opset("") < 6 {
		return nil, nil
	}
	if math.IsNaN(v) {
		return nil, decline("the bound is NaN")
	}
	if rank, ok := pattern.Rank(c.G, x); len(k.Shape) > 0 && (!ok || rank < len(k.Shape)) {
		return nil, decline("the bound %s may have more dimensions than %q", k.Type(), c.G.Value(x).Name)
	}
	lo, hi := v, math.Inf(1)
	if n.Op == "Min" {
		lo, hi = math.Inf(-1), v
	}
	return c.clip(n, x, lo, hi, n.Op+" with a number as Clip"), nil
}

func unbounded(c *Context, m *pattern.Match) (*Patch, error) {
	lo, hi, ok := bounds(c.G, c.G.Node(m.Root))
	if !ok || !math.IsInf(lo, -1) || !math.IsInf(hi, 1) || c.G.Const(m.Value("x")) != nil {
		return nil, nil
	}
	return c.bypass(m.Root, m.Value("x"), "Clip without bounds")
}

// boundTwice: bounds behind bounds are the bounds [b(lo), b(hi)], where b applies the second to the first.
func boundTwice(c *Context, m *pattern.Match) (*Patch, error) {
	n, first := c.G.Node(m.Root), c.G.Node(m.Node("x"))
	lo, hi, ok := bounds(c.G, first)
	lo2, hi2, ok2 := bounds(c.G, n)
	u := m.Value("u")
	if n.Input(0) != m.Value("x") || c.G.Const(u) != nil || c.G.Value(u).DType != tensor.Float32 {
		return nil, nil
	}
	if !ok || !ok2 {
		return nil, decline("a bound is computed, or the lower one is above the upper one")
	}
	b := func(x float64) float64 { return min(max(x, lo2), hi2) }
	p := c.clip(n, u, b(lo), b(hi), "one Clip for "+first.Op+" and "+n.Op)
	p.Drop(first.ID)
	return p, nil
}

// clip replaces n by bounds on u: Relu for [0, inf), else Clip in the form of the opset.
func (c *Context) clip(n *graph.Node, u graph.ValueID, lo, hi float64, what string) *Patch {
	p := &Patch{What: what}
	p.Drop(n.ID)
	next := graph.Node{Name: n.Name, Op: "Clip", Doc: n.Doc, Inputs: []graph.ValueID{u}, Outputs: n.Outputs}
	low, high := !math.IsInf(lo, -1), !math.IsInf(hi, 1)
	switch {
	case lo == 0 && !high:
		next.Op = "Relu"
	case c.G.Opset("") < 11:
		if low {
			next.SetAttr(graph.Float("min", float32(lo)))
		}
		if high {
			next.SetAttr(graph.Float("max", float32(hi)))
		}
	default:
		next.Inputs = append(next.Inputs, graph.NoValue)
		if low {
			next.Inputs[1] = p.Const(n.Name+".min", tensor.FromF32([]float32{float32(lo)}))
		}
		if high {
			next.Inputs = append(next.Inputs, p.Const(n.Name+".max", tensor.FromF32([]float32{float32(hi)})))
		}
	}
	p.Add(next)
	return p
}

// bounds are the limits of a Relu or Clip, infinite where it has none; false if they are computed or do not bound an interval.
func bounds(g *graph.Graph, n *graph.Node) (lo, hi float64, ok bool) {
	if n.Op == "Relu" {
		return 0, math.Inf(1), true
	}
	lo, hi = math.Inf(-1), math.Inf(1)
	for i, b := range []*float64{&lo, &hi} {
		if a := n.Attr([]string{"min", "max"}[i]); a != nil {
			*b = float64(a.F)
		}
		if v := n.Input(1 + i); v != graph.NoValue {
			if *b, ok = pattern.Scalar(g.Const(v)); !ok {
				return 0, 0, false
			}
		}
	}
	return lo, hi, lo <= hi
}
