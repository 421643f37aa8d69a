package passes

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// networks are what models are made of, small: convolutions with pools and residuals, attention, a detector's head, control flow.
var networks = []string{`opset 17
input x: f32[N,3,8,8]
const w: f32[4,3,3,3] = normal(seed=1); const b: f32[4] = normal(seed=2); const s: f32[4] = uniform(seed=3, low=0.5, high=1.5)
const d: f32[4,1,3,3] = normal(seed=4); const f: f32[4,5] = normal(seed=5); const flat: i64[2] = [0, -1]; const k: f32[1,4,1,1] = normal(seed=6)
a = Conv(x, w, b) {pads=[1, 1, 1, 1], strides=[2, 2]}
n = BatchNormalization(a, s, b, b, s)
r = Relu(n)
c = Conv(r, d) {group=4, auto_pad="SAME_UPPER", dilations=[1, 1]}
m = Mul(c, k)
e = Add(m, r)
p = MaxPool(e) {kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1}
q = AveragePool(p) {kernel_shape=[2, 2], count_include_pad=1, pads=[1, 1, 0, 0]}
g = GlobalAveragePool(q)
h = Reshape(g, flat)
y = Gemm(h, f) {alpha=2.0}
z = Softmax(y) {axis=-1}
output z, p`, `opset 17
input ids: i64[N,T], mask: f32[N,T]
const table: f32[11,8] = normal(seed=1); const w: f32[8,8] = normal(seed=2); const heads: i64[4] = [0, 0, 2, 4]; const back: i64[3] = [0, 0, 8]
const g: f32[8] = uniform(seed=3, low=0.5, high=1.5); const half: f32[] = [0.5]; const one: f32[] = [1]; const far: f32[] = [-10000]; const ax: i64[2] = [1, 2]
e = Gather(table, ids)
n = LayerNormalization(e, g, g)
v = MatMul(n, w)
h = Reshape(v, heads)
t = Transpose(h) {perm=[0, 2, 1, 3]}
u = Transpose(h) {perm=[0, 2, 3, 1]}
s = MatMul(t, u)
sc = Mul(s, half)
inv = Sub(one, mask)
far2 = Mul(inv, far)
um = Unsqueeze(far2, ax)
sm = Add(sc, um)
p = Softmax(sm)
o = MatMul(p, t)
ot = Transpose(o) {perm=[0, 2, 1, 3]}
f = Reshape(ot, back)
y = Add(f, e)
r = ReduceMean(y) {axes=[1], keepdims=0}
output r, y`, `opset 13
input x: f32[1,2,6,6]
const sizes: f32[4] = [1, 1, 2, 2]; const p: i64[8] = [0, 0, 1, 1, 0, 0, 2, 2]; const st: i64[2] = [1, 0]; const en: i64[2] = [5, 100]; const ax: i64[2] = [2, 3]
const k: i64[1] = [3]; const rep: i64[4] = [1, 2, 1, 1]; const sp: i64[2] = [1, 3]; const depth: i64[] = [5]; const on: f32[2] = [0, 1]
u = Resize(x, _, sizes) {mode="linear", coordinate_transformation_mode="half_pixel"}
q = Pad(u, p) {mode="reflect"}
c = Slice(q, st, en, ax)
t = Tile(c, rep)
a, b = Split(t, sp) {axis=1}
j = Concat(b, a) {axis=1}
s = Sigmoid(j)
fl = Flatten(s)
top, at = TopK(fl, k)
hot = OneHot(at, depth, on)
sh = Shape(t)
z = ConstantOfShape(sh)
m = ReduceMax(z) {axes=[1, 2]}
output top, hot, m, j`, `opset 17
input x: f32[2,3]
const n: i64[] = [4]; const yes: bool[] = [true]; const zero: f32[] = [0]
total = ReduceSum(x)
c = Greater(total, zero)
b = If(c) {then_branch=graph {
	y = Neg(x)
	output y
}, else_branch=graph {
	y = Exp(x)
	output y
}}
last, all = Loop(n, yes, b) {body=graph {
	input i: i64[], c: bool[], v: f32[2,3]
	e = Identity(c)
	w = Add(v, x)
	output e, w, w
}}
output last, all`}

// FuzzPipeline damages models, not their bytes: attributes, integers among the constants, and what reads what. Whatever becomes of
// them, loading, shape inference, normalization, planning and a run within a memory budget and a deadline end with an error or a
// result; a model that runs still runs in its normal form, with results of the same types.
func FuzzPipeline(f *testing.F) {
	for i := range networks {
		for seed := range uint64(6) {
			f.Add(uint8(i), seed*0x9e3779b97f4a7c15)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		throughPipeline(t, networks[int(which)%len(networks)], seed)
	})
}

// TestPipelineOnDamagedModels is FuzzPipeline without the fuzzer.
func TestPipelineOnDamagedModels(t *testing.T) {
	rounds := 400
	if !longtest.Wanted(t) {
		rounds = 40
	}
	ran := 0
	for i := range networks {
		require.True(t, throughPipeline(t, networks[i], 0), "the network as it is")
		for seed := range rounds {
			if throughPipeline(t, networks[i], uint64(seed+1)*0x9e3779b97f4a7c15) {
				ran++
			}
		}
	}
	require.Greater(t, ran, rounds/4, "damage that leaves nothing to run tests little")
	require.Less(t, ran, 4*rounds, "damage that nobody notices is none")
}

// FuzzPipelineFile is FuzzPipeline on the bytes of files.
func FuzzPipelineFile(f *testing.F) {
	for _, text := range networks {
		f.Add(fileOf(f, parseGraph(f, text)))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) < 1<<15 {
			runFile(t, file)
		}
	})
}

