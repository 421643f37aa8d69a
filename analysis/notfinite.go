package analysis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// NotFinite is the first number of a quantized network that is NaN or infinite where the float network's is not.
type NotFinite struct {
	Sample string `json:"sample"`
	Node   string `json:"node"` // that computed it, of numbers that are finite or as they are in float
	Op     string `json:"op"`
	Tensor string `json:"tensor"`
	Index  int    `json:"index"` // of the element, row-major
	Value  Number `json:"value"`
	Why    string `json:"why"` // what was computed there: the operands, and what they are in float
	// Cure is a command that was tried: with it none of the samples looked at has such a number. Empty: none was found.
	Cure string `json:"cure,omitempty"`

	At graph.NodeID `json:"-"`
}

// String says it in one line, without the cure.
func (f *NotFinite) String() string {
	what := "NaN"
	if !math.IsNaN(float64(f.Value)) {
		what = "an infinite number"
	}
	return fmt.Sprintf("%s (%s) gives %s where the float network does not (sample %s, tensor %q, element %d): %s", f.Node, f.Op, what,
		f.Sample, f.Tensor, f.Index, f.Why)
}

// errFound ends a run in which what was looked for was found.
var errFound = errors.New("found")

// FindNotFinite runs samples through the float graph and through its simulation, and returns what it finds of the first sample in which
// such a number reaches a quantizer or an output, or nil: the operator that made it, of operands that have none. One that is chosen away
// before (a division by 0 behind which a Where takes another number) is none. Memory: those tensors
// of the float network that are not finite.
func FindNotFinite(ctx context.Context, g *graph.Graph, q *sim.Simulator, samples []*exec.Sample) (*NotFinite, error) {
	session, err := exec.New(g, exec.Options{Context: ctx})
	if err != nil {
		return nil, err
	}
	runner := session.NewRunner()
	for _, s := range samples {
		f := &finder{g: g, q: q, float: map[graph.ValueID][]float32{}, odd: map[graph.ValueID]*NotFinite{}, of: graph.NoNode}
		if _, err := runner.Run(ctx, s.Feeds, &exec.Hooks{Output: f.keep}); err != nil {
			return nil, err
		}
		quantized := func() ([]*tensor.Tensor, error) {
			f.operands = nil
			_, err := runner.Run(ctx, s.Feeds, f.quantized(q.NewHooks(sim.View{Islands: true, Lenient: true})))
			if errors.Is(err, errFound) {
				err = nil
			}
			return f.operands, err
		}
		if _, err := quantized(); err != nil {
			return nil, err
		}
		if f.found == nil {
			continue
		}
		f.found.Sample, f.of = s.Name, f.found.At
		was, err := quantized()
		if err != nil {
			return nil, err
		}
		f.operands = nil
		if _, err := runner.Run(ctx, s.Feeds, &exec.Hooks{Input: f.read, Output: f.done}); err != nil && !errors.Is(err, errFound) {
			return nil, err
		}
		f.found.Why = f.why(was, f.operands)
		return f.found, nil
	}
	return nil, nil
}

// finder looks at one sample.
type finder struct {
	g        *graph.Graph
	q        *sim.Simulator
	float    map[graph.ValueID][]float32  // of the float network, row-major, where not all is finite
	odd      map[graph.ValueID]*NotFinite // of the quantized one, the first element that is finite in float
	found    *NotFinite                   // what is told
	of       graph.NodeID                 // whose operands are wanted, in a second run; NoNode in the first
	operands []*tensor.Tensor             // row-major
}

func (f *finder) keep(n *graph.Node, i int, t *tensor.Tensor) error {
	if x := exec.Floats(t); x != nil {
		if _, _, finite := rows().NewMeter().MinMax(x.F32()); !finite {
			f.float[n.Outputs[i]] = slices.Clone(x.ToRowMajor().F32())
		}
	}
	return nil
}

// quantized are hooks that look at every tensor before h quantizes it: in a first run for what is odd,
// in the second for the operands of a node.
func (f *finder) quantized(h *exec.Hooks) *exec.Hooks {
	all := *h
	all.Wants = nil
	all.Input = func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
		var err error
		if h.Wants(n.Inputs[i]) {
			if t, err = h.Input(n, i, t); err != nil {
				return nil, err
			}
		}
		return f.read(n, i, t)
	}
	all.Output = func(n *graph.Node, i int, t *tensor.Tensor) error {
		if n.ID == f.of {
			return errFound
		}
		if f.of == graph.NoNode {
			if f.look(n, i, t); f.found != nil {
				return errFound
			}
		}
		if h.Wants(n.Outputs[i]) {
			return h.Output(n, i, t)
		}
		return nil
	}
	return &all
}

