package verify_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/verify"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/cpu"
)

// twin has integers before and behind an operator in float with the constant %g.
const twin = `input x: f32[1,3,8,8]
const w: f32[8,3,3,3] = normal(seed=1, std=0.3)
const v: f32[8,8,1,1] = normal(seed=2, std=0.3)
const k: f32[] = [%v]
a = Conv(x, w) {pads=[1,1,1,1]} "first"
b = Relu(a) "relu"
p = Pow(b, k) "power"
y = Conv(p, v) "last"
output y
`

// twinOf runs a program that is other only in what change does.
func twinOf(t *testing.T, exponent string, sums bool, change func(p *lower.Program)) (verify.Ran, error) {
	t.Helper()
	own, err := compile(t, fmt.Sprintf(twin, "1.5"), "onnxruntime", "ort")
	require.NoError(t, err)
	require.NotEmpty(t, own.p.Crossings)
	other, err := compile(t, fmt.Sprintf(twin, "1.5"), "onnxruntime", "ort")
	require.NoError(t, err)
	if exponent != "1.5" { // with the scales of the first
		g, err := compile(t, fmt.Sprintf(twin, exponent), "onnxruntime", "ort")
		require.NoError(t, err)
		for i := range other.p.Steps {
			if o, ok := other.p.Steps[i].Op.(*lower.Island); ok {
				o.Graph = g.p.Steps[i].Op.(*lower.Island).Graph
			}
		}
	}
	if change != nil {
		change(other.p)
	}
	list := []map[string]*tensor.Tensor{own.feeds, own.feeds}
	var s *verify.Sums
	if sums {
		s = &verify.Sums{}
		_, err := verify.Run(context.Background(), &samples{feeds: list}, verify.Config{Set: own.set, Program: own.p, Backend: cpu.Backend,
			Threads: 2, Sums: s})
		require.NoError(t, err)
	}
	return verify.Twin(context.Background(), own.p, other.p, nil, s, &samples{feeds: list}, 2, cpu.Backend, 2)
}

// code changes a code of the weights of a node.
func code(node string) func(p *lower.Program) {
	return func(p *lower.Program) {
		for i := range p.Steps {
			if l, ok := p.Steps[i].Op.(*lower.Linear); ok && p.Name(lower.StepID(i)) == node {
				w := *l.Weights
				w.Codes = w.Codes.Clone()
				w.Codes.Data.([]int8)[4] ^= 32
				l.Weights = &w
			}
		}
	}
}

func TestTwinsComputeTheSame(t *testing.T) {
	for _, sums := range []bool{true, false} {
		for _, exponent := range []string{"1.5", "1.5000002"} { // the last bits of floats may be others
			r, err := twinOf(t, exponent, sums, nil)
			require.NoError(t, err)
			require.Equal(t, exponent == "1.5", r.Same)
			require.Equal(t, map[bool]int{true: 1, false: 2}[r.Same], r.Samples)
			require.Equal(t, r.Of, r.Integers)
			require.Greater(t, r.Of, int64(r.Samples*(3*64+8*64+8*64)))
		}
		_, err := twinOf(t, "1.5", sums, code("first"))
		require.ErrorContains(t, err, `first in tensor "b_QuantizeLinear"`)
		_, err = twinOf(t, "1.5", sums, code("last"))
		require.ErrorContains(t, err, `first in tensor "y_QuantizeLinear"`)
		_, err = twinOf(t, "1.7", sums, nil)
		require.ErrorContains(t, err, `other numbers than the plan at "power"`)
	}
}

// joins has operations of several kinds, the last of them in float, and two outputs of one shape.
const joins = `input x: f32[1,4,8,8]
const w: f32[4,4,3,3] = normal(seed=1, std=0.3)
const b: f32[4] = [0.5, -0.25, 0.125, 1]
const v: f32[1,4,1,1] = [1, 0.5, -1, 2]
a = Conv(x, w, b) {pads=[1,1,1,1]} "first"
s = Sigmoid(a) "sigmoid"
c = Conv(s, v) "more"
d = Sub(s, a) "less"
p = MaxPool(d) {kernel_shape=[3,3], pads=[1,1,1,1]} "max"
j = Concat(p, s) {axis=1} "join"
y, z = Split(j) {axis=1, num_outputs=2} "halves"
output y
output z
output c
`

