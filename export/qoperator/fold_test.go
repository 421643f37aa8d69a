package qoperator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/export/qoperator"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// types are onnxruntime with other types of codes.
func types() map[string]target.Target {
	u8s8, s8s8, u8u8, sym := target.ONNXRuntime, target.ONNXRuntime, target.ONNXRuntime, target.ONNXRuntime
	s8 := qmath.Format{Bits: 8, QMin: -128, QMax: 127}
	s8s8.Activation.Format = s8
	u8u8.Weight.Policy, u8u8.Weight.Format = tqc.Asymmetric|tqc.PerTensor|tqc.Linear, u8u8.Activation.Format
	sym.Activation.Policy, sym.Activation.Format = tqc.Symmetric|tqc.PerTensor|tqc.Linear, s8
	sym.Ops = slices.Clone(sym.Ops)
	for i := range sym.Ops {
		sym.Ops[i].FixedScale, sym.Ops[i].Finer = 0, 0 // its zero point is the lowest integer
	}
	return map[string]target.Target{"U8S8": u8s8, "S8S8": s8s8, "U8U8": u8u8, "symmetric": sym}
}

// folded returns the QOperator form of a network, what keeps its Q/DQ form, and what it was made of.
func folded(t testing.TB, text string, tg *target.Target) (m *onnx.Model, left []qoperator.Left, g *graph.Graph, set *tqc.Set,
	feeds map[string]*tensor.Tensor) {
	t.Helper()
	g, set, feeds = lowertest.ConfiguredFor(t, text, tg)
	m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, tg, onnxqdq.Options{})
	require.NoError(t, err)
	left, err = qoperator.Fold(m.Graph)
	require.NoError(t, err)
	readBack(t, g, set, tg)
	return m, left, g, set, feeds
}

// readBack writes a model, if anything of it has a QOperator form, and compares the file with what it was made of.
func readBack(t testing.TB, g *graph.Graph, set *tqc.Set, tg *target.Target) {
	t.Helper()
	f := qoperator.Format()
	values, err := f.Resolve(nil)
	require.NoError(t, err)
	in := &export.Input{Model: &onnx.Model{Graph: g}, Set: set, Target: tg, Options: values}
	if _, err := exporttest.Try(&f, in, t.TempDir()); err != nil {
		require.ErrorContains(t, err, "nothing of this plan has a QOperator form")
		return
	}
	exporttest.Equal(t, &f, in)
}

func operators(g *graph.Graph) map[string]int {
	count := map[string]int{}
	for _, id := range g.Nodes() {
		count[g.Node(id).Op]++
	}
	return count
}

// requireIntegers holds a QOperator file to the integer program under the arithmetic of ONNX Runtime: the results are equal bit for bit.
func requireIntegers(t testing.TB, m *onnx.Model, g *graph.Graph, set *tqc.Set, tg *target.Target, feeds map[string]*tensor.Tensor) {
	t.Helper()
	profile, err := qmath.ProfileNamed("ort")
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, profile)
	require.NoError(t, err)
	x, err := program.New(p, program.Reference, 1)
	require.NoError(t, err)
	defer x.Close()
	want, err := x.Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	s, err := exec.New(m.Graph, exec.Options{})
	require.NoError(t, err)
	got, err := s.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, tensor.Equal(want[i], got[i]), "output %d", i)
	}
}

// Every network, in every choice of types, gives the integers of the program, without a float operator between its ends.
func TestNetworks(t *testing.T) {
	for name, tg := range types() {
		for _, network := range slices.Sorted(maps.Keys(lowertest.Networks)) {
			t.Run(name+"/"+network, func(t *testing.T) {
				m, left, g, set, feeds := folded(t, lowertest.Networks[network], &tg)
				for _, l := range left {
					id, ok := g.LookupNode(l.Node)
					require.False(t, ok && set.Domains[id] == tqc.DomainInt, "%s: %v", l.Node, l.Why)
				}
				require.Empty(t, qoperator.Check(m.Graph, &tg))
				profile, err := qmath.ProfileNamed("ort")
				require.NoError(t, err)
				if _, err := lower.Compile(g, set, &tg, profile); err != nil {
					t.Skip("does not apply: " + err.Error())
				}
				requireIntegers(t, m, g, set, &tg, feeds)
			})
		}
	}
}

