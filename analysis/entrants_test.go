package analysis

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

// The p-values are those of SciPy 1.x: scipy.stats.ttest_1samp(d, 0) and binomtest(min(up, down), up+down, 0.5).
func TestPValue(t *testing.T) {
	d := []float64{0.426, 0.168, 0.94, 0.405, -0.236, 0.662, 1.604, 1.247, -0.404, -0.965, -0.323, 0.341}
	require.InDelta(t, 0.15743451278507348, PValue(d), 1e-12)
	flips := func(up, down, same int) []float64 {
		list := make([]float64, same)
		for range up {
			list = append(list, 100)
		}
		for range down {
			list = append(list, -100)
		}
		return list
	}
	for _, c := range []struct {
		up, down int
		p        float64
	}{{7, 2, 0.1796875}, {0, 5, 0.0625}, {10, 10, 1}, {12, 30, 0.007915897334896727}, {1, 0, 1}, {0, 0, 1}} {
		require.InDelta(t, c.p, PValue(flips(c.up, c.down, 100)), 1e-12, "%d and %d", c.up, c.down)
		require.InDelta(t, c.p, PValue(flips(c.down, c.up, 3)), 1e-12, "either way, and however many are the same")
	}
	require.True(t, math.IsNaN(PValue(nil)))
	require.True(t, math.IsNaN(PValue([]float64{1})))
	require.True(t, math.IsNaN(PValue([]float64{1, math.NaN(), 2})))
}

// The example of Holm's step-down: 5*0.005, 4*0.01, 3*0.03, never falling, at most 1.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005, 0.9, math.NaN()})
	require.True(t, math.IsNaN(got[5]))
	require.InDeltaSlice(t, []float64{0.04, 0.09, 0.09, 0.025, 0.9}, got[:5], 1e-15)
	require.Empty(t, Holm(nil))
}

const compareNet = `opset 13
input x: f32[1,8,4,4]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.15)
const w2: f32[6,16,4,4] = normal(seed=2, std=0.1)
c = Conv(x, w1) {pads=[1,1,1,1]}
r = Relu(c)
d = Conv(r, w2)
y = Flatten(d)
output y
`

// Runs are compared as Eval compares one with float, for any number of threads.
func TestCompareRunsAnswersAsEval(t *testing.T) {
	data := samplesOf(24, 1, 8, 4, 4)
	for i, s := range data.Samples {
		s.Label = i % 6
	}
	g, q := configured(t, compareNet, &target.TRTInt8, data, 0.1)
	again := func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }
	want, err := Eval(context.Background(), g, again(), AccuracyConfig{Simulator: q})
	require.NoError(t, err)
	require.Positive(t, want.Flips, "the quantization is coarse enough to be seen")
	points, err := Analyze(context.Background(), g, q, again(), Config{Graphwise: true})
	require.NoError(t, err)

	m, err := task.Find("top1")
	require.NoError(t, err)
	s, err := m.Open(task.Labels{})
	require.NoError(t, err)
	var first *Comparison
	for threads := range 3 {
		runs, err := CompareRuns(context.Background(), again(),
			[]Entrant{{Name: "fp32", Graph: g, Float: g}, {Name: "sim", Graph: g, Simulator: q, Float: g},
				{Name: "sim again", Graph: g, Simulator: q, Float: g}},
			RunsConfig{Metric: m, Scorer: s, Layers: 100, Threads: threads})
		require.NoError(t, err)
		c := runs.Figures(m, s)
		require.Equal(t, want.Drop, *c.Runs[1].Drop)
		require.InDelta(t, want.DropError, *c.Runs[1].DropError, 1e-9)
		require.Equal(t, want.Flips, *c.Runs[1].Flips)
		require.InDelta(t, float64(want.Top1)/24, *c.Runs[1].Score, 1e-15)
		require.Equal(t, want.NSR.NSR, c.Runs[1].NSR.NSR, "no Softmax: the plain NSR")
		require.Zero(t, c.Runs[0].NSR.NSR)
		require.Equal(t, *c.Runs[1].Drop, *c.Pairs[0].Drop, "fp32 and sim")
		require.Equal(t, want.NSR.NSR, c.Pairs[0].NSRChange)
		require.Equal(t, want.NSR.NSR, c.Pairs[0].Apart)
		require.True(t, c.Pairs[0].NSRSignificant)
		require.Equal(t, 1.0, *c.Pairs[2].P, "sim and itself")
		require.False(t, c.Pairs[2].Significant || c.Pairs[2].NSRSignificant)
		require.Zero(t, c.Pairs[2].Apart)
		require.Len(t, c.Pairs[2].Layers, len(points.Graphwise))
		for i, p := range points.Graphwise {
			require.Equal(t, p.Node, c.Pairs[2].Layers[i].Node)
			require.InDelta(t, p.NSR, c.Pairs[2].Layers[i].A, 1e-15, "as analyze has it")
			require.Zero(t, c.Pairs[2].Layers[i].Change)
		}
		if first == nil {
			first = c
		}
		require.Equal(t, first, c)
	}
}