// Programs are the same only where every number and every way is.
func TestOtherProgramsAreNotTheSame(t *testing.T) {
	at := func(p *lower.Program, node string) *lower.Step {
		for i := range p.Steps {
			if p.Name(lower.StepID(i)) == node {
				return &p.Steps[i]
			}
		}
		require.FailNow(t, node)
		return nil
	}
	inFloat := func(p *lower.Program, node string) *graph.Node {
		g := at(p, "less").Op.(*lower.Island).Graph
		id, ok := g.LookupNode(node)
		require.True(t, ok, node)
		return g.Node(id)
	}
	for what, change := range map[string]func(p *lower.Program){
		"nothing":      func(*lower.Program) {},
		"a code":       code("first"),
		"a bias":       func(p *lower.Program) { at(p, "first").Op.(*lower.Linear).Bias[2] += 1 << 12 },
		"a multiplier": func(p *lower.Program) { at(p, "first").Op.(*lower.Linear).Scales[0].Multipliers[1].Scale *= 1.5 },
		"a limit":      func(p *lower.Program) { at(p, "first").Op.(*lower.Linear).Scales[0].Lo += 90 },
		"a pad": func(p *lower.Program) {
			n := p.Graph.Node(at(p, "first").Node)
			n.SetAttr(graph.Ints("pads", 2, 1, 0, 1))
		},
		"an entry of a table": func(p *lower.Program) { at(p, "sigmoid").Op.(*lower.Table).Codes.Data.([]uint8)[130] ^= 8 },
		"a zero point": func(p *lower.Program) {
			e := *p.Tensors[at(p, "sigmoid").Outputs[0]].Encoding
			e.ZeroPoint += 40
			p.Tensors[at(p, "sigmoid").Outputs[0]].Encoding = &e
		},
		"operands that are exchanged": func(p *lower.Program) { slices.Reverse(inFloat(p, "less").Inputs) },
		"a window":                    func(p *lower.Program) { inFloat(p, "max").SetAttr(graph.Ints("pads", 0, 1, 2, 1)) },
		"parts that are exchanged":    func(p *lower.Program) { slices.Reverse(inFloat(p, "join").Inputs) },
		"outputs that are exchanged":  func(p *lower.Program) { p.Outputs[0], p.Outputs[1] = p.Outputs[1], p.Outputs[0] },
	} {
		own, err := compile(t, joins, "onnxruntime", "ort")
		require.NoError(t, err)
		other, err := compile(t, joins, "onnxruntime", "ort")
		require.NoError(t, err)
		change(other.p)
		r, err := verify.Twin(context.Background(), own.p, other.p, nil, nil, &samples{feeds: []map[string]*tensor.Tensor{own.feeds}}, 1,
			cpu.Backend, 1)
		require.Equal(t, what == "nothing", r.Same, what)
		if what == "nothing" {
			require.NoError(t, err, what)
		} else {
			require.ErrorContains(t, err, " than the plan", what)
		}
	}
}

// A reader that names nothing, and has channels at the other end, is still compared.
func TestTwinsOfOtherNamesAndOrders(t *testing.T) {
	own, err := compile(t, fmt.Sprintf(twin, "1.5"), "onnxruntime", "ort")
	require.NoError(t, err)
	other, err := compile(t, fmt.Sprintf(twin, "1.5"), "onnxruntime", "ort")
	require.NoError(t, err)
	for _, id := range other.g.Nodes() {
		other.g.Node(id).Name = fmt.Sprint("n", id)
	}
	last := tensor.New(tensor.Float32, 1, 8, 8, 3)
	for i, v := range own.feeds["x"].ToRowMajor().F32() {
		last.F32()[i%64*3+i/64] = v
	}
	for _, feed := range []*tensor.Tensor{own.feeds["x"], last} {
		feeds := []map[string]*tensor.Tensor{{"x": feed}}
		r, err := verify.Twin(context.Background(), own.p, other.p, nil, nil, &samples{feeds: feeds}, 1, cpu.Backend, 1)
		require.NoError(t, err)
		require.Positive(t, r.Of)
		require.Equal(t, r.Of, r.Integers)
	}
	other.p.Steps[1].Op.(*lower.Linear).Weights.Codes.Data.([]int8)[4] ^= 32
	first := &samples{feeds: []map[string]*tensor.Tensor{own.feeds}}
	_, err = verify.Twin(context.Background(), own.p, other.p, nil, nil, first, 1, cpu.Backend, 1)
	require.ErrorContains(t, err, "other integers")
}

// turnedTwin has an operator in float whose output is transposed before it is integers again: %s says how, and what the result is called.
const turnedTwin = `input x: f32[1,3,7,7]
const w: f32[5,3,3,3] = normal(seed=1, std=0.3)
const v: f32[5,4] = normal(seed=2, std=0.3)
const k: f32[] = [%s]
a = Conv(x, w) {pads=[1,1,1,1]} "first"
b = Relu(a) "relu"
p = Pow(b, k) "%s"
%s
y = MatMul(q, v) "last"
output y
`

// What is computed in float is known by the tensor before a Transpose too, which the other program may call otherwise or do in other steps:
// behind it both have the same numbers, so that what the last bits of floats do to codes is not carried on to the next operator in float.
func TestTwinsWithOtherTransposes(t *testing.T) {
	compiled := func(exponent, node, way string) *lowered {
		l, err := compile(t, fmt.Sprintf(turnedTwin, exponent, node, way), "onnxruntime", "ort")
		require.NoError(t, err)
		return l
	}
	const once = `q = Transpose(p) {perm=[0,3,2,1]} "turn"`
	own := compiled("1.5", "power", once)
	for _, c := range []struct{ exponent, way, err string }{
		{"1.5", once, ""}, {"1.503", once, ""},
		{"1.503", `r = Transpose(p) {perm=[0,2,1,3]} "some"
q = Transpose(r) {perm=[0,3,1,2]} "rest"`, ""},
		{"1.7", once, `other numbers than the plan at "p"`},
		{"1.503", `q = Transpose(p) {perm=[0,2,3,1]} "other"`, "other integers"},
	} {
		other, changed := compiled("1.5", "n", c.way), compiled(c.exponent, "n", c.way)
		for i := range other.p.Steps {
			if o, ok := other.p.Steps[i].Op.(*lower.Island); ok {
				o.Graph = changed.p.Steps[i].Op.(*lower.Island).Graph
				id := other.p.Steps[i].Outputs[0]
				require.NoError(t, other.p.Graph.Rename(other.p.Tensors[id].Value, "unknown"))
			}
		}
		r, err := verify.Twin(context.Background(), own.p, other.p, nil, nil, &samples{feeds: []map[string]*tensor.Tensor{own.feeds}}, 1,
			cpu.Backend, 1)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.way)
			continue
		}
		require.NoError(t, err, c.way)
		require.GreaterOrEqual(t, r.Integers, r.Of-7*7*5, c.way) // but the tensor of another name
	}
}
