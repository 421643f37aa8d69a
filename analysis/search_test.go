package analysis

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/target"
)

// interacting builds a search problem in which errors do not simply add up and borders depend on neighbours.
func interacting(seed uint64, n int) SearchConfig {
	rng := rand.New(rand.NewPCG(seed, 0))
	units := make([]Unit, n)
	for i := range units {
		units[i] = Unit{Name: string(rune('a' + i)), MACs: int64(100 + rng.IntN(900)), Error: math.Exp(rng.NormFloat64() * 1.5)}
	}
	return SearchConfig{Units: units, Evaluate: func(_ context.Context, fp32 []int) (float64, int64, int, error) {
		in := make([]bool, n)
		var macs int64
		for _, i := range fp32 {
			in[i] = true
			macs += units[i].MACs
		}
		var e float64
		borders := 0
		for i := range units {
			if !in[i] {
				e += units[i].Error
				if i > 0 && !in[i-1] {
					e += 0.1 * math.Sqrt(units[i].Error*units[i-1].Error) // neighbours' errors are correlated
				}
			}
			if i > 0 && in[i] != in[i-1] {
				borders++
			}
		}
		return e, macs, borders, nil
	}}
}

func optimum(t *testing.T, cfg SearchConfig) (macs int64, borders int) {
	macs = math.MaxInt64
	for mask := range 1 << len(cfg.Units) {
		var set []int
		for m := uint(mask); m != 0; m &= m - 1 {
			set = append(set, bits.TrailingZeros(m))
		}
		metric, w, b, err := cfg.Evaluate(context.Background(), set)
		require.NoError(t, err)
		if cfg.Met(metric) && (w < macs || w == macs && b < borders) {
			macs, borders = w, b
		}
	}
	return macs, borders
}

func TestSearchAgainstExhaustiveOptimumOfTwelveOperators(t *testing.T) {
	optimal, worst := 0, 1.0
	const problems = 60
	for seed := range uint64(problems) {
		cfg := interacting(seed, 12)
		total, _, _, _ := cfg.Evaluate(context.Background(), nil)
		budget := total * []float64{0.1, 0.3, 0.6}[seed%3]
		cfg.Met = func(m float64) bool { return m <= budget }
		res, err := Search(context.Background(), cfg)
		require.NoError(t, err)
		require.LessOrEqual(t, res.After.Metric, budget)
		require.LessOrEqual(t, len(res.Points), 32+8*12)
		want, _ := optimum(t, cfg)
		if res.After.MACs == want {
			optimal++
		}
		worst = max(worst, float64(res.After.MACs)/float64(want))
	}
	t.Logf("optimal in %d of %d problems, at worst %.3f times the optimum's work", optimal, problems, worst)
	require.GreaterOrEqual(t, optimal, problems*8/10)
	require.Less(t, worst, 1.25)
}

// twelveNet has twelve operators of very different work and sensitivity, with a branch, a residual Add and a Concat between them.
const twelveNet = `graph twelve
opset 13
input x: f32[1,8,12,12]
const w1: f32[24,8,3,3] = normal(seed=1, std=0.2)
const w2: f32[24,1,3,3] = normal(seed=2, std=0.5)
const w3: f32[16,24,1,1] = normal(seed=3, std=0.3)
const w4: f32[32,16,1,1] = normal(seed=4, std=0.3)
const w5: f32[32,32,3,3] = normal(seed=5, std=0.08)
const w6: f32[16,32,1,1] = normal(seed=6, std=0.2)
const w7: f32[16,16,3,3] = normal(seed=7, std=0.1)
const w8: f32[16,16,1,1] = normal(seed=8, std=0.3)
const w9: f32[48,32,3,3] = normal(seed=9, std=0.08)
const w10: f32[48,1,3,3] = normal(seed=10, std=0.5)
const w11: f32[24,48,1,1] = normal(seed=11, std=0.2)
const w12: f32[10,24] = normal(seed=12, std=0.3)
c1 = Conv(x, w1) {pads=[1,1,1,1]}
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[1,1,1,1], group=24}
r2 = Relu(c2)
c3 = Conv(r2, w3)
c4 = Conv(c3, w4)
r4 = Relu(c4)
c5 = Conv(r4, w5) {pads=[1,1,1,1]}
r5 = Relu(c5)
c6 = Conv(r5, w6)
s6 = Add(c6, c3)
c7 = Conv(s6, w7) {pads=[1,1,1,1]}
r7 = Relu(c7)
c8 = Conv(s6, w8)
r8 = Relu(c8)
cat = Concat(r7, r8) {axis=1}
c9 = Conv(cat, w9) {pads=[1,1,1,1], strides=[2,2]}
r9 = Relu(c9)
c10 = Conv(r9, w10) {pads=[1,1,1,1], group=48}
r10 = Relu(c10)
c11 = Conv(r10, w11)
p = GlobalAveragePool(c11)
f = Flatten(p)
y = Gemm(f, w12) {transB=1}
output y
`

