package rewrite

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Scale multiplies the output channels of node At (Conv, ConvTranspose, Gemm, MatMul with a constant, a normalization, a product with a
// constant) by vector "scale", of one positive number per channel, and divides the weights of all that reads them (Nagel et al. 2019,
// "Data-Free Quantization Through Weight Equalization and Bias Correction", equation 7). In between may stand what keeps positive factors
// of channels; where values are added, all their producers are multiplied. A Clip to [0, b], as ReLU6, gets one bound for each channel: it
// clips to the largest of them, so that it can be fused as before, and a Min with a constant follows unless they are all equal.
var Scale = Kind{Name: "scale", Doc: "multiplies output channels by positive factors and divides the weights of their readers",
	Apply: applyScale}

func applyScale(g *graph.Graph, s *Step) error {
	way, err := applyFactors(g, s)
	if err != nil {
		return err
	}
	for _, e := range way.Bounded {
		if err := bound(g, e, e.factors(s.Vectors["scale"], false)); err != nil {
			return err
		}
	}
	return nil
}

// Spread is Scale with factors of at least 1 that leaves the bound of a Clip as it is. A channel is then clipped at a part of the bound:
// that changes nothing where its values end below, as the factors are made to do, and the quantizer, whose range they fill, clips there
// too.
var Spread = Kind{Name: "spread", Doc: "multiplies output channels by 1 or more, divides the weights of their readers, leaves Clips",
	Apply: applySpread}

func applySpread(g *graph.Graph, s *Step) error {
	for c, x := range s.Vectors["scale"] {
		if x < 1 {
			return fmt.Errorf("the factor %g of channel %d", x, c)
		}
	}
	_, err := applyFactors(g, s)
	return err
}

// applyFactors multiplies and divides everything on a way but the bounds of Clips.
func applyFactors(g *graph.Graph, s *Step) (*Way, error) {
	id, ok := g.LookupNode(s.At)
	if !ok {
		return nil, fmt.Errorf("there is no such node")
	}
	way, reason := CanScale(g, id)
	if way == nil {
		return nil, fmt.Errorf("%s", reason)
	}
	scale := s.Vectors["scale"]
	if len(scale) != way.Channels {
		return nil, fmt.Errorf("%d factors for %d channels", len(scale), way.Channels)
	}
	for c, x := range scale {
		if !(x > 0) || 1/x-1/x != 0 {
			return nil, fmt.Errorf("the factor %g of channel %d", x, c)
		}
	}
	for _, e := range way.Producers {
		if err := multiply(g, e, e.factors(scale, false)); err != nil {
			return nil, err
		}
	}
	for _, e := range way.Consumers {
		if err := divide(g, e, e.factors(scale, true)); err != nil {
			return nil, err
		}
	}
	for _, c := range way.constants {
		if err := scaleOperand(g, c, c.factors(scale, false)); err != nil {
			return nil, err
		}
	}
	return way, nil
}

// factors are those of the node's own channels, or one over them.
func (e *End) factors(scale []float32, inverse bool) []float64 {
	f := make([]float64, len(e.Channel))
	for i, c := range e.Channel {
		if f[i] = 1; c >= 0 {
			f[i] = float64(scale[c])
		}
		if inverse {
			f[i] = 1 / f[i]
		}
	}
	return f
}

// multiply multiplies what a producer computes.
func multiply(g *graph.Graph, e End, f []float64) error {
	n := g.Node(e.Node)
	switch n.Op {
	case "Conv", "ConvTranspose", "Gemm", "MatMul":
		m, err := matrixOf(g, e.Node)
		if err != nil {
			return err
		}
		if b, _ := m.bias(g); b != nil {
			if err := scaleVector(g, e.Node, 2, f); err != nil {
				return err
			}
		}
		return m.scaleWeight(g, f, nil)
	case "Mul", "Div":
		if n.Op == "Div" {
			back := make([]float64, len(f))
			for i, x := range f {
				back[i] = 1 / x
			}
			f = back
		}
		return scaleOperand(g, constant{e, gainInput(g, n)}, f)
	}
	if err := scaleVector(g, e.Node, 1, f); err != nil {
		return err
	}
	if n.Input(2) == graph.NoValue || n.Op == "RMSNormalization" || n.Op == "SimplifiedLayerNormalization" {
		return nil
	}
	return scaleVector(g, e.Node, 2, f)
}

// divide divides the weights of a consumer; f is one over the factors.
func divide(g *graph.Graph, e End, f []float64) error {
	if g.Node(e.Node).Op != "BatchNormalization" {
		m, err := matrixOf(g, e.Node)
		if err != nil {
			return err
		}
		return m.scaleWeight(g, nil, f)
	}
	// gain (x - mean) / sqrt(var + epsilon): with s x for x, the mean is s mean and the gain is divided by s.
	back := make([]float64, len(f))
	for i, x := range f {
		back[i] = 1 / x
	}
	if err := scaleVector(g, e.Node, 1, f); err != nil {
		return err
	}
	return scaleVector(g, e.Node, 3, back)
}

// scaleOperand multiplies a constant operand, spread over the channels where it has one number for all.
func scaleOperand(g *graph.Graph, c constant, f []float64) error {
	n := g.Node(c.Node)
	t := g.Const(n.Inputs[c.input]).ToRowMajor()
	rank := len(g.Value(n.Output(0)).Shape) - c.axis // dimensions from the channels on
	shape := make([]int, max(rank, len(t.Shape)))
	for i := range shape {
		shape[i] = 1
		if at := i - len(shape) + len(t.Shape); at >= 0 {
			shape[i] = t.Shape[at]
		}
	}
	along := len(shape) - rank
	run, was := tensor.Count(shape[along+1:]), shape[along]
	shape[along] = len(f)
	out := tensor.New(tensor.Float32, shape...)
	for i := range out.F32() {
		ch, in, before := i/run%len(f), i%run, i/run/len(f)
		out.F32()[i] = float32(float64(t.F32()[(before*was+ch%was)*run+in]) * f[ch])
	}
	if err := checkFinite(out); err != nil {
		return err
	}
	g.OwnConst(c.Node, c.input, out)
	return nil
}

// zeroClip reads the upper bound of a Clip whose lower bound is zero or none; finite is false where there is no upper bound.
func zeroClip(g *graph.Graph, n *graph.Node) (upper float64, finite bool, err error) {
	bounds := [2]float64{math.Inf(-1), math.Inf(1)}
	for i, attr := range []string{"min", "max"} {
		if a := n.Attr(attr); a != nil {
			bounds[i] = float64(a.F)
		}
		if v := n.Input(1 + i); v != graph.NoValue {
			t := g.Const(v)
			if t == nil || len(t.F32()) != 1 {
				return 0, false, fmt.Errorf("the bounds of the Clip are computed")
			}
			bounds[i] = float64(t.F32()[0])
		}
	}
	if lo, hi := bounds[0], bounds[1]; lo != 0 && !math.IsInf(lo, -1) || !(hi >= lo) {
		return 0, false, fmt.Errorf("a Clip to [%g, %g] does not keep factors", lo, hi)
	}
	return bounds[1], !math.IsInf(bounds[1], 1), nil
}

// bound gives a Clip an upper bound for each channel.
func bound(g *graph.Graph, e End, f []float64) error {
	n := g.Node(e.Node)
	upper, _, err := zeroClip(g, n)
	if err != nil {
		return err
	}
	limit := minBehind(g, n, e)
	bounds := tensor.New(tensor.Float32, len(f))
	top, equal := float32(math.Inf(-1)), true
	for i, x := range f {
		b := float32(upper * x)
		if limit != nil { // has been multiplied already
			b = min(b, limit.F32()[i])
		}
		bounds.F32()[i] = b
		top, equal = max(top, b), equal && b == bounds.F32()[0]
	}
	if err := checkFinite(bounds); err != nil {
		return err
	}
	setUpper(g, e.Node, top)
	if equal || limit != nil {
		return nil
	}
	return insertMin(g, e, bounds)
}

// minBehind is the constant of a Min that is the only reader of a Clip and has a number for each channel; nil where there is none.
func minBehind(g *graph.Graph, n *graph.Node, e End) *tensor.Tensor {
	u, sole := g.SoleUse(n.Output(0))
	if !sole || g.Node(u.Node).Op != "Min" || len(g.Node(u.Node).Inputs) != 2 {
		return nil
	}
	t := g.Const(g.Node(u.Node).Inputs[1-u.Index])
	if t == nil || t.Len() != len(e.Channel) || len(g.Value(n.Output(0)).Shape)-e.axis != len(t.Shape) || t.Shape[0] != t.Len() {
		return nil
	}
	return t
}

// setUpper sets the upper bound of a Clip.
func setUpper(g *graph.Graph, id graph.NodeID, upper float32) {
	n := g.Node(id)
	if n.Input(2) == graph.NoValue {
		n.SetAttr(graph.Float("max", upper))
		return
	}
	t := tensor.FromF32([]float32{upper}, g.Const(n.Input(2)).Shape...)
	g.OwnConst(id, 2, t)
}

// insertMin puts a Min with one bound for each channel behind a Clip. The value that was the Clip's is the Min's.
func insertMin(g *graph.Graph, e End, bounds *tensor.Tensor) error {
	n := g.Node(e.Node)
	if g.Opset("") < 8 {
		return fmt.Errorf("bounds of each channel need Min with broadcasting, of opset 8; the graph has %d", g.Opset(""))
	}
	y := n.Output(0)
	rank := len(g.Value(y).Shape) - e.axis
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = bounds.Len()
	name := n.Name
	mid, err := g.AddValue(graph.Value{Name: g.FreshName(g.Value(y).Name + "/clip"), DType: g.Value(y).DType, Shape: g.Value(y).Shape})
	if err != nil {
		return err
	}
	if err := g.SetOutput(e.Node, 0, mid); err != nil {
		return err
	}
	c := g.AddConst(name+".bounds", tensor.FromF32(bounds.F32(), shape...))
	_, err = g.AddNode(graph.Node{Name: g.FreshName(name + "/min"), Op: "Min", Inputs: []graph.ValueID{mid, c}, Outputs: []graph.ValueID{y}})
	return err
}
