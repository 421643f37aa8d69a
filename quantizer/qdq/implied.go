package qdq

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

// How near to whole numbers the ends of a grid lie whose range was clipped: a range is the difference of two floats, rounded once, divided
// and multiplied by the number of steps. A range that ends near 6 is a Relu6's, with the numbers that calibration happened to see.
const (
	six       = 6
	nearSix   = 1e-3
	nearWhole = 1e-6
	mostWhole = 64 // beyond it a range of ordinary numbers would be whole too often
)

// PutBack puts back activations that a file leaves to its quantizers. ONNX Runtime's quantizer drops a Relu or Clip behind a tensor that is
// quantized, unless it quantizes symmetrically: Q clips by itself. In float the network would be without them. A tensor that may be
// negative on a grid that begins at 0 is such a place, and any whose grid has the range of whole numbers, such as [0, 6] or [-1, 1]. The
// quantized network stays the same, bit for bit. What qwb exports leaves no activation out.
func (q *Quantized) PutBack() error {
	order, err := q.Graph.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	s := signs{q, map[graph.ValueID]bool{}}
	for _, id := range order {
		n := q.Graph.Node(id)
		if _, _, limited := graph.LimitsOf(n, q.Graph.Opset(""), q.Graph.Const); limited { // it is there
			continue
		}
		for k, v := range n.Outputs {
			if v == graph.NoValue || q.Graph.Value(v).DType != tensor.Float32 {
				continue
			}
			grid := common(q.Graph, q.reads, q.outputs, v)
			if grid == nil || !s.negative(v) {
				continue
			}
			low, high, ok := grid.clips()
			if !ok {
				continue
			}
			if err := q.activate(id, k, low, high); err != nil {
				return q.Graph.ErrorAt(stage, id, err)
			}
			s.known[v] = low < 0
		}
	}
	graph.InferShapes(q.Graph)
	return q.Graph.Check()
}

// restored warns of activations that were put back because the grids imply them.
func (q *Quantized) restored() []tqc.Warning {
	if len(q.implied) == 0 || q.original {
		return nil
	}
	return []tqc.Warning{{Node: q.implied[0].node, Value: float64(len(q.implied)),
		Text: fmt.Sprintf("%s put back that the file leaves to its "+
			"quantizers: their grids begin at 0, or have the range of a Clip; --float takes the network as it was",
			plain.Count(len(q.implied), "activation"))}}
}

// activation is one that was put back behind a node, and its own node.
type activation struct {
	node string
	id   graph.NodeID
}

// positive lists operators that give no negative numbers, keeps those that give some where an input among their data has some, beside those
// that hand on what they have.
var (
	positive = map[string]bool{"Relu": true, "Sigmoid": true, "Softmax": true, "HardSigmoid": true, "Softplus": true, "Exp": true,
		"Sqrt": true, "Abs": true,
		"ReduceL1": true, "ReduceL2": true, "ReduceSumSquare": true, "LpPool": true, "GlobalLpPool": true, "OneHot": true}
	keeps = map[string]bool{"Add": true, "Mul": true, "Div": true, "Sum": true, "Mean": true, "Max": true, "Min": true, "Where": true,
		"Concat": true, "AveragePool": true, "MaxPool": true, "GlobalAveragePool": true, "GlobalMaxPool": true, "ReduceMean": true,
		"ReduceMax": true, "ReduceMin": true, "ReduceSum": true, "Slice": true, "Split": true, "Gather": true, "GatherElements": true,
		"GatherND": true, "Expand": true, "Tile": true, "DepthToSpace": true, "SpaceToDepth": true, "Upsample": true, "Pad": true,
		"LeakyRelu": true, "PRelu": true, "Elu": true, "Tanh": true, "Gelu": true, "HardSwish": true, "Clip": true, "Conv": true,
		"ConvTranspose": true, "Gemm": true, "MatMul": true, "Cast": true}
)

// signs finds which tensors may be negative, and knows those that were looked at.
type signs struct {
	q     *Quantized
	known map[graph.ValueID]bool
}

// negative reports whether a tensor may have negative numbers: false only if its operator, or everything that this reads, has none.
func (s *signs) negative(v graph.ValueID) bool {
	if n, known := s.known[v]; known {
		return n
	}
	s.known[v] = s.findNegative(v)
	return s.known[v]
}

// findNegative is negative without memory; what a tensor is computed from was asked for before it.
func (s *signs) findNegative(v graph.ValueID) bool {
	g := s.q.Graph
	if t := g.Const(v); t != nil {
		return hasNegative(t)
	}
	p := g.Producer(v)
	if p == graph.NoNode {
		return true
	}
	n := g.Node(p)
	if low, _, ok := graph.LimitsOf(n, g.Opset(""), g.Const); ok && low >= 0 || n.Domain == "" && positive[n.Op] {
		return false
	}
	if n.Domain != "" || !n.HandsOn() && !keeps[n.Op] && (n.Op != "Resize" || n.AttrStr("mode", "nearest") == "cubic") {
		return true
	}
	for i, in := range n.Inputs {
		chain := s.q.reads[graph.Use{Node: p, Index: i}]
		if in == graph.NoValue || len(chain) > 0 && chain[len(chain)-1].fromZero() {
			continue
		}
		if s.negative(in) {
			return true
		}
	}
	return false
}

