package qdq

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

const stage = "import"

// Quantized is a quantized graph taken apart. It belongs to no target yet; see Configure.
type Quantized struct {
	// Graph is the float graph: operators, names and opset are the file's. Inputs and outputs that were integers are real numbers.
	Graph *graph.Graph
	// Pairs and Codes are how many pairs, and constants of integers, the graph was freed from.
	Pairs, Codes int
	Warnings     []tqc.Warning
	// IntegerBiases lets Configure make integers of the biases that the file leaves in float, where the target's operators need them. What is
	// configured then differs from the file by the rounding of these biases.
	IntegerBiases bool

	reads   map[graph.Use][]*grid   // the grids that an input is brought to in turn, where there are any
	outputs [][]*grid               // the same by graph output
	codes   map[graph.ValueID]*code // by constant of Graph
	implied []activation
	// original: weights and activations are those of the float network.
	original bool
	// half: the file computes in other floats than float32.
	half bool
}

// code is a constant that the file holds as integers.
type code struct {
	codes   *tensor.Tensor // row-major
	grid    *grid
	numbers *tensor.Tensor // that they stand for
}

func (q *grid) code(codes *tensor.Tensor) *code { return &code{codes, q, q.dequantize(codes)} }

// Read takes apart g, a graph as it was loaded, and leaves it unchanged. What has no constant scales, and integers that are
// computed with outside of the operators it knows, are errors that name the node. A graph in which nothing is quantized is an
// error too.
func Read(ctx context.Context, g *graph.Graph) (*Quantized, error) {
	g = g.Clone()
	throughFloat(g)
	if _, err := passes.FloatProducts(g); err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	if _, err := passes.FloatRecurrences(g); err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	if err := refuse(g); err != nil {
		return nil, err
	}
	upward, err := writeFakes(ctx, g)
	if err != nil {
		return nil, err
	}
	// Pairs keep the passes from moving anything over a tensor that is quantized.
	log, err := passes.Run(ctx, g, passes.Normalize)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	graph.InferShapes(g)
	r := &reader{g: g, q: &Quantized{Graph: g, reads: map[graph.Use][]*grid{}, codes: map[graph.ValueID]*code{}},
		links: map[graph.ValueID]link{}, constants: map[graph.ValueID][]graph.ValueID{}}
	for _, step := range []func() error{r.fold, r.unfuse, r.moveCodes, r.nameCaptured, r.detach, r.find, r.rows, r.biasScales} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if r.q.half = log.Count(passes.Widen.Name) > 0; r.q.half {
		r.q.Warnings = append(r.q.Warnings, tqc.Warning{Text: "the file computes in half precision, or in double, between its pairs; " +
			"here that is float32"})
	}
	if upward > 0 {
		r.q.Warnings = append(r.q.Warnings, tqc.Warning{Value: float64(upward), Text: fmt.Sprintf("%s of the file rounded halves up (by Floor); "+
			"qwb rounds halves to even", plain.Count(upward, "tensor"))})
	}
	if r.q.Pairs+r.q.Codes == 0 {
		return nil, fmt.Errorf("%s: nothing in the model is quantized: calibrate it instead", stage)
	}
	graph.InferShapes(g)
	return r.q, g.Check()
}

// reader is the state of one Read.
type reader struct {
	g     *graph.Graph
	q     *Quantized
	links map[graph.ValueID]link
	// constants lists, by constant of integers, its float forms.
	constants map[graph.ValueID][]graph.ValueID
	names     []named
}

// link is what stands behind a tensor: a value of the float graph, brought to grids in turn.
type link struct {
	value graph.ValueID
	chain []*grid
}

// maxChain bounds how often a tensor is quantized from one operator to the next; real files do it once, or twice where they
// change the scale.
const maxChain = 8

func isQuantize(n *graph.Node) bool { return n.Op == "QuantizeLinear" && standard(n.Domain) }

// isDynamic: both, with a scale that is computed from the tensor; see simple.
func isDynamic(n *graph.Node) bool { return n.Op == "DynamicQuantizeLinear" && n.Domain == "" }

func isDequantize(n *graph.Node) bool { return n.Op == "DequantizeLinear" && standard(n.Domain) }

// standard reports whether a domain has Q and DQ with ONNX's meaning.
func standard(domain string) bool {
	return domain == "" || domain == "ai.onnx" || domain == "com.microsoft"
}

// fail wraps an error with the node that it concerns.
func (r *reader) fail(id graph.NodeID, format string, args ...any) error {
	return r.g.ErrorAt(stage, id, fmt.Errorf(format, args...))
}

