package analysis

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/assign"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/quantizer/target"
)

// problem is a search problem of two formats whose outcomes are known without running anything.
type problem struct {
	SearchConfig
	outcome func(set []int) (metric float64, macs int64, borders int)
}

func newProblem(units []assign.Unit, limit func(start float64) float64, outcome func(set []int) (float64, int64, int)) *problem {
	p := &problem{outcome: outcome}
	p.Units = units
	p.Place = func(_ context.Context, choice []int) (*Placement, error) {
		set := moved(choice)
		_, macs, borders := outcome(set)
		return &Placement{Cost: float64(macs), MACs: macs, Borders: borders, Chosen: slices.Clone(choice), Barred: len(set) == len(units)}, nil
	}
	p.Evaluate = func(_ context.Context, choice []int) (*Trial, error) {
		x, _, _ := outcome(moved(choice))
		return exactly(x), nil
	}
	start, _, _ := outcome(nil)
	p.Start = exactly(start)
	p.Goal = Goal{Limit: limit(start), Guard: NewEstimate}
	return p
}

// exactly is a trial without any spread.
func exactly(x float64) *Trial { return &Trial{Loss: x, Amounts: [][]float64{{x}}} }

func moved(choice []int) (set []int) {
	for i, k := range choice {
		if k > 0 {
			set = append(set, i)
		}
	}
	return set
}

// claimed is the point that a search would claim if it held.
func claimed(t *testing.T, res *SearchResult) *Point {
	t.Helper()
	require.NotEmpty(t, res.Candidates)
	return &res.Points[res.Candidates[len(res.Candidates)-1]]
}

// interacting builds a search problem in which errors do not simply add up and borders depend on neighbours.
func interacting(seed uint64, n int, share float64) *problem {
	rng := rand.New(rand.NewPCG(seed, 0))
	units := make([]assign.Unit, n)
	for i := range units {
		macs := float64(100 + rng.IntN(900))
		units[i] = assign.Unit{Name: string(rune('a' + i)), Options: []assign.Option{{Name: "int8", Error: math.Exp(rng.NormFloat64() * 1.5)},
			{Name: "fp32", Cost: macs}}}
	}
	return newProblem(units, func(start float64) float64 { return share * start }, func(set []int) (e float64, macs int64, borders int) {
		in := make([]bool, n)
		for _, i := range set {
			in[i] = true
			macs += int64(units[i].Options[1].Cost)
		}
		for i := range units {
			if !in[i] {
				e += units[i].Options[0].Error
				if i > 0 && !in[i-1] {
					e += 0.1 * math.Sqrt(units[i].Options[0].Error*units[i-1].Options[0].Error) // neighbours' errors are correlated
				}
			}
			if i > 0 && in[i] != in[i-1] {
				borders++
			}
		}
		return e, macs, borders
	})
}

func (p *problem) optimum() (macs int64, borders int) {
	macs = math.MaxInt64
	for mask := range 1 << len(p.Units) {
		var set []int
		for m := uint(mask); m != 0; m &= m - 1 {
			set = append(set, bits.TrailingZeros(m))
		}
		metric, w, b := p.outcome(set)
		if metric <= p.Goal.Limit && (w < macs || w == macs && b < borders) {
			macs, borders = w, b
		}
	}
	return macs, borders
}

func TestSearchAgainstExhaustiveOptimumOfTwelveOperators(t *testing.T) {
	optimal, worst, evaluations := 0, 1.0, 0
	const problems = 60
	for seed := range uint64(problems) {
		p := interacting(seed, 12, []float64{0.1, 0.3, 0.6}[seed%3])
		res, err := Search(context.Background(), p.SearchConfig)
		require.NoError(t, err)
		require.LessOrEqual(t, claimed(t, res).Metric, p.Goal.Limit)
		require.LessOrEqual(t, len(res.Points), 1+DefaultEvaluations)
		want, _ := p.optimum()
		if claimed(t, res).MACs == want {
			optimal++
		}
		evaluations += len(res.Points)
		worst = max(worst, float64(claimed(t, res).MACs)/float64(want))
	}
	t.Logf("optimal in %d of %d problems, at worst %.3f times the optimum's work, %.1f evaluations each", optimal, problems, worst,
		float64(evaluations)/problems)
	require.GreaterOrEqual(t, optimal, problems*95/100)
	require.Less(t, worst, 1.05)
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
	longtest.Need(t, "4,096 quantizations")
	ctx := context.Background()
	data := samplesOf(2, 1, 8, 12, 12)
	g, q := configured(t, twelveNet, &target.TRTInt8, data, 1)
	ranges := extents(t, g, data)
	ev, err := NewEvaluator(ctx, g, func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }, 2, 0)
	require.NoError(t, err)
	layers := analyze(t, g, q, data, Config{Layerwise: true}).Layerwise
	require.GreaterOrEqual(t, len(layers), 11) // the Gemm is not worth its borders
	var nodes []graph.NodeID
	var units []assign.Unit
	for _, l := range layers {
		id, ok := g.LookupNode(l.Node)
		require.True(t, ok)
		nodes = append(nodes, id)
		cost := float64(l.MACs + 1)
		if l.MACs == 0 { // what it costs are conversions, as the dispatcher has them
			shape, _ := g.Value(g.Node(id).Outputs[0]).Shape.Ints()
			cost += 3 * target.TRTInt8.BorderCost * float64(tensor.Count(shape))
		}
		units = append(units, assign.Unit{Name: l.Node, Options: []assign.Option{{Error: l.Loss().Mean}, {Cost: cost}}})
	}
	type outcome struct {
		metric  float64
		macs    int64
		borders int
		float   []bool // by unit
	}
	known := map[string]outcome{}
	outcomes := func(fp32 []int) (float64, int64, int) {
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
			o = outcome{e.NSR, total - integer, len(a.Borders()), make([]bool, len(nodes))}
			for i, id := range nodes {
				o.float[i] = a.Domains[id].Float()
			}
			known[key] = o
		}
		return o.metric, o.macs, o.borders
	}
	for _, share := range []float64{0.8, 0.5, 0.3, 0.1} {
		p := newProblem(units, func(start float64) float64 { return share * start }, outcomes)
		place := p.Place
		p.Place = func(ctx context.Context, choice []int) (*Placement, error) {
			at, err := place(ctx, choice)
			for i, float := range known[fmt.Sprint(moved(choice))].float {
				if float {
					at.Chosen[i] = 1
				}
			}
			return at, err
		}
		p.MaxEvaluations = 20
		res, err := Search(ctx, p.SearchConfig)
		require.NoError(t, err)
		found := claimed(t, res)
		require.LessOrEqual(t, found.Metric, p.Goal.Limit)
		macs, borders := p.optimum()
		t.Logf("%.0f %% of the error: %d MACs in float and %d borders after %d evaluations, the optimum is %d and %d",
			100*share, found.MACs, found.Borders, len(res.Points), macs, borders)
		require.LessOrEqual(t, float64(found.MACs), 1.1*float64(macs))
	}
}