// hasNegative reports whether a constant has negative numbers; integers, as sizes and places are, count as none.
func hasNegative(t *tensor.Tensor) bool {
	if t.DType != tensor.Float32 {
		return t.DType.IsFloat()
	}
	for _, x := range t.ToRowMajor().F32() {
		if x < 0 {
			return true
		}
	}
	return false
}

// single reports whether a grid has one scale, and integers.
func (q *grid) single() bool {
	return !q.runTime && q.axis < 0 && q.block == 0 && floats[q.dtype] == 0 && len(q.zero) == 1
}

// fromZero reports whether the smallest number of a grid is 0.
func (q *grid) fromZero() bool { return q.single() && q.zero[0] == q.low }

// clips returns the limits of the activation that a grid stands in for. high is infinite for a Relu.
func (q *grid) clips() (low, high float32, ok bool) {
	if !q.single() {
		return 0, 0, false
	}
	scale := float64(q.scale[0])
	width, below := float64(q.high-q.low)*scale, float64(q.zero[0]-q.low)*scale
	if q.zero[0] == q.low && math.Abs(width-six) <= nearSix*six {
		return 0, six, true
	}
	round := whole(width)
	f, _ := math.Frexp(scale)
	if f != 0.5 && round > 0 && round <= mostWhole && math.Abs(width-round) <= nearWhole*round { // a power of two is whole by itself
		low = float32(-whole(below))
		high = low + float32(round)
		g := q.at(0)
		if math.Abs(below+float64(low)) > scale || low > 0 || high <= 0 {
			return 0, float32(math.Inf(1)), q.zero[0] == q.low
		}
		if g.Quantize(low) != q.low { // half a step inside, rounded the other way
			low = g.Dequantize(q.low)
		}
		if g.Quantize(high) != q.high {
			high = g.Dequantize(q.high)
		}
		return low, high, true
	}
	return 0, float32(math.Inf(1)), q.zero[0] == q.low
}

// activate puts a Relu, or a Clip, behind output k of node id. Its output takes the place of the node's, with name, readers and grids.
func (q *Quantized) activate(id graph.NodeID, k int, low, high float32) error {
	n := q.Graph.Node(id)
	v := q.Graph.Value(n.Outputs[k])
	sum, err := q.Graph.AddValue(graph.Value{Name: q.Graph.FreshName(v.Name + "_sum"), DType: v.DType, Shape: v.Shape})
	if err != nil {
		return err
	}
	name, out := n.Name, v.ID
	if err := q.Graph.SetOutput(id, k, sum); err != nil {
		return err
	}
	act, err := q.Graph.AddNode(graph.Node{Name: q.Graph.FreshName(name + "_activation"), Op: "Relu", Inputs: []graph.ValueID{sum},
		Outputs: []graph.ValueID{out}})
	if err != nil {
		return err
	}
	q.implied = append(q.implied, activation{name, act})
	q.setLimits(act, low, high)
	return nil
}

// setLimits makes the node of an activation a Relu, or a Clip where high is finite.
func (q *Quantized) setLimits(id graph.NodeID, low, high float32) {
	n := q.Graph.Node(id)
	name := n.Name
	n.Op, n.Attrs = "Relu", nil
	for i := len(n.Inputs) - 1; i > 0; i-- {
		q.Graph.SetInput(id, i, graph.NoValue)
	}
	relu := low == 0 && math.IsInf(float64(high), 1)
	switch {
	case relu:
	case q.Graph.Opset("") < 11:
		n.Op, n.Attrs = "Clip", []graph.Attr{graph.Float("min", low), graph.Float("max", high)}
	default:
		n.Op = "Clip"
		for i, end := range []struct {
			name string
			x    float32
		}{{"_min", low}, {"_max", high}} {
			if !math.IsInf(float64(end.x), 0) {
				q.Graph.SetInput(id, i+1, q.Graph.AddConst(q.Graph.FreshName(name+end.name), tensor.FromF32([]float32{end.x})))
			}
		}
	}
}

// withdraw takes an activation out again that was put back.
func (q *Quantized) withdraw(id graph.NodeID) error {
	g := q.Graph
	n := g.Node(id)
	in, out := n.Inputs[0], n.Outputs[0]
	p := g.Producer(in)
	k := slices.Index(g.Node(p).Outputs, in)
	output := g.IsOutput(out)
	if output { // an output is not removed with its node
		g.Outputs = append(g.Outputs, out)
	}
	uses := len(g.Uses(out))
	if uses == 0 && !output {
		return fmt.Errorf("nobody reads %q", g.Value(out).Name)
	}
	g.RemoveNode(id)
	if output {
		g.Outputs = g.Outputs[:len(g.Outputs)-1]
	}
	q.implied = slices.DeleteFunc(q.implied, func(a activation) bool { return a.id == id })
	if err := g.SetOutput(p, k, out); err != nil {
		return err
	}
	g.RemoveValue(in)
	return nil
}