const small = `
input x: f32[1,3,8,8]
const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
const b: f32[4] = normal(2)
const lo: f32[] = 0
const hi: f32[] = 0.5
const wf: f32[16,5] = normal(6)
const bf: f32[5] = normal(7)
const we: f32[5,2] = normal(8)
const be: f32[2] = normal(9)
c: f32[1,4,8,8] = Conv(x, w, b) {pads=[1,1,1,1]} "conv"
r: f32[1,4,8,8] = Clip(c, lo, hi) "limited"
p: f32[1,4,2,2] = AveragePool(r) {kernel_shape=[4,4], strides=[4,4]} "pool"
f: f32[1,16] = Flatten(p) "flat"
y: f32[1,5] = Gemm(f, wf, bf) "fc"
z: f32[1,5] = Softmax(y) {axis=1} "soft"
e: f32[1,2] = Gemm(z, we, be) "end"
output e
`

// The small network as it is written: one operator for each, and nothing in between but the limits that the type does not have by itself.
func TestForm(t *testing.T) {
	m, left, _, _, _ := folded(t, small, lowertest.Whole())
	require.Empty(t, left)
	require.Equal(t, map[string]int{"QuantizeLinear": 1, "QLinearConv": 1, "QLinearAveragePool": 1, "Flatten": 1, "QGemm": 2,
		"QLinearSoftmax": 1, "DequantizeLinear": 1}, operators(m.Graph))
	require.EqualValues(t, 1, m.Graph.Opset("com.microsoft"))
	id, ok := m.Graph.LookupNode("soft")
	require.True(t, ok)
	require.EqualValues(t, 13, m.Graph.Node(id).AttrInt("opset", 0), "the meaning of its axis")
	for name, v := range map[string]string{"conv": "r_QuantizeLinear", "fc": "y_QuantizeLinear", "end": "e_QuantizeLinear"} {
		id, ok := m.Graph.LookupNode(name)
		require.True(t, ok)
		require.Equal(t, v, m.Graph.Value(m.Graph.Node(id).Outputs[0]).Name, "tensors of integers keep their names")
	}

	// With symmetric codes a ReLU is not where the type ends.
	s8 := types()["symmetric"]
	m, _, g, set, feeds := folded(t, strings.ReplaceAll(small, "0.5", "6"), &s8)
	require.Equal(t, 1, operators(m.Graph)["Clip"])
	requireIntegers(t, m, g, set, &s8, feeds)
}

// A file of operators on integers is read back as the Q/DQ model that it was made of: the same configuration of the same operators.
func TestReadBack(t *testing.T) {
	tg := target.ONNXRuntime
	m, _, g, set, _ := folded(t, lowertest.Networks["squeezenet"], &tg)
	q, err := qdq.Read(context.Background(), m.Graph)
	require.NoError(t, err)
	im, err := q.Configure(&tg)
	require.NoError(t, err)
	for _, id := range g.Nodes() {
		n := g.Node(id)
		other, ok := im.Graph.LookupNode(n.Name)
		if n.Op == "Relu" {
			require.False(t, ok, "the type ends there: nothing is left of it")
			continue
		}
		require.True(t, ok, n.Name)
		require.Equal(t, set.Domains[id], im.Set.Domains[other], n.Name)
	}
}

