package tune

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/overlay"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// kinds has every kind of operator that is rounded.
const kinds = `opset 13
input x: f32[1,8,12,12]
const w1: f32[8,4,3,3] = normal(seed=1, std=0.3)
const b1: f32[8] = normal(seed=2, std=0.5)
const w2: f32[8,3,2,3] = normal(seed=3, std=0.4)
const w3: f32[6,12] = normal(seed=4, std=0.4)
const b3: f32[12] = normal(seed=5, std=0.3)
const w4: f32[12,6] = normal(seed=6, std=0.3)
const w5: f32[4,6] = normal(seed=7, std=0.3)
c1 = Conv(x, w1, b1) {pads=[1,0,1,2], strides=[2,1], group=2} "conv"
r1 = Relu(c1)
c2 = ConvTranspose(r1, w2) {pads=[0,1,1,0], strides=[2,1], dilations=[1,2], group=2} "transposed"
r2 = Relu(c2)
g = GlobalAveragePool(r2)
f = Flatten(g)
d = Gemm(f, w3, b3) "gemm"
r3 = Relu(d)
m = MatMul(r3, w4) "matmul"
r4 = Relu(m)
y = Gemm(r4, w5) {transB=1} "last"
output y: f32[1,4]
`

func fourBits(t target.Target, c tqc.Policy) *target.Target {
	t.Weight.Policy = c
	t.Weight.Bits, t.Weight.QMin, t.Weight.QMax = 4, -7, 7
	t.BorderCost = 0 // small networks are worth it
	return &t
}

var allKinds = fourBits(target.TRTInt8, tqc.Symmetric|tqc.PerChannel|tqc.Linear)

// atEach calls f behind the prefix of every operator whose weight can be tuned.
func atEach(t *testing.T, b *Bench, f func(l *LayerBench, x *rounding)) (n int) {
	t.Helper()
	_, err := b.Sweep(context.Background(), &Proposer{Name: "look", Trials: 1,
		Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
			x, err := l.rounding(ctx)
			require.NoError(t, err)
			f(l, x)
			n++
			return nil, nil
		}})
	require.NoError(t, err)
	return n
}

// missed is the sum of squares, over the fitting samples, of what an operator without bias computes in float with its own weight, less what
// it computes with weight from the quantized inputs; less the mean of each channel if centred. With same both read the quantized inputs.
func missed(t *testing.T, l *LayerBench, weight *tensor.Tensor, same, centred bool) float64 {
	t.Helper()
	q, err := alone(l.Graph, l.Node, map[int]*tensor.Tensor{graph.WeightInput: weight})
	require.NoError(t, err)
	f, err := alone(l.Graph, l.Node, map[int]*tensor.Tensor{graph.WeightInput: l.Weight})
	require.NoError(t, err)
	list, err := layers(l.Graph, l.Set)
	require.NoError(t, err)
	axis := 1
	for _, k := range list {
		if k.node == l.Node {
			axis = k.axis
		}
	}
	var sums []float64
	squares, count := 0.0, 0
	require.NoError(t, l.Inputs(context.Background(), func(xq, xf *tensor.Tensor) error {
		if same {
			xf = xq
		}
		yq, err := q.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": xq}, nil)
		require.NoError(t, err)
		yf, err := f.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": xf}, nil)
		require.NoError(t, err)
		m, err := momentOf(yq[0], yf[0], axis)
		require.NoError(t, err)
		if sums == nil {
			sums = make([]float64, len(m.sums))
		}
		for c, s := range m.sums {
			sums[c] += s
		}
		squares, count = squares+m.errors, count+m.count
		return nil
	}))
	if centred {
		for _, s := range sums {
			squares -= s * s / float64(count)
		}
	}
	return squares
}

