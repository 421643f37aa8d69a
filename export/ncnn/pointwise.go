package ncnn

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Operators that compute every element by itself: of one tensor, or of two.

// elementwise writes a layer of one input, or takes it into the layer before as its activation: the type of it, 0 for none.
func (b *builder) elementwise(id graph.NodeID, n *graph.Node, typ string, fused int, numbers []float32, params ...param) error {
	x := n.Inputs[0]
	at, open := b.layer[x]
	if _, sole := b.g.SoleUse(x); open && fused != 0 && sole && !b.g.IsOutput(x) {
		b.fuse(at, n.Outputs[0], fused, numbers)
		return nil
	}
	_, err := b.first(typ, id, n, params...)
	return err
}

// fuse lets a layer compute an activation; its result is that of the activation then.
func (b *builder) fuse(at int, out graph.ValueID, typ int, numbers []float32) {
	l := &b.net.layers[at]
	l.set(keyActivation, typ)
	if len(numbers) > 0 {
		l.set(keyActivation+1, numbers)
	}
	l.tops[0] = b.blobName(b.g.Value(out).Name)
	b.blobs[out] = l.tops[0]
}

func activation(typ string, fused int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error { return b.elementwise(id, n, typ, fused, nil) }
}

func (b *builder) leaky(id graph.NodeID, n *graph.Node) error {
	if n.Alpha() == 0 {
		return b.elementwise(id, n, "ReLU", 1, nil)
	}
	return b.elementwise(id, n, "ReLU", 2, []float32{n.Alpha()}, param{0, n.Alpha()})
}

func (b *builder) elu(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "ELU", 0, nil, param{0, n.Alpha()})
}

func (b *builder) selu(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "SELU", 0, nil, param{0, n.AttrFloat("alpha", 1.6732632)}, param{1, n.AttrFloat("gamma", 1.050701)})
}

func (b *builder) gelu(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "GELU", 0, nil, param{0, truth(n.TanhGelu())})
}

func (b *builder) swish(id graph.NodeID, n *graph.Node) error {
	if n.Alpha() != 1 {
		return fmt.Errorf("its alpha is %g: ncnn's Swish has 1", n.Alpha())
	}
	return b.elementwise(id, n, "Swish", 0, nil)
}

func (b *builder) clip(id graph.NodeID, n *graph.Node) error {
	lo, hi, ok := graph.LimitsOf(n, b.g.Opset(""), b.g.Const)
	if !ok || lo != lo || hi != hi {
		return errors.New("its bounds are not known float32 numbers")
	}
	lo = min(lo, hi)
	if lo == 0 && math.IsInf(float64(hi), 1) {
		return b.elementwise(id, n, "ReLU", 1, nil)
	}
	lo, hi = max(lo, -math.MaxFloat32), min(hi, math.MaxFloat32)
	return b.elementwise(id, n, "Clip", 3, []float32{lo, hi}, param{0, lo}, param{1, hi})
}

// sixth is the slope of HardSwish.
const sixth = float32(1) / 6

func (b *builder) hardSwish(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "HardSwish", 6, []float32{sixth, 0.5}, param{0, sixth}, param{1, float32(0.5)})
}

func (b *builder) hardSigmoid(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "HardSigmoid", 0, nil, param{0, n.Alpha()}, param{1, n.Beta()})
}

func (b *builder) prelu(id graph.NodeID, n *graph.Node) error {
	slope := b.g.Const(n.Input(1))
	d, err := b.sample(n.Inputs[0], 1, 2, 3)
	if err != nil {
		return err
	}
	if slope == nil || slope.DType != tensor.Float32 || slope.Len() != 1 &&
		(slope.Len() != d[0] || len(slope.Shape) > 0 && slope.Shape[0] != d[0] && !batched(slope.Shape)) {
		return errors.New("its slopes are not constants, one or one for each channel")
	}
	l, err := b.first("PReLU", id, n, param{0, slope.Len()})
	if err == nil {
		l.weights = []weight{{floats: slope.ToRowMajor().F32()}}
	}
	return err
}

// unit writes a pattern as one layer.
func (b *builder) unit(id graph.NodeID, u *unit) error {
	n := *b.g.Node(id)
	n.Inputs = []graph.ValueID{u.match.Value("x")}
	switch u.family {
	case "HardSwish":
		return b.hardSwish(id, &n)
	case "Mish":
		return activation("Mish", 5)(b, id, &n)
	case "Gelu":
		fast := slices.ContainsFunc(u.match.Nodes, func(id graph.NodeID) bool { return b.g.Node(id).Op == "Tanh" })
		return b.elementwise(id, &n, "GELU", 0, nil, param{0, truth(fast)})
	}
	return b.elementwise(id, &n, "Swish", 0, nil)
}

func unary(op int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		return b.elementwise(id, n, "UnaryOp", 0, nil, param{0, op})
	}
}

// twoOperands writes BinaryOp; turned is the operator with its operands exchanged.
func twoOperands(op, turned int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		if len(n.Inputs) != 2 {
			return several(op)(b, id, n)
		}
		for i, v := range n.Inputs {
			t := b.g.Const(v)
			if t == nil || t.Len() != 1 || t.DType != tensor.Float32 || len(t.Shape) > len(b.g.Value(n.Inputs[1-i]).Shape) {
				continue
			}
			in, err := b.read(n.Inputs[1-i])
			if err != nil {
				return err
			}
			b.add("BinaryOp", id, []string{in}, n.Outputs[0], param{0, [...]int{turned, op}[i]}, param{1, 1}, param{2, t.F32()[0]})
			return nil
		}
		return b.shaped(id, n, "BinaryOp", n.Inputs, param{0, op})
	}
}

// powers are the exponents that UnaryOp has an operator for. ncnn computes others as exp(e*log(x)), which is not defined below 0.
var powers = map[float32]int{2: 4, 0.5: 5, -0.5: 6, -1: 15}

func (b *builder) pow(id graph.NodeID, n *graph.Node) error {
	e := b.g.Const(n.Inputs[1])
	if e == nil || e.Len() != 1 || e.DType != tensor.Float32 {
		return errors.New("its exponent is not one float32 constant")
	}
	op, ok := powers[e.F32()[0]]
	if !ok {
		return fmt.Errorf("exponent %g: ncnn computes 2, 0.5, -0.5 and -1 for numbers of any sign", e.F32()[0])
	}
	return b.elementwise(id, n, "UnaryOp", 0, nil, param{0, op})
}
