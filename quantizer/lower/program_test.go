package lower_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// eachProgram runs f for the program of every network on every target.
func eachProgram(t *testing.T, f func(t *testing.T, p *lower.Program)) {
	for name, text := range lowertest.Networks {
		for _, tg := range targettest.Distinct() {
			t.Run(name+"/"+tg.Name, func(t *testing.T) {
				p, err := compile(t, text, tg.Name, tg.Profile)
				require.NoError(t, err)
				f(t, p)
			})
		}
	}
}

// floatBetween returns a step that reads as float32 what a step computed from integers, unless one of the two is an island.
func floatBetween(p *lower.Program) (lower.StepID, bool) {
	fromIntegers := make([]bool, len(p.Tensors))
	for i := range p.Steps {
		s := &p.Steps[i]
		_, island := s.Op.(*lower.Island)
		for _, id := range s.Inputs {
			if fromIntegers[id] && !island {
				return s.ID, true
			}
		}
		for _, id := range s.Outputs {
			if id != lower.NoTensor && p.Tensors[id].DType == tensor.Float32 {
				fromIntegers[id] = !island
			}
		}
	}
	return 0, false
}

func TestNoFloatBetweenQuantizedSteps(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *lower.Program) {
		id, found := floatBetween(p)
		require.False(t, found, "%s", lower.FormatStep(p, id))
		defined := make([]bool, len(p.Tensors))
		for i := range p.Tensors {
			defined[i] = p.Tensors[i].Const != nil
			require.Equal(t, p.Tensors[i].Quantized(), slices.Contains([]tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int16}, p.Tensors[i].DType),
				p.Tensors[i].Name)
		}
		for _, id := range p.Inputs {
			defined[id] = true
		}
		for i := range p.Steps {
			for _, id := range p.Steps[i].Inputs {
				require.True(t, defined[id], "%s reads what is not computed yet", lower.FormatStep(p, p.Steps[i].ID))
			}
			for _, id := range p.Steps[i].Outputs {
				defined[id] = true
			}
		}
	})
	// A Dequantize in front of a Quantize is what the check is for.
	p, err := compile(t, lowertest.Networks["squeezenet"], "onnxruntime", "ort")
	require.NoError(t, err)
	for i := range p.Steps {
		if _, ok := p.Steps[i].Op.(*lower.Dequantize); ok {
			p.Steps = append(p.Steps, lower.Step{ID: lower.StepID(len(p.Steps)), Node: graph.NoNode, Inputs: p.Steps[i].Outputs,
				Outputs: p.Steps[i].Inputs, Op: &lower.Quantize{}})
			break
		}
	}
	_, found := floatBetween(p)
	require.True(t, found)
}

// A program does not depend on the order in which the graph's nodes are stored.
func TestProgramsDoNotDependOnStorage(t *testing.T) {
	for name, text := range lowertest.Networks {
		for _, tg := range targettest.Distinct() {
			pr, err := qmath.ProfileNamed(tg.Profile)
			require.NoError(t, err)
			var texts []string
			for seed := range uint64(3) {
				g := graphtest.Parse(t, text)
				if seed > 0 {
					g.Shuffle(rand.New(rand.NewPCG(seed, 0)).Perm(g.NumNodes()))
				}
				set, _ := lowertest.Configure(t, g, tg)
				p, err := lower.Compile(g, set, tg, pr)
				require.NoError(t, err)
				texts = append(texts, lower.Format(p))
			}
			require.Equal(t, texts[0], texts[1], name)
			require.Equal(t, texts[0], texts[2], name)
		}
	}
}