// throughPipeline reports whether the damaged network ran.
func throughPipeline(t *testing.T, text string, seed uint64) bool {
	g := parseGraph(t, text)
	if seed != 0 {
		damage(g, rand.New(rand.NewPCG(seed, 1)))
	}
	var b bytes.Buffer
	if err := (&onnx.Model{Graph: g}).Write(&b); err != nil {
		return false // it cannot be written
	}
	return runFile(t, b.Bytes())
}

func fileOf(t testing.TB, g *graph.Graph) []byte {
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: g}).Write(&b))
	return b.Bytes()
}

func runFile(t *testing.T, file []byte) bool {
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > longtest.Hang {
			t.Fatalf("took %v", took)
		}
	}()
	m, _, err := onnx.Read(bytes.NewReader(file), int64(len(file)), nil)
	if err != nil {
		return false
	}
	graph.InferShapes(m.Graph)
	normal := m.Graph.Clone()
	if _, err := Run(context.Background(), normal, Normalize); err != nil {
		require.NotContains(t, err.Error(), "no end after", "passes undo each other")
		return false
	}
	require.NoError(t, normal.Check())
	want, err := runBounded(m.Graph)
	if err != nil {
		return false
	}
	got, err := runBounded(normal)
	require.NoErrorf(t, err, "the normal form does not run:\n%s\nof\n%s", graph.Format(normal), graph.Format(m.Graph))
	for i := range want {
		require.Equalf(t, want[i].Type(), got[i].Type(), "output %d of\n%s", i, graph.Format(m.Graph))
	}
	return true
}

// runBounded runs a graph on ones, open dimensions being 2, in 16 MiB and 3 seconds; it refuses graphs of very much work.
func runBounded(g *graph.Graph) ([]*tensor.Tensor, error) {
	feeds := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		val := g.Value(v)
		if g.Const(v) != nil {
			continue
		}
		shape := make([]int64, len(val.Shape))
		for i, d := range val.Shape {
			if shape[i] = d.N; !d.Known() {
				shape[i] = 2
			}
		}
		if _, err := tensor.CheckedCount(shape, 1<<16); err != nil {
			return nil, err
		}
		if tensor.MakeData(val.DType, 0) == nil {
			return nil, errors.New("no such elements")
		}
		x := tensor.New(val.DType, intsOf(shape)...)
		fillOnes(x)
		feeds[val.Name] = x
	}
	work := int64(0)
	for _, id := range g.Nodes() {
		macs, _ := g.MACs(id)
		work = max(work, macs)
	}
	if work > 1<<28 {
		return nil, context.DeadlineExceeded
	}
	s, err := exec.New(g, exec.Options{Memory: 16 << 20})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r := s.NewRunner()
	if _, err := r.Run(ctx, feeds, nil); err != nil {
		return nil, err
	}
	return r.Run(ctx, feeds, nil) // with a plan
}

func intsOf(shape []int64) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = int(d)
	}
	return out
}

func fillOnes(x *tensor.Tensor) {
	switch d := x.Data.(type) {
	case []float32:
		for i := range d {
			d[i] = 1
		}
	case []int64:
		for i := range d {
			d[i] = 1
		}
	}
}

// extremes are numbers that shape arithmetic has to survive.
var extremes = []int64{0, 1, -1, 2, 3, -2, 7, 64, 1000, 1 << 20, 1<<31 - 1, 1 << 31, -1 << 31, 1 << 40, 1 << 45, math.MaxInt64,
	math.MinInt64}

// damage makes one to three changes to a graph.
func damage(g *graph.Graph, r *rand.Rand) {
	number := func() int64 { return extremes[r.IntN(len(extremes))] }
	for range 1 + r.IntN(3) {
		nodes, values := g.Nodes(), g.Values()
		n := g.Node(nodes[r.IntN(len(nodes))])
		switch r.IntN(6) {
		case 0: // a number in an attribute
			if len(n.Attrs) > 0 {
				a := &n.Attrs[r.IntN(len(n.Attrs))]
				if a.I = number(); len(a.Ints) > 0 {
					a.Ints[r.IntN(len(a.Ints))] = number()
				}
			}
		case 1: // an attribute that it did not have
			name := []string{"axis", "keepdims", "group", "ceil_mode", "p", "storage_order", "allowzero", "largest"}[r.IntN(8)]
			n.SetAttr(graph.Int(name, number()))
		case 2: // a number in a constant
			v := values[r.IntN(len(values))]
			if c := g.Const(v); c != nil && c.DType == tensor.Int64 && c.Len() > 0 {
				c = c.Clone()
				c.I64()[r.IntN(c.Len())] = number()
				g.SetConst(v, c)
			}
		case 3: // another input
			if len(n.Inputs) > 0 {
				i := r.IntN(len(n.Inputs))
				old := n.Inputs[i]
				g.SetInput(n.ID, i, values[r.IntN(len(values))])
				if _, err := g.Order(); err != nil && i < len(n.Inputs) {
					g.SetInput(n.ID, i, old)
				}
			}
		case 4: // the shape of an input
			v := g.Inputs[r.IntN(len(g.Inputs))]
			if s := append(graph.Shape(nil), g.Value(v).Shape...); len(s) > 0 {
				s[r.IntN(len(s))] = graph.Dim{N: max(0, min(number(), 1<<20))}
				g.Value(v).Shape = s
			}
		case 5: // another operator
			n.Op = g.Node(nodes[r.IntN(len(nodes))]).Op
		}
	}
	g.Name = "damaged" + strconv.Itoa(len(g.Nodes()))
}