// gridOf reads the grid of a Q or DQ.
func (r *reader) gridOf(n *graph.Node) (*grid, error) {
	x := r.g.Value(n.Inputs[0])
	d := x.DType
	if isQuantize(n) {
		d = r.g.Value(n.Outputs[0]).DType
	}
	if d == tensor.Undefined {
		return nil, r.fail(n.ID, "the type of its integers is not known")
	}
	q, err := gridOf(r.g, n, n.Input(1), n.Input(2), d, x.Shape, x.Const != nil)
	return q, r.g.ErrorAt(stage, n.ID, err)
}

// follow returns what stands behind a tensor.
func (r *reader) follow(v graph.ValueID) (link, error) {
	if l, ok := r.links[v]; ok {
		return l, nil
	}
	l, err := r.trace(v)
	if err == nil {
		r.links[v] = l
	}
	return l, err
}

// trace is follow without memory. Chains of pairs are as long as the graph at most, and every one is walked once.
func (r *reader) trace(v graph.ValueID) (link, error) {
	p := r.g.Producer(v)
	if p == graph.NoNode {
		return link{value: v}, nil
	}
	n := r.g.Node(p)
	switch {
	case isQuantize(n):
		if d := r.g.Value(n.Inputs[0]).DType; d != tensor.Float32 && d != tensor.Undefined {
			return link{}, r.fail(n.ID, "it quantizes %s: only float32", d)
		}
		l, err := r.follow(n.Inputs[0])
		if err != nil {
			return l, err
		}
		q, err := r.gridOf(n)
		if err != nil {
			return l, err
		}
		if k := len(l.chain); k > 0 && q.axis < 0 && l.chain[k-1].same(q) {
			return l, nil // quantizing twice by one grid changes nothing
		}
		if len(l.chain) == maxChain {
			return l, r.fail(n.ID, "%d pairs in a row", maxChain)
		}
		return link{l.value, append(l.chain[:len(l.chain):len(l.chain)], q)}, nil
	case isDynamic(n):
		l, err := r.follow(n.Inputs[0])
		if err != nil {
			return l, err
		}
		return link{l.value, append(l.chain[:len(l.chain):len(l.chain)], dynamicGrid())}, nil
	case isDequantize(n):
		return r.traceDequantize(n)
	}
	return link{value: v}, nil
}

func (r *reader) traceDequantize(n *graph.Node) (link, error) {
	if d := r.g.Value(n.Outputs[0]).DType; d != tensor.Float32 {
		return link{}, r.fail(n.ID, "it gives %s: only float32", d)
	}
	x := n.Inputs[0]
	if p := r.g.Producer(x); p != graph.NoNode && isDynamic(r.g.Node(p)) {
		return r.follow(x)
	}
	q, err := r.gridOf(n)
	if err != nil {
		return link{}, err
	}
	switch p := r.g.Producer(x); {
	case r.g.Const(x) != nil:
		return r.constant(n, x, q)
	case p == graph.NoNode:
		return link{x, []*grid{q}}, nil // an input of integers
	case isQuantize(r.g.Node(p)):
		own, err := r.gridOf(r.g.Node(p))
		if err != nil {
			return link{}, err
		}
		if !own.same(q) {
			return link{}, r.fail(n.ID, "it has another scale, zero point or axis than %q, whose integers it reads", r.g.Node(p).Name)
		}
		return r.follow(x)
	default:
		return link{}, r.fail(n.ID, "it reads integers that %s %q computes", r.g.Node(p).Op, r.g.Node(p).Name)
	}
}

// constant makes the float form of a constant of integers.
func (r *reader) constant(n *graph.Node, v graph.ValueID, q *grid) (link, error) {
	for _, f := range r.constants[v] {
		if r.q.codes[f].grid.same(q) {
			return link{f, []*grid{q}}, nil
		}
	}
	t := r.g.Const(v)
	codes, err := stored(t)
	if err != nil {
		return link{}, r.g.ErrorAt(stage, n.ID, err)
	}
	c := q.code(codes)
	f := r.coded(bare(r.g.Value(v).Name), c)
	r.constants[v] = append(r.constants[v], f)
	r.q.Codes++
	return link{f, []*grid{q}}, nil
}

// coded adds the float form of integers.
func (r *reader) coded(name string, c *code) graph.ValueID {
	f := r.g.AddConst(name, c.numbers)
	c.codes, c.numbers = r.g.Stored(c.codes), r.g.Const(f)
	r.q.codes[f] = c
	r.g.Forget(c.codes)
	return f
}

// bare returns the name of a tensor, given what exporters call its integers.
func bare(name string) string {
	const suffix = "_quantized"
	if len(name) > len(suffix) && name[len(name)-len(suffix):] == suffix {
		return name[:len(name)-len(suffix)]
	}
	return name
}