// The bounds of accumulators hold for the codes that drive each channel to its extremes, and no tighter ones would.
func TestBoundsAreReached(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *lower.Program) {
		for _, s := range p.Safety {
			op := p.Steps[s.Step].Op.(*lower.Linear)
			if op.Weights == nil {
				continue
			}
			e := p.Tensors[p.Steps[s.Step].Inputs[0]].Encoding
			for c := range op.Weights.Channels {
				least, most := int64(0), int64(0)
				op.Weights.Runs(func(channel int, codes []int32) {
					for _, q := range codes {
						if q -= op.Weights.ZeroPoint[c]; channel == c {
							a, b := int64(e.QMin-e.ZeroPoint)*int64(q), int64(e.QMax-e.ZeroPoint)*int64(q)
							least, most = least+min(a, b), most+max(a, b)
						}
					}
				})
				if op.Bias != nil {
					least, most = least+min(int64(op.Bias[c]), 0), most+max(int64(op.Bias[c]), 0)
				}
				require.Equal(t, least, s.Min[c])
				require.Equal(t, most, s.Max[c])
			}
			require.True(t, s.Fits)
		}
	})
}

// The four terms of the expansion are the sum of products less their zero points.
func TestExpansion(t *testing.T) {
	tg := target.ONNXRuntime
	tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerChannel|tqc.Linear, 0, 255
	r := rand.New(rand.NewPCG(1, 2))
	for _, text := range lowertest.Networks {
		g, set, _ := lowertest.ConfiguredFor(t, text, &tg)
		pr, err := qmath.ProfileNamed("onnx")
		require.NoError(t, err)
		p, err := lower.Compile(g, set, &tg, pr)
		require.NoError(t, err)
		for i := range p.Steps {
			op, ok := p.Steps[i].Op.(*lower.Linear)
			if !ok || op.Weights == nil {
				continue
			}
			zx := p.Tensors[p.Steps[i].Inputs[0]].Encoding.ZeroPoint
			w := op.Weights
			raw, inputs, want := make([]int64, w.Channels), make([]int64, w.Channels), make([]int64, w.Channels)
			terms := make([]int, w.Channels)
			w.Runs(func(c int, codes []int32) {
				for _, q := range codes {
					x := r.Int32N(256)
					raw[c] += int64(x) * int64(q)
					inputs[c] += int64(x)
					want[c] += int64(x-zx) * int64(q-w.ZeroPoint[c])
				}
				terms[c] += len(codes)
			})
			for c := range want {
				require.Equal(t, w.Terms, terms[c])
				require.Equal(t, want[c], raw[c]-int64(w.ZeroPoint[c])*inputs[c]+w.Offset(c, zx))
			}
		}
	}
}

// Pairs at risk are those that some codes drive out of int16.
func TestPairsAtRisk(t *testing.T) {
	p, err := compile(t, lowertest.Networks["residual"], "onnxruntime", "avx2-saturating")
	require.NoError(t, err)
	total := 0
	for _, s := range p.Safety {
		step := &p.Steps[s.Step]
		w := step.Op.(*lower.Linear).Weights
		require.Equal(t, w.Terms/2, s.Pairs)
		codes := make([][]int32, w.Channels) // C x taps
		w.Runs(func(c int, run []int32) { codes[c] = append(codes[c], run...) })
		depth := w.Codes.Shape[1]
		taps := w.Terms / depth
		for c, own := range codes {
			at := func(i int) int64 { return int64(own[i%depth*taps+i/depth]) } // channel after channel, tap by tap
			risky := 0
			for i := 0; i+1 < w.Terms; i += 2 {
				most := 255 * max(at(i), at(i+1), at(i)+at(i+1), 0)
				least := 255 * min(at(i), at(i+1), at(i)+at(i+1), 0)
				if most > math.MaxInt16 || least < math.MinInt16 {
					risky++
				}
			}
			require.Equal(t, risky, s.AtRisk[c], "%s channel %d", p.Name(s.Step), c)
		}
		total += s.Saturates()
	}
	require.Positive(t, total)

	reduced := target.ONNXRuntime
	reduced.Weight.QMin, reduced.Weight.QMax = reduced.ReducedWeight[0], reduced.ReducedWeight[1]
	g, set, _ := lowertest.ConfiguredFor(t, lowertest.Networks["residual"], &reduced)
	pr, err := qmath.ProfileNamed("ort")
	require.NoError(t, err)
	p, err = lower.Compile(g, set, &reduced, pr)
	require.NoError(t, err)
	for _, s := range p.Safety {
		require.Zero(t, s.Saturates(), "7-bit weights are safe")
	}
}

