package onnxqdq_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/kernels/qmath"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// TestGolden runs testdata/*.txt. A case is a claim in lines starting with "#", the platform with the selectors of float nodes, a
// graph, "----" and the graph that is written, with constants of more than 8 elements shortened; "====" separates cases.
func TestGolden(t *testing.T) {
	graphtest.Golden(t, "testdata/*.txt", func(t *testing.T, c graphtest.Case) string {
		g := graphtest.Parse(t, c.Text)
		require.Empty(t, graph.InferShapes(g))
		before := graph.Format(g)
		platform, selectors := c.Platform()
		tg := findTarget(t, platform)
		set := configure(t, g, tg, selectors)
		byHand(t, g, set)
		m := build(t, &onnx.Model{Graph: g}, set, tg)
		require.Equal(t, before, graph.Format(g), "the graph that was given is not changed")
		return graph.FormatShort(m.Graph, 8)
	})
}

// corpus calls f for every graph of the golden cases, here and of package quantizer, on each target, calibrated on random inputs.
func corpus(t *testing.T, f func(t *testing.T, c configuredCase)) {
	n := 0
	for _, c := range append(graphtest.Cases(t, "testdata/*.txt"), graphtest.Cases(t, "../../quantizer/testdata/*.txt")...) {
		for _, platform := range []string{"trt_int8", "onnxruntime"} {
			g := graphtest.Parse(t, c.Text)
			if len(graph.InferShapes(g)) > 0 {
				continue
			}
			tg := findTarget(t, platform)
			_, selectors := c.Platform()
			set := configure(t, g, tg, selectors)
			if set == nil {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s/%s", platform, c.Name()), func(t *testing.T) {
				calibrated(t, g, set)
				f(t, configuredCase{platform, selectors, c.Text, g, set})
			})
		}
	}
	require.Greater(t, n, 60, "the corpus has shrunk")
}

// Whatever the strategy of dispatch, the written model keeps the rules of the platform and computes what the simulation does.
func TestEveryStrategy(t *testing.T) {
	n := 0
	for _, c := range append(graphtest.Cases(t, "testdata/*.txt"), graphtest.Cases(t, "../../quantizer/testdata/*.txt")...) {
		for i, strategy := range dispatch.Strategies[1:] {
			g := graphtest.Parse(t, c.Text)
			if len(graph.InferShapes(g)) > 0 {
				continue
			}
			tg := findTarget(t, []string{"trt_int8", "onnxruntime"}[(n+i)%2])
			a, err := dispatch.Assign(g, tg, dispatch.Options{Strategy: strategy.Name})
			require.NoError(t, err)
			set, _, err := quantizer.Configure(g, a, tg, quantizer.Options{})
			if err != nil {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s/%s/%s", strategy.Name, tg.Name, c.Name()), func(t *testing.T) {
				calibrated(t, g, set)
				_, m := written(t, build(t, &onnx.Model{Graph: g}, set, tg))
				require.Empty(t, onnxqdq.Check(m.Graph, tg, integers(g, set)))
				requireSimulation(t, g, set, m, 1)
			})
		}
	}
	require.Greater(t, n, 100)
}

type configuredCase struct {
	platform, selectors, text string
	g                         *graph.Graph
	set                       *tqc.Set
}

// The same bytes come out however the nodes are stored, and however often one builds.
func TestBytesDoNotDependOnTheOrderOfNodes(t *testing.T) {
	seeds := []uint64{1}
	if longtest.Wanted(t) {
		seeds = []uint64{0, 1, 2} // 0 shuffles nothing
	}
	corpus(t, func(t *testing.T, c configuredCase) {
		tg := findTarget(t, c.platform)
		want, _ := written(t, build(t, &onnx.Model{Graph: c.g}, c.set, tg))
		for _, seed := range seeds {
			g := graphtest.Parse(t, c.text)
			require.Empty(t, graph.InferShapes(g))
			if seed > 0 {
				g.Shuffle(rand.New(rand.NewPCG(seed, 0)).Perm(g.NumNodes()))
			}
			set := configure(t, g, tg, c.selectors)
			calibrated(t, g, set)
			got, _ := written(t, build(t, &onnx.Model{Graph: g}, set, tg))
			require.True(t, bytes.Equal(want, got), "shuffle %d", seed)
		}
	})
}

