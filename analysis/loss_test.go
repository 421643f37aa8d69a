package analysis_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// few is a data set in memory.
type few struct {
	feeds []map[string]*tensor.Tensor
	at    int
}

func (s *few) Len() int { return len(s.feeds) }

func (s *few) Next(context.Context) (*exec.Sample, error) {
	if s.at == len(s.feeds) {
		return nil, io.EOF
	}
	s.at++
	return &exec.Sample{Feeds: s.feeds[s.at-1]}, nil
}

func explained(t *testing.T, network, platform, profile string) *analysis.Explanation {
	t.Helper()
	g, set, feeds := lowertest.Configured(t, lowertest.Networks[network], platform)
	return explainedOn(t, g, set, platform, profile, feeds)
}

func explainedOn(t *testing.T, g *graph.Graph, set *tqc.Set, platform, profile string,
	feeds ...map[string]*tensor.Tensor) *analysis.Explanation {
	return explainedFrom(t, nil, g, set, platform, profile, feeds...)
}

// explainedFrom is explainedOn for a tuned graph; reference is the one before.
func explainedFrom(t *testing.T, reference, g *graph.Graph, set *tqc.Set, platform, profile string,
	feeds ...map[string]*tensor.Tensor) *analysis.Explanation {
	t.Helper()
	tg, err := target.Find(platform)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	x, err := analysis.Explain(context.Background(), func() exec.Iterator { return &few{feeds: feeds} },
		analysis.ExplainConfig{Set: set, Program: p, Reference: reference, Threads: 2})
	require.NoError(t, err)
	return x
}

func parts(l analysis.Loss) []float64 {
	return []float64{l.Weights, l.Clip, l.Round, l.Bias, l.Tables, l.Profile}
}

// The parts sum to the whole, for every step but for the rounding of the sums; the whole is not zero, and weights and rounding have a
// part in it. At the outputs none is negative.
func TestPartsSumToTheLoss(t *testing.T) {
	for name := range lowertest.Networks {
		for platform, profile := range map[string]string{"onnxruntime": "tflite2", "trt_int8": "trt"} {
			x := explained(t, name, platform, profile)
			require.NotEmpty(t, x.Outputs)
			require.NotEmpty(t, x.Layers)
			var all []analysis.Loss
			for _, o := range x.Outputs {
				require.Positive(t, o.NSR, "%s %s", name, o.Output)
				sum := o.Rest
				for _, p := range parts(o.Loss) {
					require.GreaterOrEqual(t, p, 0.0)
					sum += p
				}
				require.InDelta(t, o.NSR, sum, 1e-12*o.NSR)
				require.Nil(t, o.WeightsShift, "one sample shows no mean of the others")
			}
			for _, l := range x.Layers {
				all = append(all, l.Loss)
				if l.Op == "Conv" || l.Op == "Gemm" {
					require.NotZero(t, l.Weights, "%s %s", name, l.Node)
					require.NotZero(t, l.Round, "%s %s", name, l.Node)
				}
			}
			for _, l := range all {
				sum := l.Rest
				for _, p := range parts(l) {
					require.False(t, math.IsNaN(p))
					sum += p
				}
				require.InDelta(t, l.NSR, sum, 1e-12*l.NSR)
				require.LessOrEqual(t, math.Abs(l.Rest), 1e-9*l.NSR)
			}
		}
	}
}

// What a profile adds to the simulation is its own part: nearly nothing where it rounds as the simulation does, more where products
// of pairs saturate.
func TestProfilesHaveAPartOfTheirOwn(t *testing.T) {
	exact, saturating := explained(t, "squeezenet", "onnxruntime", "onnx"), explained(t, "squeezenet", "onnxruntime", "avx2-saturating")
	most := 0.0
	for i := range exact.Layers {
		a, b := exact.Layers[i], saturating.Layers[i]
		require.LessOrEqual(t, math.Abs(a.Profile), 0.05*a.NSR, "%+v", a)
		most = max(most, b.Profile/b.NSR)
	}
	require.Greater(t, most, 0.2)
}

// deep is a chain of convolutions: what is rounded early is rounded many times more behind it.
func deep(layers int) string {
	text := "input x: f32[1,6,8,8]\n"
	for i := range layers {
		text += fmt.Sprintf("const w%d: f32[6,6,3,3] = normal(seed=%d, std=0.19)\nconst b%d: f32[6] = normal(seed=%d, std=0.3)\n", i,
			10+i, i, 50+i)
	}
	at := "x"
	for i := range layers {
		text += fmt.Sprintf("c%d: f32[1,6,8,8] = Conv(%s, w%d, b%d) {pads=[1,1,1,1]} \"conv%d\"\n", i, at, i, i, i)
		text += fmt.Sprintf("r%d: f32[1,6,8,8] = Relu(c%d) \"relu%d\"\n", i, i, i)
		at = fmt.Sprintf("r%d", i)
	}
	return text + "output " + at + "\n"
}

func samplesOf(n int, shape ...int) (list []map[string]*tensor.Tensor) {
	for i := range n {
		list = append(list, map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(900+i), shape...)})
	}
	return list
}