// The codes of a table are indexed by the raw byte: 0..127, -128..-1 where codes are signed.
func TestTableOrder(t *testing.T) {
	tg := target.ONNXRuntime
	tg.Activation.QMin, tg.Activation.QMax = -128, 127
	g, set, _ := lowertest.ConfiguredFor(t, lowertest.Networks["windows"], &tg)
	pr, err := qmath.ProfileNamed("onnx")
	require.NoError(t, err)
	p, err := lower.Compile(g, set, &tg, pr)
	require.NoError(t, err)
	at := slices.IndexFunc(p.Steps, func(s lower.Step) bool { _, ok := s.Op.(*lower.Table); return ok })
	require.GreaterOrEqual(t, at, 0)
	s := &p.Steps[at]
	x, y := p.Tensors[s.Inputs[0]].Encoding.Grid(), p.Tensors[s.Outputs[0]].Encoding.Grid()
	for raw, got := range s.Op.(*lower.Table).Codes.Integers() {
		v := x.Dequantize(int32(int8(raw)))
		if v < 0 {
			v *= 0.2
		}
		require.Equal(t, y.Quantize(v), got, "byte %d", raw)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ network, platform, profile, want string }{
		{"residual", "trt_int8", "ort", `lower: node "add" (Add, f32[2,8,7,7], f32[2,8,7,7]): profile ort does not add before it rounds, ` +
			`which trt_int8 does`},
		{"residual", "onnxruntime", "pow2", "is not a power of two"},
	} {
		_, err := compile(t, lowertest.Networks[c.network], c.platform, c.profile)
		require.ErrorContains(t, err, c.want)
	}
	gated := `
input x: f32[1,2,4]
const w: f32[3,2,1] = normal(1)
const v: f32[2,3,1] = normal(2)
c: f32[1,3,4] = Conv(x, w) "conv"
s: f32[1,3,4] = Tanh(c) "tanh"
y: f32[1,2,4] = Conv(s, v) "next"
output y
`
	_, err := compile(t, gated, "trt_int8", "trt")
	require.NoError(t, err)
	_, err = compile(t, gated, "trt_int8", "tflite2")
	require.ErrorContains(t, err, `node "tanh" (Tanh, f32[1,3,4]): profile tflite2 has no float epilogue to compute it in`)

	g, set, _ := lowertest.Configured(t, gated, "trt_int8")
	pr, err := qmath.ProfileNamed("trt")
	require.NoError(t, err)
	id, _ := g.LookupNode("conv")
	require.NoError(t, set.Advance(set.Input(id, 0), tqc.FP32))
	_, err = lower.Compile(g, set, &target.TRTInt8, pr)
	require.ErrorContains(t, err, `node "conv" (Conv, f32[1,2,4], f32[3,2,1]): input 0 is not quantized`)
	_, err = lower.Compile(graph.New("other", 17), set, &target.TRTInt8, pr)
	require.ErrorContains(t, err, "configs of 3 nodes for a graph of 0")
}

// Crossings are the conversions at the border of integers and float, with the bytes of both sides.
func TestCrossings(t *testing.T) {
	p, err := compile(t, lowertest.Networks["mobilenet"], "trt_int8", "trt")
	require.NoError(t, err)
	type crossing struct {
		tensor  string
		toFloat bool
		bytes   int64
	}
	var got []crossing
	for _, c := range p.Crossings {
		got = append(got, crossing{p.Tensors[c.Tensor].Name, c.ToFloat, c.Bytes})
	}
	require.Equal(t, []crossing{
		{"x", false, 243 + 972},
		{"c2", true, 4 * 12 * 81}, // the last convolution writes real numbers for the pool
		{"f", false, 12 + 48},
		{"y", true, 20},
	}, got)
}