// What stands beside the graph in a file is kept; the exporter adds itself.
func TestMetadataNamesAndTypesAreKept(t *testing.T) {
	const text = `graph kept
opset 7
input x: f32[1,2,2,2]
const w: f32[2,2,1,1] = [0.5, -1, 0.75, -0.25]
a: f32[1,2,2,2] = Conv(x, w) "conv"
y: f32[1,2,2,2] = Exp(a) "exp"
output y
`
	g := graphtest.Parse(t, text)
	_, m := written(t, &onnx.Model{Graph: g, IRVersion: 3, ProducerName: "someone", Domain: "org.example", ModelVersion: 7, Doc: "what it is",
		Metadata: []onnx.KeyValue{{Key: "author", Value: "A"}, {Key: "qwb.plan", Value: "old"}, {Key: "licence", Value: "B"}}})
	tg := findTarget(t, "onnxruntime")
	set := configure(t, m.Graph, tg, "")
	byHand(t, m.Graph, set)
	b, out := written(t, build(t, m, set, tg))
	require.Equal(t, "qwb", out.ProducerName)
	require.Equal(t, "test", out.ProducerVersion)
	require.Equal(t, "org.example", out.Domain)
	require.Equal(t, int64(7), out.ModelVersion)
	require.Equal(t, "what it is", out.Doc)
	require.Equal(t, []onnx.KeyValue{{Key: "author", Value: "A"}, {Key: "qwb.plan", Value: "0123"}, {Key: "licence", Value: "B"}},
		out.Metadata)
	require.Equal(t, "someone", m.ProducerName, "the model that was given is not changed")
	require.Equal(t, "old", m.Metadata[1].Value)
	require.Equal(t, "kept", out.Graph.Name)
	require.Equal(t, int64(13), out.Graph.Opset(""))
	for _, name := range []string{"x", "y"} {
		_, ok := out.Graph.Lookup(name)
		require.True(t, ok, name)
	}
	for _, name := range []string{"conv", "exp"} {
		_, ok := out.Graph.LookupNode(name)
		require.True(t, ok, name)
	}
	raw, _, err := onnx.Read(bytes.NewReader(b), int64(len(b)), nil) // without inference: types come from the file alone
	require.NoError(t, err)
	for name, want := range map[string]string{"a": "f32[1,2,2,2]", "a_QuantizeLinear": "u8[1,2,2,2]", "a_DequantizeLinear": "f32[1,2,2,2]"} {
		v, ok := raw.Graph.Lookup(name)
		require.True(t, ok, name)
		require.Equal(t, want, graph.FormatType(raw.Graph.Value(v).DType, raw.Graph.Value(v).Shape))
	}
}

// What QuantizeLinear would not compute as the simulation does is refused, with the place.
func TestRefusals(t *testing.T) {
	for want, edit := range map[string]func(c *tqc.Config){
		`rounding up: QuantizeLinear rounds half to even`:      func(c *tqc.Config) { c.Rounding = qmath.Up },
		`range 0 to 127: QuantizeLinear clips u8 to 0 and 255`: func(c *tqc.Config) { c.QMax = 127 },
		`nf4 has no Q/DQ form`: func(c *tqc.Config) {
			c.Policy, c.Format = tqc.Floating|tqc.Symmetric|tqc.PerTensor, qmath.FormatOf(qmath.BookNF4)
		},
		`onnxruntime reads opsets up to 21, and e2m1 needs 23`: func(c *tqc.Config) {
			c.Policy, c.Format = tqc.Floating|tqc.Symmetric|tqc.PerTensor, qmath.FormatOf(qmath.FloatE2M1)
		},
		`17 bits from 0 to 65536 have no ONNX integer type`:        func(c *tqc.Config) { c.Bits, c.QMax = 17, 65536 },
		`range 0 to 4095: QuantizeLinear clips u16 to 0 and 65535`: func(c *tqc.Config) { c.Bits, c.QMax = 12, 4095 },
	} {
		g := graphtest.Parse(t, "input x: f32[1,2,2,2]\nconst w: f32[2,2,1,1] = normal(1)\ny: f32[1,2,2,2] = Conv(x, w) \"conv\"\noutput y")
		tg := findTarget(t, "onnxruntime")
		set := configure(t, g, tg, "")
		id, _ := g.LookupNode("conv")
		cfg := set.Slot(set.Input(id, 0)).Config
		edit(&cfg)
		require.NoError(t, set.Configure(set.Input(id, 0), cfg))
		byHand(t, g, set)
		_, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, tg, onnxqdq.Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `"conv"`)
	}
}