// Whatever the metric does, what is returned was measured and meets the budget.
func TestSearchNeverReturnsWhatViolatesTheBudget(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		metrics := map[string]float64{}
		units := interacting(seed, int(seed%8), 1).Units
		p := newProblem(units, func(float64) float64 { return 0.3 }, func(set []int) (float64, int64, int) {
			key := fmt.Sprint(set)
			if _, ok := metrics[key]; !ok {
				if metrics[key] = rng.Float64(); rng.IntN(10) == 0 {
					metrics[key] = math.NaN()
				}
			}
			return metrics[key], int64(rng.IntN(3)), rng.IntN(3)
		})
		p.MaxEvaluations = int(seed % 20)
		res, err := Search(context.Background(), p.SearchConfig)
		require.NoError(t, err)
		if p.MaxEvaluations > 0 {
			require.LessOrEqual(t, len(res.Points), 1+p.MaxEvaluations)
		}
		for _, i := range res.Candidates {
			require.Less(t, metrics[fmt.Sprint(moved(res.Points[i].Choice))], 0.3)
			require.True(t, res.Points[i].Met)
			require.NotZero(t, i, "the start is no candidate")
		}
	}
}

func TestSearchWithNothingToMove(t *testing.T) {
	p := newProblem(nil, func(float64) float64 { return 1 }, func([]int) (float64, int64, int) { return 2, 7, 0 })
	res, err := Search(context.Background(), p.SearchConfig)
	require.NoError(t, err)
	require.Len(t, res.Points, 1)
	require.Empty(t, res.Candidates)
}

func TestSearchSaysWhenOnlyFloatMeetsTheBudget(t *testing.T) {
	p := interacting(1, 5, 1e-12)
	res, err := Search(context.Background(), p.SearchConfig)
	require.NoError(t, err)
	require.Empty(t, res.Candidates)
	require.LessOrEqual(t, len(res.Points), 1+DefaultEvaluations)
}

// An interrupted search returns what it has.
func TestSearchInterrupted(t *testing.T) {
	p := interacting(2, 12, 0.3)
	ctx, cancel := context.WithCancel(context.Background())
	evaluate, n := p.Evaluate, 0
	p.Evaluate = func(ctx context.Context, choice []int) (*Trial, error) {
		if n++; n == 4 {
			cancel()
			return nil, ctx.Err()
		}
		return evaluate(ctx, choice)
	}
	res, err := Search(ctx, p.SearchConfig)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, res.Points, 4)
}

// Candidates come from the one with most to spare to the cheapest, and each is expected to hold on other samples.
func TestCandidatesOfNoisySamples(t *testing.T) {
	p := interacting(3, 12, 0.3)
	rng := rand.New(rand.NewPCG(9, 9))
	p.Goal = Goal{Limit: p.Goal.Limit, Guard: Skewed, Held: 60, Risk: Attempt(0)}
	evaluate := p.Evaluate
	p.Evaluate = func(ctx context.Context, choice []int) (*Trial, error) {
		t, err := evaluate(ctx, choice)
		values := make([]float64, 60)
		for i := range values {
			values[i] = t.Loss * math.Exp(rng.NormFloat64()-0.5)
		}
		return &Trial{Loss: t.Loss, Amounts: [][]float64{values}}, err
	}
	res, err := Search(context.Background(), p.SearchConfig)
	require.NoError(t, err)
	require.NotEmpty(t, res.Candidates)
	for n, i := range res.Candidates {
		require.Less(t, res.Points[i].Metric, p.Goal.Limit)
		if n > 0 {
			require.Less(t, res.Points[i].Cost, res.Points[res.Candidates[n-1]].Cost)
		}
	}
}

func TestParetoPointsAreNotBeaten(t *testing.T) {
	p := []Point{{MACs: 1, Borders: 1, Metric: 3}, {MACs: 2, Borders: 1, Metric: 3}, {MACs: 3, Borders: 0, Metric: 1}}
	markPareto(p, false)
	require.Equal(t, []bool{true, false, true}, []bool{p[0].Pareto, p[1].Pareto, p[2].Pareto})
}