// The quadratic form is the squared error of the operator's output, whatever the operator; where there is a bias, of what the bias cannot
// take off.
func TestTheFormIsTheErrorOfTheOutput(t *testing.T) {
	for name, network := range map[string]string{"kinds": kinds, "shifted": shifted} {
		b, _ := benchNet(t, network, allKinds, 10, 20)
		n := atEach(t, b, func(l *LayerBench, x *rounding) {
			node := l.Graph.Node(l.Node)
			targets, err := x.targets(0)
			require.NoError(t, err)
			w := tensor.New(tensor.Float32, l.Weight.Shape...)
			sum := 0.0
			for i := range x.groups {
				p := x.problem(i, targets[i], gridsOf(&l.Set.Slot(l.Slot).Config, l.Set.Params(l.Slot)))
				require.NoError(t, p.Check())
				codes := p.Nearest()
				for _, v := range p.Loss(codes) {
					sum += v
				}
				for r := range x.m.Rows() {
					for c := range x.m.K() {
						w.F32()[x.m.At(i, r, c)] = float32(p.Value(codes, r, c))
					}
				}
			}
			require.InEpsilon(t, missed(t, l, w, true, node.Op != "MatMul"), sum, 1e-3, "%s, %s", name, node.Name)
		})
		require.Equal(t, 5, n, name)
	}
}

// Rounded weights miss the output by less than the nearest ones on the samples they were fitted on; weights moved to make up for errors of
// the inputs by less than those that were not.
func TestRoundedWeightsMissByLess(t *testing.T) {
	for _, policy := range []tqc.Policy{tqc.Symmetric | tqc.PerChannel | tqc.Linear, tqc.Symmetric | tqc.PerTensor | tqc.Linear,
		tqc.Asymmetric | tqc.PerChannel | tqc.Linear, tqc.Symmetric | tqc.PerTensor | tqc.Linear | tqc.PowerOf2} {
		b, _ := benchOf(t, fourBits(target.TRTInt8, policy), 16, 20)
		gain := 1.0
		n := atEach(t, b, func(l *LayerBench, x *rounding) {
			params := l.Set.Params(l.Slot)
			miss := func(alpha float64, p *tqc.Params) float64 {
				targets, err := x.targets(alpha)
				require.NoError(t, err)
				if p == nil {
					if p, err = x.search(targets, params); err != nil {
						require.NoError(t, err)
					}
				}
				w, err := x.weight(targets, p)
				require.NoError(t, err)
				return missed(t, l, w, alpha == 0, true)
			}
			nearest := nearestWeight(x)
			near, rounded, searched := missed(t, l, nearest, true, true), miss(0, params), miss(0, nil)
			require.LessOrEqual(t, rounded, near*1.001)
			require.LessOrEqual(t, searched, rounded*1.1) // the damped form is what falls
			gain *= searched / near
			if l.Graph.Node(l.Node).Name != "c1" { // what the first reads differs by rounding alone, which has no order
				require.Less(t, miss(1, params), 1.02*missed(t, l, unshifted(t, x, params), false, true))
			}
		})
		require.Equal(t, 5, n)
		require.Less(t, math.Pow(gain, 0.2), 0.7, "%s", policy)
	}
}

// nearestWeight is every weight's nearest number on the present scales.
func nearestWeight(x *rounding) *tensor.Tensor {
	out := tensor.New(tensor.Float32, x.l.Weight.Shape...)
	for i := range x.groups {
		p := x.problem(i, x.groups[i].w, gridsOf(x.cfg, x.l.Set.Params(x.l.Slot)))
		for k, c := range p.Nearest() {
			out.F32()[x.m.At(i, k/p.K, k%p.K)] = float32(p.Grids.At(k/p.K, k%p.K).Dequantize(c))
		}
	}
	return out
}

func unshifted(t *testing.T, x *rounding, p *tqc.Params) *tensor.Tensor {
	targets, err := x.targets(0)
	require.NoError(t, err)
	w, err := x.weight(targets, p)
	require.NoError(t, err)
	return w
}

func TestGPTQAndRidgeLowerTheErrorOfUnseenSamples(t *testing.T) {
	var want *overlay.Overlay
	for _, threads := range []int{1, 7} {
		b, added := bench(t, &target.ONNXRuntime, 48, 32)
		b.Threads = threads
		reports, err := b.Tune(context.Background(), &Bias, &GPTQ, &Ridge)
		require.NoError(t, err)
		require.True(t, reports[0].Confirmed)
		require.True(t, reports[1].Confirmed)
		require.Less(t, reports[1].After.NSR, 0.8*reports[1].Before.NSR, "beyond what the bias does")
		require.LessOrEqual(t, reports[2].After.NSR, reports[2].Before.NSR)
		o := b.Overlay(b.Set, added)
		if want == nil {
			want = o
		}
		require.Equal(t, want, o, "for any number of threads")
	}
}