// Shifts of half a unit of a bias throw later rounding anew, which is no fault of theirs: next to nothing is put down to the bias,
// at the outputs as at the steps, whatever the shifts are.
func TestRandomShiftsAreNotBlamed(t *testing.T) {
	for seed := range uint64(4) {
		g, set, _ := lowertest.Configured(t, deep(6), "onnxruntime")
		r := rand.New(rand.NewPCG(seed, 0))
		for _, id := range g.Nodes() { // the network's biases lie anywhere in the units of their integers
			slot := set.Input(id, 2)
			if g.Node(id).Op != "Conv" || !set.Slot(slot).State().Quantizes() {
				continue
			}
			b := g.Const(g.Node(id).Inputs[2]).Clone()
			for c := range b.F32() {
				s := set.Grid(slot, c).Scale
				b.F32()[c] = float32(math.Round(float64(b.F32()[c]/s))+r.Float64()-0.5) * s
			}
			g.SetConst(g.Node(id).Inputs[2], b)
		}
		x := explainedOn(t, g, set, "onnxruntime", "ort", samplesOf(3, 1, 6, 8, 8)...)
		whole := x.Outputs[0]
		require.Less(t, whole.Bias, 0.01*whole.NSR, "%+v", whole)
		require.Less(t, whole.Profile, 0.01*whole.NSR, "%+v", whole)
		require.Greater(t, whole.Round+whole.Weights, 0.5*whole.NSR)
		for _, l := range x.Layers {
			require.Less(t, math.Abs(l.Bias), 0.01*l.NSR, "%s agrees with the whole", l.Node)
			require.Less(t, math.Abs(l.Profile), 0.01*l.NSR, "%s agrees with the whole", l.Node)
		}
	}
}

// Of the weights' part, the shift is what a corrected bias takes away and no more: everything where the weights are off by the same
// amount and what they read has a mean, next to nothing where it has none.
func TestShiftOfTheMean(t *testing.T) {
	const text = `
input x: f32[1,8,6,6]
const w: f32[4,8,1,1] = normal(seed=3, std=0.5)
const b: f32[4] = normal(seed=4, std=0.1)
y: f32[1,4,6,6] = Conv(x, w, b) "conv"
output y
`
	for _, mean := range []float32{0, 4} {
		feeds := samplesOf(6, 1, 8, 6, 6)
		for _, f := range feeds {
			for i := range f["x"].F32() {
				f["x"].F32()[i] = f["x"].F32()[i]*0.3 + mean
			}
		}
		g, set, _ := lowertest.Configured(t, text, "onnxruntime")
		id, _ := g.LookupNode("conv")
		p := set.Params(set.Input(id, 0)) // wide enough for these inputs
		p.Scale[0], p.ZeroPoint[0] = 0.03, 40
		p = set.Params(set.Output(id, 0))
		p.Scale[0] = 0.2
		p = set.Params(set.Input(id, 1))
		for c := range p.Scale { // coarse weights
			p.Scale[c] *= 8
		}
		bias := set.Params(set.Input(id, 2))
		for c := range bias.Scale {
			bias.Scale[c] = qmath.BiasScale(0.03, p.Scale[c])
		}
		x := explainedOn(t, g, set, "onnxruntime", "ort", feeds...)
		if mean != 0 {
			requireRepaired(t, x, g, set, mean, feeds)
		}
		for _, l := range []analysis.Loss{x.Outputs[0].Loss, x.Layers[0].Loss} {
			require.NotNil(t, l.WeightsShift)
			require.InDelta(t, l.Weights, *l.WeightsShift+*l.WeightsNoise, 1e-12)
			if mean == 0 {
				require.Less(t, math.Abs(*l.WeightsShift), 0.1*l.Weights, "%+v", l)
			} else {
				require.Greater(t, *l.WeightsShift, 0.9*l.Weights, "%+v", l)
			}
		}
		require.InEpsilon(t, x.Layers[0].Weights, x.Outputs[0].Weights, 0.35, "one step is the whole")
	}
}

// requireRepaired corrects the bias of the only convolution by the shift of its outputs, for inputs of a mean: the weights' part falls to
// the noise, and the correction is not the bias's error.
func requireRepaired(t *testing.T, before *analysis.Explanation, g *graph.Graph, set *tqc.Set, mean float32,
	feeds []map[string]*tensor.Tensor) {
	t.Helper()
	tuned := g.Clone()
	id, _ := g.LookupNode("conv")
	n, slot := g.Node(id), set.Input(id, 1)
	w, b := g.Const(n.Inputs[1]), g.Const(n.Inputs[2]).Clone()
	for i, v := range w.F32() {
		c := i / 8
		grid := set.Grid(slot, c)
		b.F32()[c] -= mean * (grid.Dequantize(grid.Quantize(v)) - v)
	}
	tuned.SetConst(n.Inputs[2], b)
	x := explainedFrom(t, g, tuned, set, "onnxruntime", "ort", feeds...)
	for i, l := range []analysis.Loss{x.Outputs[0].Loss, x.Layers[0].Loss} {
		was := []analysis.Loss{before.Outputs[0].Loss, before.Layers[0].Loss}[i]
		require.Less(t, l.Weights, 0.1*was.Weights)
		require.Less(t, math.Abs(*l.WeightsShift), 0.05*was.Weights)
		require.Less(t, math.Abs(l.Bias), 0.05*was.Weights)
	}
}
