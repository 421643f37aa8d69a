package analysis

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// What counts more than a figure is said once, in one form for all commands.
func TestHeadlines(t *testing.T) {
	centred := func(x float64) *NSR { return &NSR{NSR: x} }
	require.Equal(t, []string{
		"scores (4..11 of axis 1 of y): no signal left: NSR 1.2, all values are one",
		"output p: the two errors contradict each other: NSR 0.5 of the class scores, 0.001 of the probabilities; " +
			"the class changes in 3 of 16 rows",
		"output q: the class changes in 1 of 16 rows",
		"output n: no signal in these samples, its error does not count",
	}, Headlines([]OutputError{
		{Output: "y", Slices: []SliceError{{Name: "scores", Output: "y", Axis: 1, From: 4, To: 12, NSR: 1.2, Levels: 1,
			Finding: SignalLost, Part: true}, {Name: "y[:,0]", Output: "y", Axis: 1, From: 0, To: 1, Finding: SignalNone}}},
		{Output: "p", Error: Error{NSR: 0.001}, Centred: centred(0.5), Rows: 16, ClassesChanged: 3},
		{Output: "q", Error: Error{NSR: 0.001}, Centred: centred(0.002), Rows: 16, ClassesChanged: 1},
		{Output: "r", Error: Error{NSR: 0.001}, Centred: centred(0.002), Rows: 16},
		{Output: "n", NoSignal: true},
	}))
	require.Empty(t, Headlines(nil))
}

// Every judge says in how many rows the class changes: evaluations, evaluators, comparisons and reports.
func TestChangedClassesAreSaidByEveryJudge(t *testing.T) {
	g, q := rounding(t, `graph classes
opset 13
input x: f32[1,4,8]
const w: f32[8,6] = normal(seed=1, std=0.5)
z = MatMul(x, w)
y = Softmax(z) {axis=-1}
output y
`, map[string]float32{"z": 2})
	data := &exec.InMemory{}
	for i := range 6 {
		data.Samples = append(data.Samples, &exec.Sample{Name: fmt.Sprint(i),
			Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(i), 1, 4, 8)}})
	}
	again := func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }
	ctx := context.Background()
	want := analyze(t, g, q, data, Config{Outputs: true}).Headlines
	require.Len(t, want, 1)
	require.Regexp(t, `^output y: .*the class changes in \d+ of 24 rows$`, want[0])
	r, err := Eval(ctx, g, again(), AccuracyConfig{Simulator: q, Metrics: []task.Scoring{}})
	require.NoError(t, err)
	require.Equal(t, want, r.Headlines)
	ev, err := NewEvaluator(ctx, g, again, 2, 0)
	require.NoError(t, err)
	r, err = ev.Accuracy(ctx, q)
	require.NoError(t, err)
	require.Equal(t, want, r.Headlines)
	runs, err := CompareRuns(ctx, again(), []Entrant{{Name: "a", Graph: g, Float: g, Simulator: q},
		{Name: "b", Graph: g, Float: g, Simulator: q}}, RunsConfig{Threads: 2})
	require.NoError(t, err)
	require.Equal(t, want, runs.Figures(nil, nil).Runs[0].Headlines)
}

// An output without a signal is named by evaluations as by reports, and infinite numbers are the judge's, whatever the metric says of them.
func TestEvaluationsSayWhatDoesNotCount(t *testing.T) {
	g, q := rounding(t, `graph flags
opset 13
input x: f32[1,8]
const far: f32[] = [-90]
z = Relu(x)
s = Add(x, far)
e = Exp(s)
y = Mul(z, z)
output e
output y
`, map[string]float32{"z": 0.05, "s": 1})
	data := &exec.InMemory{}
	for i := range 4 {
		data.Samples = append(data.Samples, &exec.Sample{Name: fmt.Sprint(i),
			Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(i), 1, 8)}})
	}
	r, err := Eval(t.Context(), g, &exec.InMemory{Samples: data.Samples}, AccuracyConfig{Simulator: q, Metrics: []task.Scoring{}})
	require.NoError(t, err)
	require.Contains(t, r.Headlines, "output e: no signal in these samples, its error does not count")
	large := &exec.InMemory{Samples: []*exec.Sample{{Name: "large", Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{178.6, 1, 1,
		1, 1, 1, 1, 1}, 1, 8)}}}}
	cosine, err := task.Find("cosine")
	require.NoError(t, err)
	against, err := cosine.On(task.Labels{Float: true})
	require.NoError(t, err)
	_, err = Eval(t.Context(), g, large, AccuracyConfig{Simulator: q, Metrics: []task.Scoring{against}})
	require.ErrorIs(t, err, ErrNotFinite)
}