// older is a target whose readers know opsets up to 20.
func older(t *target.Target) *target.Target {
	o := *t
	o.Export.MaxOpset = 20
	return &o
}

func TestWiderTypesRaiseTheOpset(t *testing.T) {
	g := graphtest.Parse(t, "opset 13\ninput x: f32[1,2,2,2]\nconst w: f32[2,2,1,1] = normal(1)\ny: f32[1,2,2,2] = Conv(x, w) \"conv\"\n"+
		"output y")
	for _, platform := range []string{"onnxruntime", "trt_int8"} {
		tg := findTarget(t, platform)
		if platform == "trt_int8" {
			tg = older(tg)
		}
		set := configure(t, g, tg, "")
		id, _ := g.LookupNode("conv")
		for _, s := range append(set.Inputs(id)[:1:1], set.Outputs(id)...) {
			if sl := set.Slot(s); sl.State() == tqc.Initial {
				cfg := sl.Config
				cfg.Bits, cfg.QMin, cfg.QMax = 16, -1<<15, 1<<15-1
				require.NoError(t, set.Configure(s, cfg))
			}
		}
		byHand(t, g, set)
		m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, tg, options)
		if platform == "trt_int8" {
			require.ErrorContains(t, err, "input 0: trt_int8 reads opsets up to 20, and int16 needs 21")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, int64(21), m.Graph.Opset(""))
	}
}

// Weights that clip, tiny scales and ties: the float weights of TensorRT quantize to the very codes, and by a wide margin.
func TestFloatWeightsGiveTheCodesBack(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g := graphtest.Parse(t, "input x: f32[2,33]\nconst w: f32[33,4] = fill(0)\ny: f32[2,4] = MatMul(x, w) \"mm\"\noutput y")
		v, _ := g.Lookup("w")
		w := tensor.New(tensor.Float32, 33, 4)
		p := tqc.Params{ZeroPoint: make([]int32, 4)}
		for range 4 {
			p.Scale = append(p.Scale, float32(math.Exp(rng.NormFloat64()*20-10)))
		}
		for i := range w.F32() {
			w.F32()[i] = float32(rng.IntN(600)-300) * p.Scale[i%4] / 2 // half of them ties, many beyond the range
		}
		g.SetConst(v, w)
		tg := findTarget(t, "trt_int8")
		set := configure(t, g, tg, "")
		id, _ := g.LookupNode("mm")
		require.NoError(t, set.Render(set.Input(id, 1), p))
		require.NoError(t, set.Render(set.Input(id, 0), tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}}))
		out := build(t, &onnx.Model{Graph: g}, set, tg)
		v, ok := out.Graph.Lookup("w")
		require.True(t, ok, "the weight keeps its name")
		for i, x := range w.F32() {
			want := min(max(math.RoundToEven(float64(x/p.Scale[i%4])), -128), 127)
			require.InDelta(t, want, float64(out.Graph.Const(v).F32()[i]/p.Scale[i%4]), 1e-4)
		}
	}
}

func TestCodesOfConstants(t *testing.T) {
	group := &tqc.Config{Policy: tqc.PerGroup | tqc.Symmetric | tqc.Linear, Format: qmath.Format{Bits: 4, QMin: -8, QMax: 7}, Axis: -1,
		GroupSize: 2}
	codes, err := tqc.QuantizeTo(tensor.Int4, tensor.FromF32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), group,
		&tqc.Params{Scale: []float32{1, 0.5, 2, 3}, ZeroPoint: make([]int32, 4)})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 6, 2, 2, 2}, codes.Integers(), "groups of 2 and 1 in each row; 5/2 rounds to even")

	bias := &tqc.Config{Policy: tqc.PerTensor | tqc.Symmetric | tqc.Linear, Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}}
	codes, err = tqc.QuantizeTo(tensor.Int32, tensor.FromF32([]float32{0.1, 0.7}, 2), bias,
		&tqc.Params{Scale: []float32{3e-9}, ZeroPoint: []int32{0}})
	require.NoError(t, err)
	for i, b := range []float32{0.1, 0.7} {
		want, ok := qmath.QuantizeBias(b, 3e-9)
		require.True(t, ok)
		require.Equal(t, want, tensor.Of[int32](codes)[i], "float32 division would round to multiples of 2 or 16")
	}
	_, err = tqc.QuantizeTo(tensor.Int32, tensor.FromF32([]float32{1, float32(math.NaN())}, 2), bias,
		&tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}})
	require.EqualError(t, err, "the constant holds NaN at element 1")
}