// On a real graph the dispatcher has a say: what is not worth its borders goes along, and work in float is not the sum of the units'.
func TestSearchOnAGraphOfTwelveOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("4,096 quantizations")
	}
	ctx := context.Background()
	data := samplesOf(2, 1, 8, 12, 12)
	g, q := configured(t, twelveNet, &target.TRTInt8, data, 1)
	ranges := extents(t, g, data)
	ev, err := NewEvaluator(ctx, g, func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }, 2, 0)
	require.NoError(t, err)
	layers := analyze(t, g, q, data, Config{Layerwise: true}).Layerwise
	require.GreaterOrEqual(t, len(layers), 11) // the Gemm is not worth its borders
	var nodes []graph.NodeID
	cfg := SearchConfig{}
	for _, l := range layers {
		id, ok := g.LookupNode(l.Node)
		require.True(t, ok)
		nodes = append(nodes, id)
		cfg.Units = append(cfg.Units, Unit{Name: l.Node, MACs: l.MACs, Error: l.NSR})
	}
	type outcome struct {
		metric  float64
		macs    int64
		borders int
	}
	known := map[string]outcome{}
	cfg.Evaluate = func(ctx context.Context, fp32 []int) (float64, int64, int, error) {
		key := fmt.Sprint(fp32)
		o, ok := known[key]
		if !ok {
			var forced []graph.NodeID
			for _, i := range fp32 {
				forced = append(forced, nodes[i])
			}
			q, a := quantized(t, g, &target.TRTInt8, ranges, 1, forced...)
			e, err := ev.Error(ctx, q)
			require.NoError(t, err)
			integer, total := a.Work()
			o = outcome{e.NSR, total - integer, len(a.Borders())}
			known[key] = o
		}
		return o.metric, o.macs, o.borders, nil
	}
	before, _, _, err := cfg.Evaluate(ctx, nil)
	require.NoError(t, err)
	for _, share := range []float64{0.8, 0.5, 0.3, 0.1} {
		cfg.Met = func(x float64) bool { return x <= share*before }
		res, err := Search(ctx, cfg)
		require.NoError(t, err)
		require.LessOrEqual(t, res.After.Metric, share*before)
		macs, borders := optimum(t, cfg)
		t.Logf("%.0f %% of the error: %d MACs in float and %d borders after %d evaluations, the optimum is %d and %d",
			100*share, res.After.MACs, res.After.Borders, len(res.Points), macs, borders)
		require.LessOrEqual(t, float64(res.After.MACs), 1.25*float64(macs))
	}
}

// Whatever the metric does, what is returned was measured and meets the budget.
func TestSearchNeverReturnsWhatViolatesTheBudget(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := interacting(seed, int(seed%8))
		metrics := map[string]float64{}
		cfg.Evaluate = func(_ context.Context, fp32 []int) (float64, int64, int, error) {
			key := fmt.Sprint(fp32)
			if _, ok := metrics[key]; !ok {
				metrics[key] = rng.Float64()
				if rng.IntN(10) == 0 {
					metrics[key] = math.NaN()
				}
			}
			return metrics[key], int64(rng.IntN(3)), rng.IntN(3), nil
		}
		cfg.Met = func(m float64) bool { return m < 0.3 }
		cfg.MaxEvaluations = int(seed % 20)
		res, err := Search(context.Background(), cfg)
		require.LessOrEqual(t, len(res.Points), max(cfg.MaxEvaluations, 2)+(1-min(cfg.MaxEvaluations, 1))*(32+8*8))
		if err != nil {
			require.ErrorIs(t, err, ErrBudget)
			require.False(t, res.After.Met)
			require.Nil(t, res.FP32)
			continue
		}
		require.Less(t, metrics[fmt.Sprint(res.FP32)], 0.3)
		require.Less(t, res.After.Metric, 0.3)
		require.True(t, res.After.Met)
	}
}

func TestSearchWithNothingToMove(t *testing.T) {
	cfg := SearchConfig{Met: func(x float64) bool { return x <= 0 }, Evaluate: func(context.Context, []int) (float64, int64, int, error) { return 0, 7, 0, nil }}
	res, err := Search(context.Background(), cfg)
	require.NoError(t, err)
	require.Equal(t, res.Before, res.After)
	cfg.Met = func(x float64) bool { return x <= -1 } // not even float reaches it
	res, err = Search(context.Background(), cfg)
	require.ErrorIs(t, err, ErrBudget)
	require.Len(t, res.Points, 1)
}

func TestSearchKeepsEverythingQuantizedWithinBudget(t *testing.T) {
	cfg := interacting(1, 5)
	cfg.Met = func(float64) bool { return true }
	res, err := Search(context.Background(), cfg)
	require.NoError(t, err)
	require.Empty(t, res.FP32)
	require.Len(t, res.Points, 1)
}

func TestSearchSaysWhenTheBudgetIsOutOfReach(t *testing.T) {
	cfg := interacting(1, 5)
	cfg.Met = func(float64) bool { return false }
	res, err := Search(context.Background(), cfg)
	require.ErrorIs(t, err, ErrBudget)
	require.Len(t, res.Points, 2)
}

func TestParetoPointsAreNotBeaten(t *testing.T) {
	p := []Point{{MACs: 1, Borders: 1, Metric: 3}, {MACs: 2, Borders: 1, Metric: 3}, {MACs: 3, Borders: 0, Metric: 1}}
	markPareto(p, false)
	require.Equal(t, []bool{true, false, true}, []bool{p[0].Pareto, p[1].Pareto, p[2].Pareto})
}
