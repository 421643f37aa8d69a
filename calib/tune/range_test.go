package tune

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/tune/round"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/overlay"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// The sums of squares by element are what perturbing that element alone does to the output: with an input x of one operator, the squared
// output of a weight that is 1 at one element and 0 elsewhere is the sum of x^2 that the element is multiplied by.
func TestSquaresAreThoseOfTheOutput(t *testing.T) {
	for name, text := range map[string]string{
		"conv": `opset 13
input x: f32[2,4,7,6]
const w: f32[6,2,3,2] = normal(1)
y = Conv(x, w) {pads=[1,0,2,1], strides=[2,1], dilations=[1,2], group=2} "n"
output y
`, "depthwise": `opset 13
input x: f32[1,5,6,6]
const w: f32[5,1,3,3] = normal(1)
y = Conv(x, w) {pads=[1,1,1,1], group=5} "n"
output y
`, "transposed": `opset 13
input x: f32[1,4,5,4]
const w: f32[4,3,3,3] = normal(1)
y = ConvTranspose(x, w) {pads=[1,1,0,1], strides=[2,2], group=2} "n"
output y
`, "gemm": `opset 13
input x: f32[3,5]
const w: f32[4,5] = normal(1)
y = Gemm(x, w) {transB=1} "n"
output y
`, "gemm transposed": `opset 13
input x: f32[5,3]
const w: f32[5,4] = normal(1)
y = Gemm(x, w) {transA=1} "n"
output y
`, "matmul": `opset 13
input x: f32[2,3,5]
const w: f32[5,4] = normal(1)
y = MatMul(x, w) "n"
output y
`} {
		t.Run(name, func(t *testing.T) {
			g := graphtest.Parse(t, text)
			require.Empty(t, graph.InferShapes(g))
			id, _ := g.LookupNode("n")
			n := g.Node(id)
			w := g.Const(n.Inputs[1])
			s := newSquares(n, w)
			in := g.Value(g.Inputs[0])
			shape, ok := in.Shape.Ints()
			require.True(t, ok)
			x := graphtest.Normal(3, shape...)
			require.NoError(t, s.add(x))
			require.NoError(t, s.add(x))
			damped := s.each(false)
			mean := 0.0
			for _, v := range s.sum {
				mean += v / float64(len(s.sum))
			}
			for i := range w.Len() {
				one := tensor.New(tensor.Float32, w.Shape...)
				one.F32()[i] = 1
				h := g.Clone()
				h.SetConst(n.Inputs[1], one)
				session, err := exec.New(h, exec.Options{})
				require.NoError(t, err)
				out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
				require.NoError(t, err)
				sum := 0.0
				for _, v := range out[0].F32() {
					sum += float64(v) * float64(v)
				}
				require.InDelta(t, 2*sum+0.01*mean, damped[i], 1e-4*(sum+1), "element %d", i)
			}
		})
	}
}

// uneven gives the inputs of a network channels of very different size, so that which weights matter is not told by the weights.
func uneven(b *Bench) {
	for _, list := range [][]*exec.Sample{b.Fit, b.Held} {
		for _, s := range list {
			x := s.Feeds["x"].F32()
			for i := range x {
				x[i] *= float32(math.Exp2(float64(i/144%8) - 5))
			}
		}
	}
}

func TestRangesLowerTheError(t *testing.T) {
	b, added := bench(t, &target.TRTInt8, 12, 24)
	uneven(b)
	b.Ranges = nil
	start := b.Set.Clone()
	reports, err := b.Tune(context.Background(), &Range)
	require.NoError(t, err)
	r := reports[0]
	require.True(t, r.Confirmed)
	require.Less(t, r.After.NSR, 0.9*r.Before.NSR)
	o := b.Overlay(b.Set, added)
	scales := 0
	for _, e := range o.Entries {
		if e.Input == graph.WeightInput {
			scales++
			require.Equal(t, overlay.TensorHash(e.Value), e.Base, "weights stay as they are")
			id, _ := b.Graph.LookupNode(e.Node)
			require.NotEqual(t, start.Params(start.Input(id, 1)).Scale, e.Scale)
		}
	}
	require.GreaterOrEqual(t, scales, 3)
	require.LessOrEqual(t, scales, r.Kept, "a correction of the bias alone may be best")
}

// Every scheme keeps its own: powers of two stay powers of two, zero points of symmetric weights 0, groups their number, and integer biases
// fit.
func TestRangesKeepTheScheme(t *testing.T) {
	for _, text := range []string{"int4-sym-channel", "int4-sym-tensor", "int4-sym-channel-pow2", "int4-sym-tensor-pow2",
		"uint4-asym-channel"} {
		t.Run(text, func(t *testing.T) {
			s, err := tqc.ParseScheme(text)
			require.NoError(t, err)
			platform := target.ONNXRuntime
			platform.Weight, err = s.Apply(platform.Weight)
			require.NoError(t, err)
			b, _ := benchOf(t, &platform, 6, 20)
			uneven(b)
			b.Force = true
			before := b.Set.Clone()
			_, err = b.Tune(context.Background(), &Range)
			require.NoError(t, err)
			changed := 0
			for id := range tqc.SlotID(b.Set.NumSlots()) {
				sl := b.Set.Slot(id)
				if !sl.Weight || sl.Index != 1 || !sl.State().Quantizes() {
					continue
				}
				p, q := b.Set.Params(id), before.Params(id)
				require.Len(t, p.Scale, len(q.Scale))
				for i, scale := range p.Scale {
					if scale != q.Scale[i] {
						changed++
					}
					if s.PowerOf2 {
						f, _ := math.Frexp(float64(scale))
						require.Equal(t, 0.5, f)
					}
					if !s.Asymmetric {
						require.Zero(t, p.ZeroPoint[i])
					}
				}
			}
			require.Positive(t, changed)
		})
	}
}

func TestRangesOfGroups(t *testing.T) {
	w := graphtest.Normal(5, 4, 6)
	c := tqc.Config{Policy: tqc.Symmetric | tqc.PerGroup | tqc.Linear, Format: qmath.Format{Bits: 4, QMin: -7, QMax: 7}, Axis: 1, GroupSize: 3}
	h := make([]float64, w.Len())
	for i := range h {
		h[i] = float64(i % 6)
	}
	for _, threads := range []int{1, 3} {
		p, err := ranged(w, &c, h, threads, func(p round.Part, _ int) (qmath.Grid, error) { return round.Range(c, p, 2) })
		require.NoError(t, err)
		require.Len(t, p.Scale, 8)
		for r := range 4 {
			for k := range 2 {
				at := r*6 + k*3
				g, err := round.Range(c, round.Part{Values: w.F32()[at : at+3], Importance: h[at : at+3]}, 2)
				require.NoError(t, err)
				require.Equal(t, g.Scale, p.Scale[r*2+k])
			}
		}
	}
	c.GroupSize = 4 // the second group of a row has 2
	p, err := ranged(w, &c, h, 1, func(p round.Part, i int) (qmath.Grid, error) { return qmath.Grid{Scale: float32(len(p.Values))}, nil })
	require.NoError(t, err)
	require.Equal(t, []float32{4, 2, 4, 2, 4, 2, 4, 2}, p.Scale)
}