// What keeps its Q/DQ form says why, and the file still computes the same.
func TestLeft(t *testing.T) {
	for text, why := range map[string]string{
		`"conv"/int16`:     "codes of type i16",
		`"pool"/dilations`: "has no dilations",
	} {
		what, change, _ := strings.Cut(text, "/")
		tg, network := target.ONNXRuntime, small
		if change == "int16" {
			tg = lowertest.Int16(tg)
		} else {
			network = strings.Replace("opset 19\n"+small, "strides=[4,4]", "strides=[4,4], dilations=[1,2], pads=[0,0,0,3]", 1)
		}
		m, left, _, _, feeds := folded(t, network, &tg)
		i := slices.IndexFunc(left, func(l qoperator.Left) bool { return fmt.Sprintf("%q", l.Node) == what })
		require.GreaterOrEqual(t, i, 0, "%v", left)
		require.ErrorContains(t, left[i].Why, why)
		s, err := exec.New(m.Graph, exec.Options{})
		require.NoError(t, err)
		_, err = s.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err)
	}
}

// A Resize that takes elements moves their codes; one that computes new numbers keeps its Q/DQ form, also where both ends have one scale.
// The results of both forms are equal.
func TestResize(t *testing.T) {
	for mode, moves := range map[string]bool{"nearest": true, "linear": false, "cubic": false} {
		g := graphtest.Parse(t, `opset 19
input x: f32[1,2,5,4]
const s: f32[] = 0.02
const z: u8[] = 100
const scales: f32[4] = [1, 1, 2, 1.5]
q: u8[1,2,5,4] = QuantizeLinear(x, s, z)
d: f32[1,2,5,4] = DequantizeLinear(q, s, z)
r: f32[1,2,10,6] = Resize(d, _, scales) {mode="`+mode+`"} "resize"
p: u8[1,2,10,6] = QuantizeLinear(r, s, z)
y: f32[1,2,10,6] = DequantizeLinear(p, s, z)
output y`)
		feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(3, 1, 2, 5, 4)}
		run := func() *tensor.Tensor {
			s, err := exec.New(g.Clone(), exec.Options{})
			require.NoError(t, err)
			out, err := s.NewRunner().Run(context.Background(), feeds, nil)
			require.NoError(t, err)
			return out[0]
		}
		want := run()
		left, err := qoperator.Fold(g)
		require.NoError(t, err)
		require.True(t, tensor.Equal(want, run()), mode)
		require.Equal(t, map[bool]int{true: 1, false: 2}[moves], operators(g)["QuantizeLinear"], mode)
		if moves {
			require.Empty(t, left)
			continue
		}
		require.Len(t, left, 1)
		require.Equal(t, "resize", left[0].Node)
		require.ErrorContains(t, left[0].Why, "computes new numbers")
	}
}

// Random networks in random types: what can be lowered has the integers of the program.
func TestRandom(t *testing.T) {
	compared := 0
	for seed := range uint64(60) {
		tg := lowertest.RandomTarget(seed)
		if !tg.Placement.Outputs() {
			continue
		}
		g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Random(seed, 1), &tg)
		m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, &tg, onnxqdq.Options{})
		if err != nil {
			continue // no Q/DQ form, whichever way it is written
		}
		before, err := exec.New(m.Graph.Clone(), exec.Options{})
		require.NoError(t, err)
		_, err = qoperator.Fold(m.Graph)
		require.NoError(t, err)
		after, err := exec.New(m.Graph, exec.Options{})
		require.NoError(t, err)
		want, err := before.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		got, err := after.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err, "seed %d", seed)
		if operators(m.Graph)["QLinearConv"]+operators(m.Graph)["QGemm"]+operators(m.Graph)["QLinearMatMul"] == 0 {
			continue
		}
		compared++
		for i := range want { // the float form rounds some ties differently, which may move what follows by a step or two
			require.Equal(t, want[i].Shape, got[i].Shape)
			var most, sum, worst float64
			x, y := want[i].ToRowMajor().F32(), got[i].ToRowMajor().F32()
			for k := range x {
				most, worst, sum = max(most, float64(max(x[k], -x[k]))), max(worst, float64(max(x[k]-y[k], y[k]-x[k]))), sum+
					float64(max(x[k]-y[k], y[k]-x[k]))
			}
			require.LessOrEqual(t, sum/float64(max(len(x), 1)), 0.02*most+1e-6, "seed %d, output %d: worst %g of %g", seed, i, worst, most)
		}
	}
	require.Greater(t, compared, 10)
}