// Two quantizations of which one is coarser are told apart, and so are the operators; recorded outputs are those of the run that gave them.
func TestCompareRunsTellsApart(t *testing.T) {
	data := samplesOf(24, 1, 8, 4, 4)
	g, fine := configured(t, compareNet, &target.TRTInt8, data, 1)
	h, coarse := configured(t, compareNet, &target.TRTInt8, data, 0.3)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	recorded := func(ctx context.Context, i int, s *exec.Sample) ([]*tensor.Tensor, error) {
		return session.NewRunner().Run(ctx, data.Samples[i].Feeds, fine.Hooks(nil))
	}
	m, err := task.Find("top1")
	require.NoError(t, err)
	s, err := m.Open(task.Labels{Float: true})
	require.NoError(t, err)
	runs, err := CompareRuns(context.Background(), &exec.InMemory{Samples: data.Samples},
		[]Entrant{{Name: "fine", Graph: g, Simulator: fine, Float: g}, {Name: "coarse", Graph: h, Simulator: coarse, Float: g},
			{Name: "recorded", Forward: recorded, Float: g}}, RunsConfig{Metric: m, Scorer: s, Layers: 24, Threads: 2})
	require.NoError(t, err)
	require.False(t, runs.Centred, "one shows its outputs only")
	c := runs.Figures(m, s)
	require.Equal(t, 1.0, *c.Runs[0].Float, "float agrees with itself")
	require.True(t, c.Pairs[0].NSRSignificant)
	require.Positive(t, c.Pairs[0].NSRChange)
	require.NotEmpty(t, c.Pairs[0].Layers)
	require.True(t, c.Pairs[0].Layers[0].Significant)
	require.Zero(t, c.Pairs[1].Apart)
	require.Equal(t, runs.All[0].Losses, runs.All[2].Losses)
	require.Empty(t, c.Pairs[1].Layers, "of outputs alone there are none")

	_, err = CompareRuns(context.Background(), &exec.InMemory{Samples: data.Samples},
		[]Entrant{{Name: "short", Float: g, Forward: func(context.Context, int, *exec.Sample) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.New(tensor.Float32, 1, 5)}, nil
		}}}, RunsConfig{})
	require.ErrorContains(t, err, "short: output \"y\": cannot compare f32[1,5] with f32[1,6]")
	var none *sim.Simulator
	_, err = CompareRuns(context.Background(), &exec.InMemory{}, []Entrant{{Name: "a", Graph: g, Simulator: none, Float: g}}, RunsConfig{})
	require.ErrorContains(t, err, "the data set is empty")
}

// Among four runs that differ by chance alone, at most about one comparison in twenty calls any pair different, by answers and by errors.
func TestPairsFindNothingWhereNothingIs(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	const trials, n = 600, 120
	claims := [2]int{}
	for range trials {
		var hits, losses [4][]float64
		for range n {
			ease, size := g.Float64(), g.ExpFloat64()
			for k := range hits {
				hit := 0.0
				if g.Float64() < ease {
					hit = 100
				}
				hits[k], losses[k] = append(hits[k], hit), append(losses[k], size*g.ExpFloat64())
			}
		}
		for kind, runs := range [][4][]float64{hits, losses} {
			var p []float64
			for _, pair := range Pairs(4) {
				p = append(p, PValue(less(runs[pair[1]], runs[pair[0]])))
			}
			if slices.Min(Holm(p)) < SignificanceLevel {
				claims[kind]++
			}
		}
	}
	for _, n := range claims {
		require.Less(t, n, 50, "5 %% of %d are 30, and 50 is beyond all chance", trials)
	}
}