// read keeps an operand of the node that is looked at: what it computes may take the operand's memory.
func (f *finder) read(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
	if n.ID == f.of && n.Op != "Conv" && n.Op != "Gemm" && n.Op != "MatMul" {
		for len(f.operands) <= i {
			f.operands = append(f.operands, nil)
		}
		f.operands[i] = t.ToRowMajor().Clone()
	}
	return t, nil
}

func (f *finder) done(n *graph.Node, _ int, _ *tensor.Tensor) error {
	if n.ID == f.of {
		return errFound
	}
	return nil
}

// look compares one tensor with that of the float network. What is odd there and reaches a quantizer or an output is followed back to what
// made it.
func (f *finder) look(n *graph.Node, i int, t *tensor.Tensor) {
	x := exec.Floats(t)
	if x == nil {
		return
	}
	if _, _, finite := rows().NewMeter().MinMax(x.F32()); finite {
		return
	}
	v := n.Outputs[i]
	float := f.float[v]
	for k, x := range x.ToRowMajor().F32() {
		if finite(float64(x)) || float != nil && (k >= len(float) || !finite(float64(float[k]))) {
			continue
		}
		f.odd[v] = &NotFinite{Node: n.Name, Op: n.Op, Tensor: f.g.Value(v).Name, Index: k, Value: Number(x), At: n.ID}
		break
	}
	if f.odd[v] != nil && (f.g.IsOutput(v) || f.q.Quantizes(v)) {
		f.found = f.maker(v)
	}
}

// maker follows odd tensors back to the first of them.
func (f *finder) maker(v graph.ValueID) *NotFinite {
	for {
		inputs := f.g.Node(f.g.Producer(v)).Inputs
		at := slices.IndexFunc(inputs, func(x graph.ValueID) bool { return x != graph.NoValue && f.odd[x] != nil })
		if at < 0 {
			return f.odd[v]
		}
		v = inputs[at]
	}
}

// why says what the operator did at the element that was found: which numbers it read there, and which it reads in float.
func (f *finder) why(quantized, float []*tensor.Tensor) string {
	n := f.g.Node(f.found.At)
	shape := f.shapeOf(quantized)
	at := func(list []*tensor.Tensor, i int) (float64, bool) {
		if i >= len(list) || list[i] == nil || list[i].DType != tensor.Float32 {
			return 0, false
		}
		k, ok := elementOf(list[i].Shape, shape, f.found.Index)
		if !ok {
			return 0, false
		}
		return float64(list[i].F32()[k]), true
	}
	operand := 0
	if n.Op == "Div" {
		operand = 1
	}
	x, ok := at(quantized, operand)
	y, known := at(float, operand)
	if !ok || !known {
		return "of numbers that were rounded" + f.made(n.Input(operand))
	}
	switch n.Op {
	case "Div", "Reciprocal":
		return fmt.Sprintf("division by %.3g, which is %.3g in float%s", x, y, f.made(n.Input(operand)))
	case "Sqrt", "Log", "Pow":
		return fmt.Sprintf("%s of %.3g, which is %.3g in float%s", n.Op, x, y, f.made(n.Input(operand)))
	}
	return fmt.Sprintf("%s of %.3g, which is %.3g in float", n.Op, x, y)
}

// shapeOf is the shape that operands have together.
func (f *finder) shapeOf(list []*tensor.Tensor) []int {
	var shape []int
	for _, t := range list {
		if t == nil {
			continue
		}
		for len(shape) < len(t.Shape) {
			shape = append([]int{1}, shape...)
		}
		for k, d := range t.Shape {
			if at := len(shape) - len(t.Shape) + k; d > shape[at] {
				shape[at] = d
			}
		}
	}
	return shape
}

// elementOf returns which element of a tensor stands at element k of the shape that it is broadcast to.
func elementOf(own, shape []int, k int) (int, bool) {
	if len(own) > len(shape) || k >= tensor.Count(shape) {
		return 0, false
	}
	at, step := 0, 1
	for i := len(shape) - 1; i >= 0; i-- {
		c := k % shape[i]
		k /= shape[i]
		d := i - len(shape) + len(own)
		if d < 0 {
			continue
		}
		if own[d] > 1 {
			at += min(c, own[d]-1) * step
		}
		step *= own[d]
	}
	return at, true
}

// made says what made an operand, where that explains it.
func (f *finder) made(v graph.ValueID) string {
	p := f.g.Producer(v)
	if p == graph.NoNode {
		return ""
	}
	switch n := f.g.Node(p); n.Op {
	case "Sub":
		return fmt.Sprintf(" (%s: a difference of numbers that were rounded)", n.Name)
	default:
		return fmt.Sprintf(" (%s: rounded, or made of rounded numbers)", n.Name)
	}
}

// Line is String and its cure in one line.
func (f *NotFinite) Line() string {
	if f.Cure == "" {
		return f.String()
	}
	return f.String() + "; " + f.Cure + " mends it"
}