// Scales of groups along the inputs, and where a bias limits a scale.
func TestMatrixOfGroups(t *testing.T) {
	c := &tqc.Config{Policy: tqc.Symmetric | tqc.PerGroup | tqc.Linear, Format: qmath.Format{Bits: 4, QMin: -7, QMax: 7}, Axis: 0,
		GroupSize: 4}
	m := matrix{graph.Linear{Groups: 1, Out: 3, In: 6, Taps: 1, Stack: 1}} // MatMul [6, 3], two groups down
	p := &tqc.Params{Scale: []float32{1, 2, 3, 4, 5, 6}, ZeroPoint: make([]int32, 6)}
	g := m.grids(0, []int{6, 3}, c, gridsOf(c, p))
	for r := range 3 {
		for i := range 6 {
			require.Equal(t, float32(1+r+i/4*3), g.At(r, i).Scale)
		}
	}
}

// Scales of groups along the inputs: codes are on the grids that quantizing the weight again finds, and miss the output by less.
func TestGroupsAreRoundedOnTheirOwnScales(t *testing.T) {
	groups := fourBits(target.TRTInt8, tqc.Symmetric|tqc.PerGroup|tqc.Linear)
	groups.Weight.GroupSize = 2
	b, _ := benchNet(t, kinds, groups, 40, 20)
	several := 0
	require.Equal(t, 5, atEach(t, b, func(l *LayerBench, x *rounding) {
		centred := l.Graph.Node(l.Node).Op != "MatMul"
		targets, err := x.targets(0)
		require.NoError(t, err)
		p, err := x.search(targets, l.Set.Params(l.Slot))
		require.NoError(t, err)
		w, err := x.weight(targets, p)
		require.NoError(t, err)
		require.Less(t, missed(t, l, w, true, centred), missed(t, l, nearestWeight(x), true, centred))
		again := tensor.New(tensor.Float32, w.Shape...)
		require.NoError(t, sim.Apply(again, w, x.cfg, p, sim.Quantize))
		require.Equal(t, w.F32(), again.F32())
		if x.cfg.Policy.Has(tqc.PerGroup) {
			several++
		}
	}))
	require.GreaterOrEqual(t, several, 3)
}

// A scale with which an integer bias would not fit is not proposed.
func TestSearchLeavesRoomForTheBias(t *testing.T) {
	b, _ := benchOf(t, fourBits(target.ONNXRuntime, tqc.Symmetric|tqc.PerChannel|tqc.Linear), 8, 20)
	id, ok := b.Graph.LookupNode("c4")
	require.True(t, ok)
	bias := b.Graph.Const(b.Graph.Node(id).Inputs[graph.BiasInput]).Clone()
	x, w := b.Set.Params(b.Set.Input(id, 0)).Scale[0], b.Set.Params(b.Set.Input(id, 1)).Scale
	bias.F32()[3] = 2.1e9 * x * w[3]
	b.Graph.SetConst(b.Graph.Node(id).Inputs[graph.BiasInput], bias)
	seen := false
	atEach(t, b, func(l *LayerBench, r *rounding) {
		if l.Node != id {
			return
		}
		targets, err := r.targets(0)
		require.NoError(t, err)
		p, err := r.search(targets, l.Set.Params(l.Slot))
		require.NoError(t, err)
		smaller := 0
		for c, s := range p.Scale {
			if seen = true; s < w[c] {
				smaller++
			}
		}
		require.Greater(t, smaller, 8)
		require.GreaterOrEqual(t, p.Scale[3], w[3])
		require.True(t, l.biasFits(3, w[3]))
		require.False(t, l.biasFits(3, 0.9*w[3]))
	})
	require.True(t, seen)
}