// faults plant a violation of a rule in the small network.
var faults = map[string]func(t *testing.T, g *graph.Graph){
	"structure": func(t *testing.T, g *graph.Graph) {
		g.SetConst(node(t, g, "fc").Inputs[3], tensor.New(tensor.Int8, 7, 5))
	},
	"domain": func(_ *testing.T, g *graph.Graph) { g.Opsets = g.Opsets[:1] },
	"opset":  func(_ *testing.T, g *graph.Graph) { g.Opsets[0].Version = 12 },
	"type": func(t *testing.T, g *graph.Graph) {
		g.SetInput(node(t, g, "conv").ID, 2, g.AddConst("planted", tensor.New(tensor.Int8)))
	},
	"scale": func(t *testing.T, g *graph.Graph) {
		g.SetInput(node(t, g, "pool").ID, 3, g.AddConst("planted", tensor.New(tensor.Float32)))
	},
	"granularity": func(t *testing.T, g *graph.Graph) {
		g.SetInput(node(t, g, "conv").ID, 5, g.AddConst("planted", &tensor.Tensor{DType: tensor.Int8, Shape: []int{4}, Data: []int8{0, 0, 1, 0}}))
	},
	"bias": func(t *testing.T, g *graph.Graph) {
		g.SetInput(node(t, g, "conv").ID, 8, g.AddConst("planted", tensor.New(tensor.Float32, 4)))
	},
	"attribute": func(t *testing.T, g *graph.Graph) { node(t, g, "soft").Attrs = node(t, g, "soft").Attrs[:1] },
}

func node(t *testing.T, g *graph.Graph, name string) *graph.Node {
	id, ok := g.LookupNode(name)
	require.True(t, ok)
	return g.Node(id)
}

// TestPoolScale: the kernel of a mean over all ends with an error where the scales of both sides are too far apart.
func TestPoolScale(t *testing.T) {
	for out, want := range map[float32]int{0.5: 0, 1e-42: 2, 1e-5: 1, 1e12: 1} {
		g := graphtest.Parse(t, fmt.Sprintf(`
opset 17
opset com.microsoft 1
input x: u8[1,4,6,6]
const s: f32[] = [0.5]
const z: u8[] = [0]
const o: f32[] = [%g]
y: u8[1,4,1,1] = com.microsoft::QLinearGlobalAveragePool(x, s, z, o, z) "pool"
output y
`, out))
		require.Empty(t, graph.InferShapes(g))
		require.Len(t, qoperator.Check(g, &target.ONNXRuntime), want, "%g", out)
	}
}

// TestPlantedFaults: each rule finds its fault, and nothing else is said of a file without one.
func TestPlantedFaults(t *testing.T) {
	tg := lowertest.Whole()
	for _, r := range qoperator.Rules() {
		t.Run(r.Name, func(t *testing.T) {
			require.NotEmpty(t, r.Doc)
			require.NotEmpty(t, r.Fix)
			if r.Name == "blocks" {
				return // TestWeightsOnly
			}
			m, _, _, _, _ := folded(t, small, tg)
			require.Empty(t, qoperator.Check(m.Graph, tg))
			require.Contains(t, faults, r.Name)
			faults[r.Name](t, m.Graph)
			found := qoperator.Check(m.Graph, tg)
			require.NotEmpty(t, found)
			for _, f := range found {
				require.Equal(t, r.Name, f.Rule, "%v", found)
				require.Equal(t, r.Fix, f.Fix)
			}
		})
	}
	g := graphtest.Parse(t, "input x: f32[1]\na = Add(x, x)\noutput a")
	g.SetInput(0, 0, g.Outputs[0])
	require.Len(t, qoperator.Check(g, tg), 1, "a cycle is all that is said about a graph with one")
}
