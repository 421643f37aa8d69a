package analysis

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

const smoothNet = `graph smooth
opset 13
input x: f32[1,3,6,6]
const w1: f32[4,3,3,3] = normal(seed=1, std=0.3)
const w2: f32[4,4,1,1] = normal(seed=2, std=0.5)
const wf: f32[5,4] = normal(seed=3, std=0.7)
c1 = Conv(x, w1) {pads=[1,1,1,1]} "c1"
t1 = Tanh(c1) "t1"
c2 = Conv(t1, w2) "c2"
s = Add(c2, t1) "s"
g = GlobalAveragePool(s) "g"
f = Flatten(g)
z = Gemm(f, wf) {transB=1} "z"
y = Softmax(z) {axis=1} "y"
output y
`

// everywhere is a target that runs small operators on integers too.
func everywhere() *target.Target {
	tgt := target.TRTInt8
	tgt.BorderCost = 0
	return &tgt
}

// Each row is held against the definition, computed without gradients: L is evaluated by running the float network with one element of the
// operator's output moved to both sides.
func TestSensitivitiesAgreeWithDifferences(t *testing.T) {
	ctx := context.Background()
	data := samplesOf(2, 1, 3, 6, 6)
	g, q := configured(t, smoothNet, everywhere(), data, 0.7)
	rows, err := Sensitivities(ctx, g, []*sim.Simulator{q, q}, data, Config{})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, rows[0], rows[1])
	groups, err := groupsOf(g, q)
	require.NoError(t, err)
	j := NewJudge(g)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	above := 0
	for _, row := range rows[0] {
		for _, grp := range groups {
			if g.Node(grp.node).Name != row.Node {
				continue
			}
			for k, s := range data.Samples {
				want := byDifferences(t, session, j, &grp, q, k, s)
				assert.InDelta(t, want, row.losses[k], 2e-2*want+1e-9, "%s, sample %d", row.Node, k)
				if want > 0 {
					above++
				}
			}
		}
	}
	assert.GreaterOrEqual(t, above, 8)
}

// byDifferences is the row of a group on a sample, by definition.
func byDifferences(t *testing.T, session *exec.Session, j *Judge, grp *group, q *sim.Simulator, index int, s *exec.Sample) (sum float64) {
	t.Helper()
	ctx, r := context.Background(), session.NewRunner()
	kept, err := r.RunAll(ctx, s.Feeds, nil, nil)
	require.NoError(t, err)
	var quantized *tensor.Tensor
	hooks := looking(q.NewHooks(sim.View{Mask: grp.all}), func(v graph.ValueID) bool { return v == grp.output },
		func(_ *graph.Node, _ int, x *tensor.Tensor) error { quantized = x.ToRowMajor().Clone(); return nil })
	_, err = r.RunAll(ctx, s.Feeds, hooks, nil)
	require.NoError(t, err)
	scores := j.logits[0].value
	f := kept[scores].ToRowMajor()
	sign := make([]float32, f.Len())
	energy := signs(randomSigns(index, 0), sign, f.F32(), 0, f.Len(), 1, true)
	loss := func(at int, step float32) (l float64) {
		move := func(_ *graph.Node, _ int, x *tensor.Tensor) error {
			to := at
			if x.Layout == tensor.ChannelsLast {
				inner := x.Len() / x.Shape[1]
				to = at%inner*x.Shape[1] + at/inner
			}
			x.F32()[to] += step
			return nil
		}
		h := &exec.Hooks{Wants: func(v graph.ValueID) bool { return v == grp.output }, Output: move}
		all, err := r.RunAll(ctx, s.Feeds, h, nil)
		require.NoError(t, err)
		for i, x := range all[scores].ToRowMajor().F32() {
			l += float64(sign[i]) * float64(x) / math.Sqrt(energy+nsrFloor)
		}
		return l
	}
	y := kept[grp.output].ToRowMajor()
	channels := make([]float64, y.Shape[1])
	inner := y.Len() / y.Shape[1]
	for i := range y.Len() {
		const step = 1.0 / 64
		slope := (loss(i, step) - loss(i, -step)) / (2 * step)
		channels[i/inner] += slope * float64(quantized.F32()[i]-y.F32()[i])
	}
	for _, d := range channels {
		sum += d * d
	}
	return sum
}

// What is estimated is near what layerwise analysis measures, in the same order, whatever the threads and the memory.
func TestSensitivitiesAgreeWithLayerwise(t *testing.T) {
	ctx := context.Background()
	data := samplesOf(24, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.TRTInt8, data, 0.7)
	exact, err := Analyze(ctx, g, q, &exec.InMemory{Samples: data.Samples}, Config{Layerwise: true})
	require.NoError(t, err)
	rows, err := Sensitivities(ctx, g, []*sim.Simulator{q}, &exec.InMemory{Samples: data.Samples}, Config{})
	require.NoError(t, err)
	table := &SensitivityTable{Rows: rows[0]}
	table.Compare(exact.Layerwise)
	require.NotNil(t, table.Spearman)
	assert.Greater(t, *table.Spearman, 0.8)
	again, err := Sensitivities(ctx, g, []*sim.Simulator{q}, &exec.InMemory{Samples: data.Samples}, Config{Threads: 3, Memory: 1})
	require.NoError(t, err)
	assert.Equal(t, rows, again)
}

func TestSensitivitiesRefuse(t *testing.T) {
	ctx := context.Background()
	data := samplesOf(2, 1, 4, 4, 4)
	text := `graph hard
opset 16
input x: f32[1,4,4,4]
const w: f32[4,4,1,1] = normal(seed=1, std=0.3)
c = Conv(x, w) "c"
const at: f32[1,2,2,2] = uniform(seed=2, low=-1, high=1)
y = GridSample(c, at) "samples"
output y
`
	g, q := configured(t, text, everywhere(), data, 1)
	_, err := Sensitivities(ctx, g, []*sim.Simulator{q}, data, Config{})
	require.ErrorContains(t, err, `GridSample "samples": there is no rule for its gradient`)
	g, q = configured(t, smoothNet, everywhere(), samplesOf(1, 1, 3, 6, 6), 1)
	_, err = Sensitivities(ctx, g, []*sim.Simulator{q}, &exec.InMemory{}, Config{})
	require.ErrorContains(t, err, "sensitivity: the data set is empty")
	bad := graphtest.Normal(1, 1, 3, 6, 6)
	bad.F32()[0] = float32(math.NaN())
	_, err = Sensitivities(ctx, g, []*sim.Simulator{q}, &exec.InMemory{Samples: []*exec.Sample{{Name: "bad",
		Feeds: map[string]*tensor.Tensor{"x": bad}}}}, Config{})
	require.ErrorContains(t, err, "sample bad")
}

// The figures are those of scipy.stats.kendalltau and spearmanr.
func TestRankCorrelations(t *testing.T) {
	x, y := []float64{1, 2, 3, 4, 5, 6}, []float64{2, 1, 4, 4, 3, 9}
	table := &SensitivityTable{}
	var layers []LayerError
	for i := range x {
		name := string(rune('a' + i))
		table.Rows = append(table.Rows, Sensitivity{Node: name, NSR: NSR{NSR: x[i]}})
		layers = append(layers, LayerError{Node: name, Error: Error{NSR: y[i]}})
	}
	table.Compare(layers)
	assert.InDelta(t, 0.5520524474738833, *table.Kendall, 1e-12)
	assert.InDelta(t, 0.753702346348183, *table.Spearman, 1e-12)
	few := &SensitivityTable{Rows: table.Rows[:2]}
	few.Compare(layers)
	assert.Nil(t, few.Spearman)
}
